"""The chart of the class board. Pure: curves in, a figure or its words out."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from ..showing.charts import FAINT, INK, line_style, tidy
from ..showing.picture import SHARPNESS
from ..style import COLORS, count, number, times

if TYPE_CHECKING:
    from .board import Curve

MARKERS = ("o", "s", "^", "D", "v", "P")
WIDE = 44  # letters in a line of the key
LINEAR = 8  # with more cores than this the axes are logarithmic


def groups(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """The curves by what they have in common: the machine, and the script and those arguments that are not all equal.

    The largest groups come first, as many as there are colours to tell them apart.
    """
    several = len({curve.script for curve in curves}) > 1
    names = sorted({name for curve in curves for name in curve.arguments})
    differ = [name for name in names if len({curve.arguments.get(name) for curve in curves}) > 1]
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        what = [curve.script] * several + [f"{name}={curve.arguments.get(name, 'default')}" for name in differ]
        found.setdefault(": ".join([curve.machine, ", ".join(what)] if what else [curve.machine]), []).append(curve)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def board_figure(curves: Sequence[Curve]) -> Figure:
    """Speed-up over cores, one line a sweep, one style a kind of machine; beside it samples/s if they compare."""
    one_task = len({curve.task for curve in curves}) == 1
    figure = Figure(figsize=(10.2 if one_task else 9.0, 6.0), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.1)
    figure.suptitle(_title(curves), x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=INK)
    end = most(curves)
    panels = figure.subplots(1, 1 + one_task, squeeze=False)[0]
    _axes(panels[0], end, "speed-up\n(1 = one process with one thread)", lambda value: f"{value:g}×")
    panels[0].plot([1, end], [1, end], color=FAINT, linestyle=":", linewidth=1.6,
                   label="ideal: each core counts in full")
    _draw(panels[0], curves, lambda curve: curve.speedups)
    if one_task:
        _axes(panels[1], end, "samples/s", lambda value: f"{value:,.0f}")
        _draw(panels[1], curves, lambda curve: curve.rates)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=10,
                  frameon=False, handlelength=3, labelspacing=0.7)
    return figure


def alt_text(curves: Sequence[Curve]) -> str:
    """The chart in words: of each kind of machine the best speed-up."""
    parts = [f"{_title(curves)}. Speed-up over cores, one process with one thread being 1."]
    for name, group in groups(curves).items():
        found = sorted((curve.best[1], curve.best[0]) for curve in group)
        slowest, fastest = found[0], found[-1]
        best = f"{times(fastest[0])} on {count(fastest[1], 'core')}"
        rate = number(max(max(curve.rates) for curve in group), "samples/s")
        spread = f" (of {len(group)} sweeps, the others from {times(slowest[0])} on)" if len(group) > 1 else ""
        parts.append(f"{name}: at best {best}, {rate}{spread}.")
    return " ".join(parts)


def most(curves: Sequence[Curve]) -> int:
    """The largest core count."""
    return max(curve.cores[-1] for curve in curves)


def _title(curves: Sequence[Curve]) -> str:
    scripts, kinds = {curve.script for curve in curves}, {curve.machine for curve in curves}
    what = next(iter(scripts)) if len(scripts) == 1 else f"{len(scripts)} scripts"
    return f"{what} on {count(len(kinds), 'kind')} of machine: {count(len(curves), 'sweep')}"


def _axes(axes: Axes, end: int, ylabel: str, write) -> None:
    """Cores from 1 to `end`. With many of them both axes count in doublings, so that equal slopes scale equally."""
    tidy(axes, "cores in use (processes × threads of each)", ylabel)
    if end > LINEAR:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        places = [2**i for i in range(end.bit_length())]
        axes.set_xlim(0.9, end * 1.12)
    else:
        places = list(range(1, end + 1))
        axes.set_xlim(0.75, max(2, end) + 0.25)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def _draw(axes: Axes, curves: Sequence[Curve], values) -> None:
    for i, (name, group) in enumerate(groups(curves).items()):
        apart = i < len(COLORS)
        style = line_style(i) if apart else {"color": FAINT, "linestyle": "-"}
        label = name if apart else "other machines" if i == len(COLORS) else None
        if apart and len(group) > 1:
            label += f" ({len(group)} sweeps)"
        for curve in group:
            axes.plot(curve.cores, values(curve), marker=MARKERS[i % len(MARKERS)], markersize=6,
                      linewidth=1.8 if len(group) < 6 else 1.1, alpha=0.9, **style,
                      label=fill(label, WIDE) if label else None)
            label = None
    if most(curves) <= LINEAR:
        axes.set_ylim(bottom=0)
