"""A worker's traceback as its reader wants it: from the script's first line on, without the kit's frames."""

from __future__ import annotations

import os
import re
import sys
import traceback
from pathlib import Path

FAULT_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)$')
KIT = str(Path(__file__).resolve().parents[1]) + os.sep


def headline(error: BaseException) -> str:
    """For example "ValueError: boom", on one line."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe(error: BaseException, own: set[str | None]) -> tuple[str, str]:
    """(where, text): the deepest line in the files `own`, such as "ddp.py, line 23, in train", and the traceback."""
    shown = traceback.TracebackException.from_exception(error)
    _trim(shown, set())
    frames = ([frame for frame in shown.stack if frame.filename in own]
              or [frame for frame in shown.stack if not in_library(frame.filename)] or list(shown.stack))
    if isinstance(error, SyntaxError) and error.filename:  # of a module that the script imports
        where = f"{short_name(error.filename)}, line {error.lineno}"
    else:
        where = f"{short_name(frames[-1].filename)}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else ""
    return where, "".join(shown.format()).rstrip()


def of_fault(written: str) -> tuple[str, str]:
    """(where, text) of a fault in compiled code, from what Python's faulthandler wrote; both empty if nothing."""
    start = written.rfind("Fatal Python error:")
    if start < 0:
        return "", ""
    lines = written[start:].splitlines()
    frames = [(line, FAULT_FRAME.match(line)) for line in lines]
    kit = next((i for i, (_, frame) in enumerate(frames) if frame and frame[1].startswith(KIT)), len(frames))
    own = next((frame for _, frame in frames[:kit] if frame and not in_library(frame[1])), None)
    where = f"{short_name(own[1])}, line {own[2]}, in {own[3]}" if own else ""
    return where, "\n".join(lines[:kit]).strip()


def in_library(file: str) -> bool:
    """True for a file of Python or of an installed package."""
    return "site-packages" in file or file.startswith((sys.base_prefix, "<frozen"))


def _trim(shown: traceback.TracebackException, seen: set) -> None:
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    shown.stack[:] = [frame for frame in shown.stack if not frame.filename.startswith(KIT)]
    _trim(shown.__cause__, seen)
    _trim(shown.__context__, seen)


def short_name(filename: str) -> str:
    # IPython gives a cell a file name of digits, which would mean nothing to its reader.
    return "notebook cell" if "ipykernel_" in filename else os.path.basename(filename)
