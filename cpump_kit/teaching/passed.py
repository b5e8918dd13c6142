"""Which exercises a learner has passed: one empty file each in the user's data folder, which stays on this machine."""

from __future__ import annotations

from contextlib import suppress

from ..folders import kept_folder, write_whole
from ..notebook import has_page


def keep_passed(exercise: str) -> None:
    """Note that `exercise` is passed. Only where a person looks on: tests and executed lessons pass nothing."""
    if has_page():
        with suppress(OSError):  # a full disk must not make a right answer wrong
            write_whole(kept_folder("passed") / exercise, lambda file: None)


def passed() -> set[str]:
    """The names of the exercises that are passed."""
    try:
        return {file.name for file in kept_folder("passed").iterdir()}
    except OSError:
        return set()
