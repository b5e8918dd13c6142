"""Where the kit keeps files of its own on this machine, and how it writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import platformdirs


def kept_folder(name: str, *, cache: bool = False) -> Path:
    """The user's private folder `name` for the kit's files, made where it is missing.

    What can be made again goes to the system's cache folder (`cache=True`), the rest to its data folder;
    both respect XDG_CACHE_HOME and XDG_DATA_HOME. The environment variable CPUMP_CACHE puts both elsewhere.
    Raises OSError if the folder can't be made, a missing home folder included.
    """
    if elsewhere := os.environ.get("CPUMP_CACHE"):
        base = Path(elsewhere)
    else:
        find = platformdirs.user_cache_path if cache else platformdirs.user_data_path
        try:
            base = find("cpump", appauthor=False).expanduser()
        except RuntimeError as error:
            raise OSError(str(error)) from None
    folder = base / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let `write` fill a new file, private to the user, and move it to `path`: nobody ever sees half of it.

    What `write` raises, and OSError, come through; `path` is then as it was before.
    """
    handle, temporary = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
