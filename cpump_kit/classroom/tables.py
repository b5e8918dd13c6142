"""A table of words and numbers, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..notebook import Shown


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> Shown:
    """`rows` under `columns`, and the notes below, as text and as HTML."""
    lines = [columns, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    left = 'style="text-align: left"'
    head = "".join(f'<th scope="col" {left}>{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td {left}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    html = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return Shown("\n".join([*text, *notes]), html + "".join(f"<p>{escape(note)}</p>" for note in notes))
