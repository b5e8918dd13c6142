"""`cpump book`: all lessons, run on this machine, as a site of plain files that one can read without running anything.

    notebooks/solutions/NN_name.ipynb  ──▶  cpump-book/NN_name.html
    notebooks/*.md, scripts, images    ──▶  cpump-book/index.html (the map of lessons), its other texts and files
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from nbformat.v4 import new_markdown_cell, new_notebook

from .. import bootstrap
from .pages import html, run, with_page_links, without_markers


def main(arguments: list[str]) -> int:
    """`cpump book [DIR]`."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print("usage: cpump book [DIR]     (DIR: a folder for the site, cpump-book by default)")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    folder = Path(arguments[0] if arguments else "cpump-book")
    try:
        broken = book((bootstrap.CHECKOUT or bootstrap.PACKAGE) / "notebooks", folder)
    except OSError as error:
        print(f"cpump: the book cannot be written: {error}", file=sys.stderr)
        return 1
    print(f"{folder / 'index.html'} is written.")
    for name, error in broken.items():
        print(f"cpump: {name} did not run to its end: {error}", file=sys.stderr)
    return 1 if broken else 0


def book(lessons: Path, folder: Path) -> dict[str, str]:
    """Write the site; returns the lessons that did not run to their end, with the error. They have a page too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("scripts", "images"):
        if (lessons / name).is_dir():
            shutil.copytree(lessons / name, folder / name, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for text in sorted(lessons.glob("*.md")):
        _write(folder / f"{_page(text.stem)}.html", [text.read_text(encoding="utf-8")], text.stem)
    sources, broken = sorted((lessons / "solutions").glob("*.ipynb")), {}
    for i, source in enumerate(sources):
        print(f"Running {source.stem} ({i + 1} of {len(sources)}) ...", flush=True)
        notebook, error = run(source)
        around = _around(sources, i)
        head = ["This page shows the lesson as it ran on one machine, with the exercises solved."]
        if error:
            broken[source.stem] = error
            head.append(f"**The lesson did not run to its end here:** `{error.replace('`', '')}`")
        cells = [new_markdown_cell("\n\n".join([around, *head])), *notebook.cells, new_markdown_cell(around)]
        _write(folder / f"{source.stem}.html", cells, source.stem)
    return broken


def _write(path: Path, cells: list, title: str) -> None:
    """A page from cells, or from texts in Markdown."""
    cells = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    for cell in cells:
        cell.source = without_markers(cell.source)
        if cell.cell_type == "markdown":
            cell.source = with_page_links(cell.source, _page)
    path.write_text(html(new_notebook(cells=cells), title), encoding="utf-8")


def _page(name: str) -> str:
    """The map of lessons is the first page of the site; a lesson's learner copy and its solution are one page."""
    return "index" if name == "README" else name.removeprefix("solutions/")


def _around(sources: list[Path], i: int) -> str:
    """Links to the lesson before, the map and the lesson after."""
    links = [f"[before: {sources[i - 1].stem}]({sources[i - 1].name})"] if i else []
    links.append("[all lessons](README.md)")
    links += [f"[after: {sources[i + 1].stem}]({sources[i + 1].name})"] if i + 1 < len(sources) else []
    return " · ".join(links)
