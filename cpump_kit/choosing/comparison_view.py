"""The progress of a comparison under its notebook cell, and the table that it leaves there."""

from __future__ import annotations

import time
from html import escape

from ..notebook import Shown
from ..showing import live_page, panel
from ..style import count, duration, percent, times
from .approaches import APPROACHES, MODELS, Measured
from .comparison import ApproachComparison


def show(comparison: ApproachComparison) -> None:
    """Show it under the current cell until it has ended, then leave its table. Returns at once."""
    panel.follow(comparison, ComparisonView(comparison))


class ComparisonView:
    """What a panel shows of a comparison; see panel.View."""

    name = "comparison of approaches"

    def __init__(self, comparison: ApproachComparison):
        self._comparison = comparison
        self._started = time.monotonic()

    def look(self) -> None:
        pass

    def page(self, blocked: bool) -> str:
        data, going = self._comparison.data, self._comparison.going
        share, left = self._comparison.progress
        say = (f"{percent(share)}  ·  {data.done} of {count(data.to_do, 'measurement')}  ·  "
               f"{duration(time.monotonic() - self._started)} so far")
        if left is not None:
            say += f"  ·  about {duration(left, 0)} left"
        now = f"now: {going.approach}, {going.model} model" if going else "\u00a0"
        fastest = max([2.0, *(speedup for cell in data.cells if (speedup := data.speedup(cell)))])
        head = "".join(f'<th colspan="2" style="white-space:normal">{escape(model)}: {escape(MODELS[model][0])}</th>'
                       for model in data.models)
        rows = "".join(f"<tr><td>{escape(approach.name)}</td>" + "".join(
            self._cell(data.cell(approach.name, model), fastest) for model in data.models) + "</tr>"
            for approach in APPROACHES)
        table = f"<table><tr><th>speed-up</th>{head}</tr>{rows}</table>"
        return live_page.page(f"{data.state}: all approaches on this machine", say, share,
                              f'<div class="note">{escape(now)}</div>{table}', live_page.WAITING if blocked else "")

    def _cell(self, cell: Measured, fastest: float) -> str:
        data = self._comparison.data
        speedup = data.speedup(cell)
        going = cell is self._comparison.going
        said = "failed" if cell.error else times(speedup) if speedup else "…" if going else "–"
        width = f"width:{60 // len(data.models)}%"
        return f'<td class="n">{said}</td><td style="{width}">{live_page.bar((speedup or 0) / fastest)}</td>'

    def picture(self) -> None:
        """None: `plot` draws the chart where the reader asks for it."""

    def words(self) -> Shown:
        table = self._comparison.table()
        head = f"{self._comparison.state}: all approaches on this machine"
        return Shown(f"{head}\n{table!r}", f"<p><b>{escape(head)}</b></p>{table._repr_html_()}")
