"""The chart of all approaches. Pure: data in, a figure or its words out."""

from __future__ import annotations

from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ..showing.charts import FAINT, INK, tidy
from ..showing.picture import SHARPNESS
from ..style import COLORS, count, percent, times
from .approaches import APPROACHES, Comparison

# By whether the training is that of one process: told apart by hatching too.
EXACT = {"facecolor": COLORS[0], "alpha": 0.85, "linewidth": 0}
CHANGED = {**EXACT, "facecolor": COLORS[1], "hatch": "//", "edgecolor": "white"}


def approach_figure(data: Comparison) -> Figure:
    """A panel for each model; a bar for each approach, a dot for each round."""
    columns = len(data.models)
    figure = Figure(figsize=(max(7.0, 2.6 + 2.7 * columns), 5.9), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05)
    axes = figure.subplot_mosaic([data.models, ["key"] * columns], height_ratios=[6, 1])
    figure.suptitle("\n".join(fill(line, 92) for line in headlines(data)), x=0.01, ha="left", fontsize=12,
                    fontweight="bold", color=INK)
    for model in data.models:
        _draw(axes[model], data, model)
        axes[model].set_yticks(range(len(APPROACHES)), [fill(approach.name, 30) for approach in APPROACHES])
        axes[model].tick_params(axis="y", labelleft=model == data.models[0])
        axes[model].set_ylim(len(APPROACHES) - 0.5, -0.5)
    _draw_key(axes["key"], 3 if columns > 1 else 1)
    notes = [data.caption(), *(f"Note: {note}" for note in data.notes())]
    figure.supxlabel("\n".join(fill(note, 118 if columns > 1 else 88) for note in notes), x=0.01, ha="left", fontsize=9,
                     color="#444444")
    return figure


def headlines(data: Comparison) -> list[str]:
    """The fastest approach for each model, a sentence each without a full stop."""
    found = [(model, data.fastest(model)) for model in data.models]
    return [f"{model} model: {best.approach}, {times(data.speedup(best))} as fast as one core"
            for model, best in found if best is not None and data.speedup(best)] or ["nothing has been measured"]


def alt_text(data: Comparison) -> str:
    """The chart in words."""
    parts = [f"The fastest for the {line}." for line in headlines(data)]
    for model in data.models:
        told = [(approach.name, data.cell(approach.name, model)) for approach in APPROACHES]
        told = [f"{name} {times(data.speedup(cell))}, efficiency "
                f"{percent(data.speedup(cell) / (cell.processes * cell.threads))}"
                for name, cell in told if data.speedup(cell)]
        parts.append(f"Speed-up of the {model} model: {'; '.join(told) or 'not measured'}.")
    return " ".join([*parts, data.caption(), *(f"Note: {note}." for note in data.notes())])


def _draw(axes: Axes, data: Comparison, model: str) -> None:
    tidy(axes, "speed-up", "", f"{model} model")
    most, cores = 1.0, 1
    for y, approach in enumerate(APPROACHES):
        cell = data.cell(approach.name, model)
        values, middle = data.speedups(cell), data.speedup(cell)
        if middle is None:
            axes.annotate("not measured" if cell.error is None else "failed", (0, y), xytext=(4, 0),
                          textcoords="offset points", va="center", fontsize=9.5, color=FAINT)
            continue
        axes.barh(y, middle, height=0.66, **(EXACT if approach.exact else CHANGED))
        axes.plot(values, [y] * len(values), "o", color=INK, markersize=4)
        axes.annotate(times(middle), (max(middle, *values), y), xytext=(6, 0), textcoords="offset points", va="center",
                      fontsize=9.5, color=INK, bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.6})
        most, cores = max(most, *values), max(cores, cell.processes * cell.threads)
    axes.axvline(1, color=INK, linewidth=1.2)
    axes.axvline(cores, color=FAINT, linestyle=":", linewidth=1.8)
    axes.set_xlim(0, 1.28 * max(most, cores))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", visible=False)
    axes.set_title(f"{model} model, {count(cores, 'core')}", fontsize=10.5, loc="left", color=INK)


def _draw_key(axes: Axes, columns: int) -> None:
    axes.axis("off")
    axes.legend(handles=[
        Patch(**EXACT, label="the training of one process, to rounding"),
        Patch(**CHANGED, label="another training"),
        Line2D([], [], color=INK, linewidth=1.2, label="one process, one thread"),
        Line2D([], [], color=FAINT, linestyle=":", linewidth=1.8, label="ideal: each core in full"),
        Line2D([], [], color=INK, marker="o", linestyle="none", markersize=4, label="single rounds")],
        loc="upper left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize=9.5,
        borderaxespad=0)
