"""A worker's traceback as its reader wants it: from the script's first line on, without the kit's frames."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

KIT = str(Path(__file__).resolve().parent) + os.sep


def headline(error: BaseException) -> str:
    """For example "ValueError: boom", on one line."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe(error: BaseException, own: set[str | None]) -> tuple[str, str]:
    """(where, text): the deepest line in the files `own`, such as "ddp.py, line 23, in train", and the traceback."""
    shown = traceback.TracebackException.from_exception(error)
    _trim(shown, set())
    frames = [frame for frame in shown.stack if frame.filename in own] or list(shown.stack)
    if isinstance(error, SyntaxError) and error.filename:  # of a module that the script imports
        where = f"{short_name(error.filename)}, line {error.lineno}"
    else:
        where = f"{short_name(frames[-1].filename)}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else ""
    return where, "".join(shown.format()).rstrip()


def _trim(shown: traceback.TracebackException, seen: set) -> None:
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    while shown.stack and shown.stack[0].filename.startswith(KIT):
        shown.stack.pop(0)
    _trim(shown.__cause__, seen)
    _trim(shown.__context__, seen)


def short_name(filename: str) -> str:
    # IPython gives a cell a file name of digits, which would mean nothing to its reader.
    return "notebook cell" if "ipykernel_" in filename else os.path.basename(filename)
