"""`cpump slides LESSON`: a lesson as a slide show, one HTML file that needs no network.

The sources need no slide metadata: a heading begins a slide, and what does not fit on one begins another. Metadata
that a cell has ("slideshow": {"slide_type": ...}, as RISE and nbconvert know it) counts more than that rule.
Solutions stay open, since the room has not solved them yet.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from nbformat import NotebookNode

from .. import bootstrap
from ..errors import CpumpError
from ..teaching.lessons import SOLUTION, YOUR_TURN
from .pages import html, run, with_page_links
from .reset import find_lesson

ROOM = 22  # lines of text on a slide
WIDTH = 80  # letters in one of its lines
PICTURE = 16  # lines that a picture takes
HEADING = re.compile(r"^(#{1,3}) ", re.M)
FENCE = re.compile(r"^```.*?^```$", re.M | re.DOTALL)
KINDS = {"#": "slide", "##": "slide", "###": "subslide"}


def main(arguments: list[str]) -> int:
    """`cpump slides LESSON [FILE]`."""
    if not 1 <= len(arguments) <= 2 or arguments[0] in ("-h", "--help"):
        print("usage: cpump slides LESSON [FILE.html]     (LESSON: 07, ddp or 07_ddp)")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    try:
        source = find_lesson(arguments[0], (bootstrap.CHECKOUT or bootstrap.PACKAGE) / "notebooks")
        path = Path(arguments[1] if arguments[1:] else f"{source.stem}.slides.html")
        print(f"Running {source.stem}, which takes a minute or two ...", flush=True)
        notebook, error = run(source)
        page = html(as_slides(notebook), source.stem, slides=True)
        path.write_text(page, encoding="utf-8")
    except (CpumpError, OSError) as failure:
        print(f"cpump: {failure}", file=sys.stderr)
        return 1
    print(f"{path} is written: open it in a browser; arrow keys, space and Home turn the slides.")
    if error:
        print(f"cpump: {source.stem} did not run to its end: {error}", file=sys.stderr)
    return 1 if error else 0


def as_slides(notebook: NotebookNode) -> NotebookNode:
    """The notebook with its texts cut at headings, and a slide type for each cell. Checks and solutions are open."""
    cells = [piece for cell in notebook.cells for piece in _pieces(_open(cell))]
    used = 0
    for cell in cells:
        chosen = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
        lines = _lines(cell)
        if chosen == "-":
            full = used + lines > ROOM and used > 0
            chosen = KINDS[heading[1]] if heading else "subslide" if full else "-"
        used = lines if chosen in ("slide", "subslide") else used + lines
        cell.metadata.slideshow = {"slide_type": chosen}
    notebook.cells = cells
    return notebook


def _open(cell: NotebookNode) -> NotebookNode:
    if SOLUTION.search(cell.source):
        cell.source = SOLUTION.sub(YOUR_TURN.get(cell.cell_type, r"\1"), cell.source)
    if cell.cell_type == "code" and "cp.check." in cell.source:
        cell.outputs = []
    return cell


def _pieces(cell: NotebookNode) -> Iterator[NotebookNode]:
    """A text in pieces, of which all but the first begin with a heading; anything else as it is."""
    if cell.cell_type != "markdown":
        yield cell
        return
    text = with_page_links(cell.source)
    code = [(found.start(), found.end()) for found in FENCE.finditer(text)]
    cuts = [found.start() for found in HEADING.finditer(text)
            if not any(start <= found.start() < end for start, end in code)]
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(text)])):
        if text[start:end].strip():
            piece = NotebookNode(cell, metadata=NotebookNode(cell.metadata), source=text[start:end].strip())
            if i:
                piece.id = f"{cell.id}-{i}"
            yield piece


def _lines(cell: NotebookNode) -> int:
    """About how many lines of a slide the cell takes."""
    lines = sum(max(1, ceil(len(line) / WIDTH)) for line in cell.source.split("\n"))
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            lines += PICTURE
        elif "text/html" in data:
            lines += 1 + data["text/html"].count("<tr") + data["text/html"].count("<div")
        else:
            lines += str(output.get("text") or data.get("text/plain", "")).count("\n") + 1
    return lines
