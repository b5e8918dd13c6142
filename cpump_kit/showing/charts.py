"""The still picture of a run. Pure: data in, a matplotlib figure or its description in words out.

No pyplot: a figure that belongs to nobody else can be drawn in any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..style import COLORS, DASHES, TOLD_APART, count, duration, number, percent
from .curves import Curves, mean_over_ranks
from .picture import SHARPNESS

INK, FAINT = "#222222", "#767676"
STRIPS = 8  # cores drawn one by one; more of them are drawn as their sum


@dataclass(frozen=True)
class RunData:
    """What the picture of a run is drawn from.

    title    what ran, for example "ddp.py on 2 processes with 1 thread each"
    state    done, failed or stopped
    seconds  from the launch to the end; `rate` is samples/s over all ranks, or None
    ranks    one object a rank with rank, state, samples, samples_per_second, loss (see run.RankStatus)
    losses   {rank: (samples so far, loss)}
    cores    [(seconds since launch, [percent in use of each core])]
    """

    title: str
    state: str
    seconds: float
    rate: float | None = None
    ranks: Sequence[Any] = ()
    losses: Curves = field(default_factory=dict)
    cores: Sequence[tuple[float, Sequence[float]]] = ()

    @property
    def headline(self) -> str:
        after = {"done": "done in"}.get(self.state, f"{self.state} after")
        speed = f", {number(self.rate, 'samples/s')}" if self.rate is not None else ""
        return f"{self.title}: {after} {duration(self.seconds)}{speed}"


def run_figure(run: RunData) -> Figure:
    """Loss by rank, samples/s by rank and core use over time, under a sentence that says how the run went."""
    few = len(run.ranks) <= STRIPS
    parts = len(run.ranks) <= STRIPS and any(rank.parts for rank in run.ranks)
    height = (5.0 if run.cores else 3.4) + (0.9 + 0.22 * len(run.ranks) if parts else 0)
    figure = Figure(figsize=(8.6, height), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.08, hspace=0.04, wspace=0.04)
    rows, heights = [[0, 1]], [1.9]
    if run.cores:
        rows, heights = [*rows, [2, 2]], [*heights, 1]
    if parts:
        rows, heights = [*rows, [3, 3]], [*heights, 0.55 + 0.16 * len(run.ranks)]
    axes = figure.subplot_mosaic(rows, width_ratios=[1.75, 1], height_ratios=heights)
    figure.suptitle(fill(run.headline, 80), x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    _draw_losses(axes[0], run.losses)
    _draw_rates(axes[1], run.ranks, few)
    if run.cores:
        _draw_cores(axes[2], run.cores)
    if parts:
        _draw_parts(axes[3], run.ranks)
    return figure


def alt_text(run: RunData) -> str:
    """The same in words."""
    parts = [run.headline + "."]
    x, y = mean_over_ranks(run.losses)
    if len(y) > 1:
        told = sum(len(values) > 0 for _, values in run.losses.values())
        which, each = ("", "") if told == 1 else (f", the mean of {told} ranks,", " of each rank")
        parts.append(f"The loss{which} went from {number(y[0])} to {number(y[-1])} over {number(x[-1])} samples{each}.")
    known = [r.samples_per_second for r in run.ranks if r.samples_per_second is not None]
    if len(known) > 1:
        parts.append(f"The ranks processed {number(min(known))} to {number(max(known))} samples/s each.")
    for rank in run.ranks[:STRIPS]:
        if whole := sum(rank.parts.values()):
            shares = ", ".join(f"{percent(seconds / whole)} {name}" for name, seconds in rank.parts.items())
            parts.append(f"Of rank {rank.rank}'s steps, {shares}.")
    if run.cores:
        use = np.mean([percents for _, percents in run.cores], axis=0)
        parts.append(f"Of {count(len(use), 'core')}, {sum(use) / 100:.1f} were in use on average.")
    return " ".join(parts)


def tidy(axes: Axes, xlabel: str, ylabel: str, title: str = "") -> None:
    """The kit's plain axes: no box, faint grid, labels large enough for the last row of a room."""
    axes.set_xlabel(xlabel, fontsize=10.5, color=INK)
    axes.set_ylabel(ylabel, fontsize=10.5, color=INK)
    axes.set_title(title, fontsize=10.5, loc="left", color=INK)
    axes.tick_params(labelsize=10, colors=INK, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def line_style(i: int) -> dict:
    """Colour and dashes of the i-th line, as keywords for plot()."""
    dashes = DASHES[i % len(DASHES)]
    return {"color": COLORS[i % len(COLORS)], "linestyle": (0, dashes) if dashes else "-"}


def _draw_losses(axes: Axes, losses: Curves) -> None:
    each = "samples of each rank" if len(losses) > 1 else "samples"
    tidy(axes, each, "loss")
    drawn = {rank: line for rank, line in losses.items() if len(line[0])}
    if not drawn:
        _nothing(axes, "no loss was reported")
        return
    apart, alone = len(losses) <= TOLD_APART, len(drawn) == 1
    for rank, (x, y) in drawn.items():
        style = {**line_style(rank), "label": f"rank {rank}"} if apart else {"color": FAINT}
        axes.plot(x, y, linewidth=2 if alone else 1.1, alpha=1 if alone else 0.75, marker="." * (len(x) == 1), **style)
    x, y = mean_over_ranks(losses)
    if len(y) and not alone:
        name = "mean" if apart else f"mean of {len(drawn)} ranks (thin: each)"
        axes.plot(x, y, color=INK, linewidth=2.2, label=name)
    axes.set_ylim(bottom=0 if min(min(y) for _, y in drawn.values()) >= 0 else None)
    axes.set_xlim(0, max(max(x) for x, _ in drawn.values()) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    if not alone:
        axes.legend(fontsize=10, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderpad=0,
                    handlelength=2.6, columnspacing=1.4)


def _draw_rates(axes: Axes, ranks: Sequence[Any], few: bool) -> None:
    tidy(axes, "samples/s", "" if few else "rank", "speed of each rank at the end")
    rates = [rank.samples_per_second or 0.0 for rank in ranks]
    if not any(rates):
        _nothing(axes, "no samples were reported")
        return
    axes.barh(range(len(ranks)), rates, height=0.62, color=COLORS[0], alpha=0.9)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    if few:
        axes.set_yticks(range(len(ranks)), [f"rank {rank.rank}\n{rank.state}" for rank in ranks])
        axes.set_ylim(max(len(ranks), 2) - 0.4, -0.6)
        for y, rate in enumerate(rates):
            inside = rate > 0.5 * max(rates)
            axes.annotate(number(rate), (rate, y), xytext=(-5 if inside else 5, 0), textcoords="offset points",
                          va="center", ha="right" if inside else "left", fontsize=10, color="white" if inside else INK)


def _draw_cores(axes: Axes, cores: Sequence[tuple[float, Sequence[float]]]) -> None:
    """A strip for each core, filled to its use; with many cores one strip that is filled to their sum."""
    seconds = [t for t, _ in cores]
    use = np.array([percents for _, percents in cores]) / 100
    n = use.shape[1]
    if n <= STRIPS:
        tidy(axes, "seconds since the launch", "", "use of each core of this machine (a full strip is 100 %)")
        for core in range(n):
            base = n - 1 - core
            axes.fill_between(seconds, base, base + 0.86 * use[:, core], color=COLORS[2], alpha=0.75, linewidth=0)
            axes.axhspan(base, base + 0.86, color=FAINT, alpha=0.1, linewidth=0)
        axes.set_yticks(np.arange(n)[::-1] + 0.43, [f"core {core}" for core in range(n)])
        axes.set_ylim(0, n - 0.14)
        axes.grid(axis="y", visible=False)
    else:
        tidy(axes, "seconds since the launch", "cores in use", f"use of this machine's {n} cores, added up")
        axes.fill_between(seconds, 0, use.sum(axis=1), color=COLORS[2], alpha=0.75, linewidth=0)
        axes.set_ylim(0, n)
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(0, max(seconds))


def _draw_parts(axes: Axes, ranks: Sequence[Any]) -> None:
    """How each rank's step divides, told apart by colour, hatching and words."""
    tidy(axes, "share of a step", "")
    names = list(dict.fromkeys(name for rank in ranks for name in rank.parts))
    for y, rank in enumerate(ranks):
        left, whole = 0.0, sum(rank.parts.values())
        for i, name in enumerate(names):
            share = rank.parts.get(name, 0.0) / whole if whole else 0.0
            axes.barh(y, share, left=left, height=0.6, color=COLORS[i % len(COLORS)], alpha=0.85,
                      hatch=("", "//", "..", "xx", "\\\\", "--")[i % 6], edgecolor="white", linewidth=0,
                      label=name if y == 0 else None)
            if share > 0.07:
                axes.text(left + share / 2, y, percent(share), ha="center", va="center", fontsize=9.5, color=INK,
                          bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 1})
            left += share
    axes.set_yticks(range(len(ranks)), [f"rank {rank.rank}" for rank in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
    axes.legend(fontsize=10, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(names), borderpad=0)


def _nothing(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=FAINT, fontsize=10.5)
    axes.set_xticks([])
    axes.set_yticks([])
