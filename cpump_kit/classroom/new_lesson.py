"""`cpump new-lesson NAME`: a lesson that runs and passes its tests from the first minute, to be filled with an idea.

    new/lesson.md          ──▶  notebooks/solutions/NN_name.ipynb and the learner's copy, notebooks/NN_name.ipynb
    scripts/single.py      ──▶  notebooks/scripts/name.py, from which the new script differs by its idea
    new/exercises.py       ──▶  cpump_kit/teaching/exercises/name.py
    new/*_tests.py         ──▶  tests/exercises/test_name_exercises.py, tests/scripts/test_name_script.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .. import bootstrap
from ..errors import CpumpError
from ..teaching.lessons import METADATA, learners_copy

TEMPLATES = Path(__file__).parent / "new"
NAME = re.compile(r"(?:(\d\d)_)?([a-z][a-z0-9_]*)")
CODE = re.compile(r"^```python *([\w-]*)\n(.*?)\n```$", re.M | re.DOTALL)


class NewLessonError(CpumpError, ValueError):
    """A lesson that cannot be begun."""


def main(arguments: list[str]) -> int:
    """`cpump new-lesson NAME`."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: cpump new-lesson NAME     (for example pruning, or 12_pruning)")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    try:
        made = new_lesson(arguments[0], bootstrap.CHECKOUT)
    except (CpumpError, OSError) as error:
        print(f"cpump: {error}", file=sys.stderr)
        return 1
    print("Made, each with a first idea in it that runs:", *(f"  {path}" for path in made), sep="\n")
    print("Change them, and add your lesson's line to notebooks/README.md. CONTRIBUTING.md tells what a lesson needs.")
    return 0


def new_lesson(name: str, checkout: Path | None) -> list[Path]:
    """Write the files of a lesson; returns their paths in the checkout. Raises NewLessonError, and overwrites nothing.

    Without a number the lesson gets the next free one.
    """
    if checkout is None:
        raise NewLessonError("a lesson is begun in a checkout: clone the repository and run the command there")
    found = NAME.fullmatch(name)
    if not found:
        raise NewLessonError(f"a lesson's name is small letters, digits and _, for example 12_pruning, not {name!r}")
    solutions = checkout / "notebooks" / "solutions"
    taken = [int(path.name[:2]) for path in solutions.glob("[0-9][0-9]_*.ipynb")]
    number, word = found[1] or f"{max(taken, default=-1) + 1:02}", found[2]
    if int(number) in taken:
        raise NewLessonError(f"there is a lesson {number} already; the next free number is {max(taken) + 1:02}")

    def filled(text: str) -> str:
        title = word.replace("_", " ").capitalize()
        return text.replace("NUMBER", number).replace("TITLE", title).replace("NAME", word)

    def template(file: str) -> str:
        return filled((TEMPLATES / file).read_text(encoding="utf-8"))

    single = (checkout / "notebooks" / "scripts" / "single.py").read_text(encoding="utf-8")
    script = re.sub('^""".*?"""', '"""TITLE: say in one line what is new."""', single, count=1, flags=re.DOTALL)
    texts = {
        solutions / f"{number}_{word}.ipynb": _notebook(template("lesson.md"), number),
        checkout / f"notebooks/scripts/{word}.py": filled(script),
        checkout / f"cpump_kit/teaching/exercises/{word}.py": template("exercises.py"),
        checkout / f"tests/exercises/test_{word}_exercises.py": template("exercise_tests.py"),
        checkout / f"tests/scripts/test_{word}_script.py": template("script_tests.py")}
    if there := [path for path in texts if path.exists()]:
        raise NewLessonError(f"{there[0].relative_to(checkout)} is there already: choose another name")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    source, *others = texts
    copy = checkout / "notebooks" / source.name
    copy.write_text(learners_copy(source), encoding="utf-8", newline="\n")
    return [path.relative_to(checkout) for path in (source, copy, *others)]


def _notebook(text: str, number: str) -> str:
    """A notebook from Markdown, in which a block of Python is a code cell; a word after `python` is its tag."""
    cells, end = [], 0
    for block in CODE.finditer(text):
        cells += [new_markdown_cell(between)] if (between := text[end:block.start()].strip()) else []
        cells.append(new_code_cell(block[2], metadata={"tags": [block[1]]} if block[1] else {}))
        end = block.end()
    cells.append(new_markdown_cell(text[end:].strip()))
    for i, cell in enumerate(cells):
        cell.id = f"{number}-{i:03}"
    return nbformat.writes(new_notebook(cells=cells, metadata=METADATA, nbformat_minor=5)) + "\n"
