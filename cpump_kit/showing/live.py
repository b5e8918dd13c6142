"""The live view of a run under its notebook cell."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..machine import CoreUse
from ..notebook import Shown
from ..style import count, duration, number, percent
from . import live_page, panel

if TYPE_CHECKING:
    from ..running.run import Run
    from .picture import Picture

KEPT = 400  # readings of the core use that are kept, evenly thinned beyond
PRINTED = 50  # last lines of the workers that stay below the picture
LOSSES = 120  # points of a live line: a screen shows no more


def show(run: Run) -> None:
    """Show `run` under the current cell until it has ended, then leave a picture. Returns at once.

    Outside a notebook nothing happens.
    """
    panel.follow(run, RunView(run))


class RunView:
    """What a panel shows of a run; see panel.View."""

    def __init__(self, run: Run):
        self._run = run
        each = " each" if run.nprocs > 1 else ""
        self.name = f"{run.script} on {count(run.nprocs, 'process')} with {count(run.threads, 'thread')}{each}"
        self._cores: list[tuple[float, list[float]]] = []
        self._latest: list[float] = []
        self._stride, self._looks = 1, 0
        self._where: str | None = None
        self._core_use = CoreUse()

    def look(self) -> None:
        use = self._core_use()
        self._looks += 1
        if self._looks % self._stride == 0 or not self._cores:
            self._cores.append((self._run.seconds, use))
        self._latest = use
        if len(self._cores) > KEPT:
            del self._cores[::2]
            self._stride *= 2

    def page(self, blocked: bool) -> str:
        run, ranks = self._run, self._run.ranks
        share, left = run.progress
        totals = [rank.total for rank in ranks]
        plot = live_page.loss_plot(run.series("loss", LOSSES), max(totals) if None not in totals else None)
        cores = live_page.core_table(self._latest, [use for _, use in self._cores])
        hint = " ".join([*run.notes, *([live_page.WAITING] if blocked else [])])
        return live_page.page(
            f"{run.state}: {self.name}", self._progress(share, left), share,
            f'<div class="cols"><div>{plot}</div><div>{live_page.rank_table(ranks)}{cores}</div></div>'
            f"{live_page.places(run.standstill or self._where)}{live_page.printed(run.output)}", hint)

    def ask_where(self) -> None:
        self._where = f"After {duration(self._run.seconds)}:\n{self._run.where()}"

    def _progress(self, share: float | None, left: float | None) -> str:
        run = self._run
        parts = [percent(share) if share is not None else None,
                 number(run.samples_per_second, "samples/s") if run.samples_per_second is not None else None,
                 f"{duration(run.seconds)} so far",
                 f"about {duration(left, 0)} left" if left is not None and run.state == "training" else None]
        return "  ·  ".join(part for part in parts if part)

    def picture(self) -> Picture:
        from .charts import RunData, alt_text, run_figure  # matplotlib is loaded now and not while the run goes on
        from .picture import Picture

        run = self._run
        data = RunData(self.name, run.state, run.seconds, run.samples_per_second, run.ranks, run.series("loss"),
                       self._cores)
        return Picture(run_figure(data), alt_text(data))

    def words(self) -> Shown:
        """What a picture cannot hold: the error to copy, the traceback, what the workers printed."""
        run, parts = self._run, []
        parts += [f"<p>Note: {escape(note)}</p>" for note in run.notes]
        if run.error:
            parts.append(f"<p>{escape(run.error)}</p>")
        if run.traceback:
            parts.append(f"<details><summary>The traceback</summary><pre>{escape(run.traceback)}</pre></details>")
        lines = run.output[-PRINTED:]
        if lines:
            parts.append(f"<details><summary>What the workers printed, the last {count(len(lines), 'line')}</summary>"
                         f"{live_page.printed(lines, len(lines))}</details>")
            if run.output_since(0)[0] > len(lines):
                parts.append(f"<p>All of it is in {escape(str(run.folder / 'rank0.log'))}, a file for each rank, "
                             "as long as the run's object lives in this kernel.</p>")
        return Shown(run.error or "", "".join(parts))
