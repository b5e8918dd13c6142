"""The table of all approaches, on a page and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..style import memory, number, percent, times
from .approaches import APPROACHES, Approach, Comparison, Measured

COLUMNS = ("model", "processes × threads", "samples/s", "speed-up", "efficiency", "memory", "loss")


@dataclass(frozen=True)
class ApproachTable:
    """(approach, a row of `COLUMNS` for each model) and, below them, the caption and the notes."""

    parts: Sequence[tuple[Approach, Sequence[tuple[str, ...]]]]
    caption: str
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        lines = [COLUMNS, *(row for _, rows in self.parts for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]

        def line(row: Sequence[str]) -> str:
            return "  " + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])

        text = [line(COLUMNS)]
        for approach, rows in self.parts:
            text += [approach.name, *map(line, rows), f"  what can go wrong: {approach.goes_wrong}",
                     f"  use it when: {approach.use_when}"]
        return "\n".join([*text, self.caption, *(f"Note: {note}." for note in self.notes)])

    def _repr_html_(self) -> str:
        names = ("approach", *COLUMNS, "what can go wrong", "use it when")
        head = "".join(f'<th style="text-align:{"right" if name in COLUMNS[1:] else "left"}">{name}</th>'
                       for name in names)
        body = "".join(_html_rows(approach, rows) for approach, rows in self.parts)
        notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in self.notes)
        return (f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
                f"<p>{escape(self.caption)}</p>{notes}")


def table(data: Comparison) -> ApproachTable:
    """What has been measured so far."""
    parts = [(approach, [_row(data, data.cell(approach.name, model)) for model in data.models])
             for approach in APPROACHES]
    return ApproachTable(parts, data.caption(), data.notes())


def _row(data: Comparison, cell: Measured) -> tuple[str, ...]:
    speedup = data.speedup(cell)
    share = "–" if speedup is None else percent(speedup / (cell.processes * cell.threads))
    taken = "–" if cell.memory is None else memory(cell.memory)
    loss = "–" if cell.loss is None else f"{cell.loss:.3f}"
    return (cell.model, f"{cell.processes} × {cell.threads}", number(cell.rate), times(speedup), share, taken, loss)


def _html_rows(approach: Approach, rows: Sequence[tuple[str, ...]]) -> str:
    """The approach's name and the words about it stand beside all of its rows."""
    side = 'style="text-align:left; vertical-align:top; white-space:normal; min-width:9em"'
    cell = '<td style="text-align:{}; white-space:nowrap; vertical-align:top">{}</td>'
    lines = ["".join(cell.format("right" if i else "left", escape(value)) for i, value in enumerate(row))
             for row in rows]
    lines[0] = (f'<th {side} rowspan="{len(rows)}" scope="rowgroup">{escape(approach.name)}</th>{lines[0]}'
                + "".join(f'<td {side} rowspan="{len(rows)}">{escape(words)}</td>'
                          for words in (approach.goes_wrong, approach.use_when)))
    return "".join(f"<tr>{line}</tr>" for line in lines)
