"""The progress of a sweep under its notebook cell, and the table that it leaves there."""

from __future__ import annotations

import time
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from ..notebook import Shown
from ..showing import live_page, panel
from ..showing.live_scaling import scaling_plot
from ..style import count, duration, number, percent, times

if TYPE_CHECKING:
    from .sweep import Sweep
    from .sweep_data import Setting


def show(sweep: Sweep) -> None:
    """Show `sweep` under the current cell until it has ended, then leave its table. Returns at once."""
    panel.follow(sweep, SweepView(sweep))


class SweepView:
    """What a panel shows of a sweep; see panel.View."""

    def __init__(self, sweep: Sweep):
        self._sweep = sweep
        self._started = time.monotonic()
        self.name = f"sweep of {sweep.data.label}"

    def look(self) -> None:
        pass

    def page(self, blocked: bool) -> str:
        sweep, data = self._sweep, self._sweep.data
        share, left = sweep.progress
        so_far = duration(time.monotonic() - self._started)
        say = f"{percent(share)}  ·  {data.done} of {count(data.to_do, 'measurement')}  ·  {so_far} so far"
        if left is not None:
            say += f"  ·  about {duration(left, 0)} left"
        fastest = max([2.0, *(median(data.speedups(s)) for s in data.all_settings if data.speedups(s))])
        rows = "".join(self._row(setting, fastest) for setting in data.all_settings)
        table = ('<table><tr><th>script</th><th class="n">processes</th><th class="n">threads each</th><th>repeats</th>'
                 f'<th class="n">samples/s</th><th class="n">speed-up</th><th class="wide"></th></tr>{rows}</table>')
        hint = live_page.WAITING if blocked else ""
        body = f'<div class="cols"><div>{self._plot()}</div><div></div></div>{table}'
        return live_page.page(f"{sweep.state}: how {data.label} scales on this machine", say, share, body, hint)

    def _plot(self) -> str:
        data = self._sweep.data
        over, points = data.over_threads, {}
        for setting in data.settings:
            points[setting.threads if over else setting.processes] = data.speedups(setting)
        threads = data.speedups(data.all_threads) if data.all_threads else []
        per = data.settings[0].processes if over else data.settings[0].threads
        each = "threads of one process" if over else f"processes, {count(per, 'thread')} each"
        return scaling_plot(points, list(points), threads, each, per)

    def _row(self, setting: Setting, fastest: float) -> str:
        data = self._sweep.data
        done = len(setting.rates)
        going = setting is self._sweep.going and done < data.repeats
        marks = "●" * done + "◐" * going + "○" * (data.repeats - done - going)
        speedups = data.speedups(setting)
        speedup = median(speedups) if speedups else None
        return (f'<tr><td>{escape(setting.script)}</td><td class="n">{setting.processes}</td><td class="n">'
                f'{setting.threads}</td><td title="{done} of {data.repeats}">{marks}</td>'
                f'<td class="n">{number(setting.rate)}</td><td class="n">{times(speedup)}</td>'
                f"<td>{live_page.bar((speedup or 0) / fastest)}</td></tr>")

    def picture(self) -> None:
        """None: `plot` draws the chart where the reader asks for it, with the guess in it."""

    def words(self) -> Shown:
        table = self._sweep.table()
        head = f"{self._sweep.state}: how {self._sweep.data.label} scales on this machine"
        return Shown(f"{head}\n{table!r}", f"<p><b>{escape(head)}</b></p>{table._repr_html_()}")
