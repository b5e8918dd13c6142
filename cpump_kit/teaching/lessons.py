"""From a lesson's source, the notebook with its solutions in place, to the learner's copy.

    notebooks/solutions/NN_name.ipynb  ──▶  notebooks/NN_name.ipynb

What stands between the lines `### BEGIN SOLUTION` and `### END SOLUTION` (nbgrader's convention) becomes one line for
the learner to fill in. Cells tagged "solved-copy" are left out, outputs too, and only tags remain of the metadata.

    python -m cpump_kit.teaching.lessons            writes the copies that are out of date
    python -m cpump_kit.teaching.lessons --check    names them instead, exit code 1 if there are any
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOLUTION = re.compile(r"^([ \t]*)### BEGIN SOLUTION[ \t]*\n.*?^[ \t]*### END SOLUTION[ \t]*$", re.DOTALL | re.MULTILINE)
MARKER = re.compile(r"### (BEGIN|END) SOLUTION")
YOUR_TURN = {"code": r"\1...  # your turn", "markdown": "*Your turn: write your answer here.*"}
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}


class LessonError(ValueError):
    """A source that cannot be turned into a learner's copy."""


def learners_copy(source: Path) -> str:
    """The text of the learner's notebook. Raises LessonError for a marker without its counterpart."""
    notebook = nbformat.read(source, as_version=4)
    cells = [cell for cell in notebook.cells if "solved-copy" not in cell.metadata.get("tags", [])]
    for number, cell in enumerate(cells, 1):
        cell.source = SOLUTION.sub(YOUR_TURN.get(cell.cell_type, r"\1"), cell.source)
        if found := MARKER.search(cell.source):
            raise LessonError(f"{source.name}, cell {number}: '{found[0]}' stands without its counterpart")
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    copy = nbformat.v4.new_notebook(cells=cells, metadata=METADATA, nbformat_minor=5)
    nbformat.validate(copy)
    return nbformat.writes(copy) + "\n"


def out_of_date(folder: Path) -> dict[Path, str]:
    """The learner's copies that differ from what their sources give, with the text that they should have."""
    wanted = {folder / source.name: learners_copy(source) for source in sorted((folder / "solutions").glob("*.ipynb"))}
    return {copy: text for copy, text in wanted.items()
            if not copy.exists() or copy.read_text(encoding="utf-8") != text}


def main(arguments: list[str], folder: Path = NOTEBOOKS) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m cpump_kit.teaching.lessons [--check]", file=sys.stderr)
        return 2
    late = out_of_date(folder)
    for copy, text in late.items():
        if arguments:
            print(f"{copy.name} is out of date: run python -m cpump_kit.teaching.lessons")
        else:
            copy.write_text(text, encoding="utf-8", newline="\n")
            print(f"{copy.name} written")
    return 1 if arguments and late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
