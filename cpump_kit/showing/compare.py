"""`compare`: several runs in one picture: loss over samples, loss over seconds, and throughput."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..errors import CpumpError
from ..style import COLORS, count, duration, number
from .charts import FAINT, INK, line_style, tidy
from .curves import mean_over_ranks
from .picture import SHARPNESS, Picture

if TYPE_CHECKING:
    from ..running.run import Run

MOST = len(COLORS)
STRETCHES = 8  # in which the speed of a run is taken, to show its spread
WARM_UP = 0.2  # the share of a run that counts as its warm-up


class CompareError(CpumpError, ValueError):
    """Runs that cannot be compared."""


@dataclass(frozen=True)
class Compared:
    """One run as the picture draws it.

    samples, seconds   (x, the ranks' mean loss): over the samples of all ranks, over seconds since the first step
    rates              samples/s of all ranks in equal stretches of time, without the warm-up
    """

    label: str
    samples: tuple[np.ndarray, np.ndarray]
    seconds: tuple[np.ndarray, np.ndarray]
    rates: tuple[float, ...]


def compare(*runs: Run, **named: Run) -> Picture:
    """Draw runs beside one another: `compare(one, two)`, or with names of yours, `compare(gloo=one, hook=two)`.

    Waits for runs that go on. Loss is the mean over ranks; throughput is that of all ranks, its median and the span
    from the slowest to the fastest stretch. Raises CompareError for nothing to compare, and for what is no run.
    """
    labelled = [*zip(_labels(runs), runs), *((name.replace("_", " "), run) for name, run in named.items())]
    if not 1 <= len(labelled) <= MOST:
        raise CompareError(f"compare takes 1 to {MOST} runs, for example cp.compare(run_a, run_b), not {len(labelled)}")
    for label, run in labelled:
        if not hasattr(run, "series"):
            raise CompareError(f"compare takes runs, as cp.launch gives them, and {label} is of type "
                               f"{type(run).__name__}")
        run.wait()
    data = [_compared(label, run) for label, run in labelled]
    return Picture(compare_figure(data), alt_text(data))


def _labels(runs) -> list[str]:
    """The script and the processes; numbered where that does not tell two runs apart."""
    plain = [f"{run.script}, {count(run.nprocs, 'process')}" if hasattr(run, "series") else "one of them"
             for run in runs]
    several, seen, labels = Counter(plain), Counter(), []
    for label in plain:
        seen[label] += 1
        labels.append(f"{label} ({seen[label]})" if several[label] > 1 else label)
    return labels


def _compared(label: str, run: Run) -> Compared:
    x, losses = mean_over_ranks(run.series("loss"))
    by_rank = run.series("loss", over="seconds")
    times, over_time = mean_over_ranks(by_rank)
    if not len(times):  # the ranks have trained one after another
        times, over_time = (np.asarray(values) for values in by_rank[0])
    begun = min((values[0] for values, _ in by_rank.values() if len(values)), default=0.0)
    label += "" if run.state == "done" else f" ({run.state})"
    return Compared(label, (x * run.nprocs, losses), (times - begun, over_time), _rates(run))


def _rates(run: Run) -> tuple[float, ...]:
    """Samples/s of all ranks together, stretch by stretch."""
    ranks = [(np.asarray(times), np.asarray(so_far)) for times, so_far in
             run.series("samples so far", points=10_000, over="seconds").values()]
    if not ranks or any(len(times) < 4 for times, _ in ranks):
        return ()
    start, end = max(times[0] for times, _ in ranks), min(times[-1] for times, _ in ranks)
    edges = np.linspace(start + WARM_UP * (end - start), end, STRETCHES + 1)
    if edges[-1] <= edges[0]:
        return ()
    total = sum(np.interp(edges, times, so_far) for times, so_far in ranks)
    return tuple((np.diff(total) / np.diff(edges)).tolist())


def compare_figure(runs: list[Compared]) -> Figure:
    figure = Figure(figsize=(9.2, 3.3 + 0.3 * len(runs)), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.08)
    axes = figure.subplot_mosaic([["samples", "seconds"], ["rates", "rates"]],
                                 height_ratios=[2.4, 0.5 + 0.32 * len(runs)])
    _draw_losses(axes["samples"], [run.samples for run in runs], "samples of all ranks")
    _draw_losses(axes["seconds"], [run.seconds for run in runs], "seconds since the first step")
    _draw_rates(axes["rates"], runs)
    entries = [axes["samples"].plot([], [], linewidth=2, **line_style(i))[0] for i in range(len(runs))]
    figure.legend(entries, [fill(run.label, 40) for run in runs], loc="outside upper left", ncols=min(3, len(runs)),
                  frameon=False, fontsize=10.5, handlelength=2.8)
    return figure


def _draw_losses(axes: Axes, curves: list[tuple[np.ndarray, np.ndarray]], xlabel: str) -> None:
    tidy(axes, xlabel, "loss")
    for i, (x, y) in enumerate(curves):
        axes.plot(x, y, linewidth=1.8, **line_style(i))
    if not any(len(y) for _, y in curves):
        axes.text(0.5, 0.5, "no loss was reported", transform=axes.transAxes, ha="center", color=FAINT)
        return
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0 if min(y.min() for _, y in curves if len(y)) >= 0 else None)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _draw_rates(axes: Axes, runs: list[Compared]) -> None:
    tidy(axes, "samples/s of all ranks (bar: median; line: slowest to fastest stretch)", "")
    for i, run in enumerate(runs):
        if run.rates:
            middle, low, high = median(run.rates), min(run.rates), max(run.rates)
            axes.barh(i, middle, height=0.62, color=COLORS[i % len(COLORS)], alpha=0.85)
            axes.plot([low, high], [i, i], color=INK, linewidth=2, solid_capstyle="butt")
            axes.annotate(number(middle), (max(middle, high), i), xytext=(6, 0), textcoords="offset points",
                          va="center", fontsize=10.5, color=INK)
        else:
            axes.text(0, i, " no samples were reported", va="center", color=FAINT, fontsize=10)
    axes.set_yticks(range(len(runs)), [fill(run.label, 28) for run in runs])
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def alt_text(runs: list[Compared]) -> str:
    parts = [f"{count(len(runs), 'run')} beside one another."]
    for run in runs:
        said = []
        if len(run.samples[1]):
            said.append(f"the loss went from {number(run.samples[1][0])} to {number(run.samples[1][-1])} over "
                        f"{number(run.samples[0][-1])} samples")
        if len(run.seconds[0]):
            said.append(f"the last of them after {duration(run.seconds[0][-1])}")
        if run.rates:
            said.append(f"{number(median(run.rates))} samples/s, from {number(min(run.rates))} to "
                        f"{number(max(run.rates))} in stretches")
        parts.append(f"{run.label}: {'; '.join(said) or 'nothing was reported'}.")
    return " ".join(parts)
