"""`progress`: which lessons were run, which exercises are passed, what comes next. All of it stays on this machine.

How far a lesson was run stands in its own notebook, as the numbers that Jupyter gives to cells, up to its last save.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from .. import bootstrap
from ..errors import CpumpError
from ..notebook import Shown, show_both
from ..teaching.exercises import EXERCISES
from ..teaching.passed import passed
from .tables import table

LESSON = re.compile(r"\d\d_\w+\.ipynb")
CHECK = re.compile(r"\bcp\.check\.(\w+)\(")


class ProgressError(CpumpError, ValueError):
    """A folder without lessons."""


@dataclass(frozen=True)
class Lesson:
    """name "07_ddp", title "07 · Distributed data parallel"; code cells run and in all; exercises passed and open."""

    name: str
    title: str
    run: int
    cells: int
    passed: tuple[str, ...]
    still_open: tuple[str, ...]

    @property
    def done(self) -> bool:
        return self.run >= self.cells and not self.still_open

    @property
    def cells_in_words(self) -> str:
        return "not begun" if not self.run else "all run" if self.run >= self.cells else f"{self.run} of {self.cells}"

    @property
    def exercises_in_words(self) -> str:
        if not self.passed and not self.still_open:
            return "none"
        words = f"{len(self.passed)} of {len(self.passed) + len(self.still_open)} passed"
        return words + (f" (open: {', '.join(self.still_open)})" if self.still_open and self.passed else "")


def progress() -> None:
    """Show how far the lessons in this notebook's folder are: a row a lesson, and what comes next.

    Raises ProgressError where no lesson is in the current folder.
    """
    shown = as_table(lessons_in(Path.cwd()))
    show_both(shown.text, shown.html)


def main(arguments: list[str]) -> int:
    """`cpump progress [DIR]`."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print("usage: cpump progress [DIR]     (DIR: the folder of your lessons)")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    try:
        print(as_table(lessons_in(lessons_folder(*arguments))).text)
    except ProgressError as error:
        print(f"cpump: {error}")
        return 1
    return 0


def lessons_folder(named: str | None = None) -> Path:
    """The learner's lessons: the folder that is named, this one, the copy that `cpump lab` makes, the checkout's."""
    if named is not None:
        return Path(named).expanduser()
    here = Path.cwd()
    places = [here, here / "cpump-lessons", *([bootstrap.CHECKOUT / "notebooks"] if bootstrap.CHECKOUT else [])]
    return next((place for place in places if _notebooks(place)), here)


def lessons_in(folder: Path) -> list[Lesson]:
    """The lessons of a folder in their order. Raises ProgressError if it has none."""
    found = [_lesson(path) for path in _notebooks(folder)]
    if not found:
        raise ProgressError(f"there are no lessons in {folder}: go to the folder of your lessons, or name it")
    return found


def as_table(lessons: Sequence[Lesson]) -> Shown:
    """A row a lesson, then a line with what comes next."""
    rows = [(lesson.title, lesson.cells_in_words, lesson.exercises_in_words) for lesson in lessons]
    return table(("lesson", "cells", "exercises"), rows, [what_next(lessons)])


def what_next(lessons: Sequence[Lesson]) -> str:
    """The first lesson that is not done, and what is missing there."""
    for lesson in lessons:
        if not lesson.run:
            return f"Next: {lesson.title}"
        if lesson.run < lesson.cells:
            return f"Next: go on with {lesson.title}"
        if lesson.still_open:
            return f"Next: the exercise {lesson.still_open[0]} of {lesson.title}"
    return "Every lesson is run and every exercise passed."


def _notebooks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.ipynb") if LESSON.fullmatch(path.name))


def _lesson(path: Path) -> Lesson:
    try:
        book = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):  # damaged
        return Lesson(path.stem, f"{path.stem} (cannot be read)", 0, 0, (), ())
    code = [cell for cell in book.cells if cell.cell_type == "code" and cell.source.strip()]
    run = sum(cell.execution_count is not None for cell in code)
    heading = re.search(r"^# (.+)$", "\n".join(cell.source for cell in book.cells[:1]), re.M)
    asked = dict.fromkeys(CHECK.findall("\n".join(cell.source for cell in code)))  # each once, in order
    done, names = passed(), [name for name in asked if name in EXERCISES]
    return Lesson(path.stem, heading[1].strip() if heading else path.stem, run, len(code),
                  tuple(name for name in names if name in done), tuple(name for name in names if name not in done))
