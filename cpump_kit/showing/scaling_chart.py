"""The scaling chart: speed-up and efficiency over processes. Pure: data in, a figure or its words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator

from ..measuring.laws import Fit, fit_amdahl, fit_usl, in_words
from ..style import COLORS, count, percent, times
from .charts import FAINT, INK, line_style, tidy
from .picture import SHARPNESS

MEASURED, AMDAHL, USL, THREADS = COLORS[0], COLORS[1], COLORS[3], COLORS[2]
DASHED = (0, (4, 3))
WIDE = 32  # letters in a line of the key


@dataclass(frozen=True)
class ScalingData:
    """What the scaling chart is drawn from.

    script       what ran, to name it
    speedups     {processes (or threads): [speed-up of each repeat]}, 1.0 being the baseline's median samples/s
    threads      cores behind each of these counts: the intra-op threads of each process
    all_threads  (threads, [speed-ups]) of one process with every usable core; None if that is the baseline itself
    baseline     the baseline in words
    usable       cores that this machine gives, or None if not known
    caption      lines about the machine and the method, shown small below
    notes        warnings, shown in the caption
    prediction   {processes: the speed-up that was guessed}
    unit         what is counted: "process", or "thread" of one process
    beside       other curves, as (name, {cores: median speed-up against its own baseline})
    """

    script: str
    speedups: dict[int, Sequence[float]]
    threads: int = 1
    all_threads: tuple[int, Sequence[float]] | None = None
    baseline: str = "one process with one thread"
    usable: int | None = None
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    prediction: dict[int, float] = field(default_factory=dict)
    unit: str = "process"
    beside: Sequence[tuple[str, dict[int, float]]] = ()

    @property
    def counts(self) -> list[int]:
        return sorted(n for n, values in self.speedups.items() if len(values))

    def laws(self) -> list[Fit]:
        """The fitted laws that can describe the data: Amdahl's, and the USL where there are enough counts for it."""
        fits = fit_amdahl(*self._points), fit_usl(*self._points)
        return [fit for fit in fits if fit is not None and fit.limit is None]

    @property
    def all_notes(self) -> list[str]:
        """The warnings, and why no law is drawn where none describes the data. Without full stops."""
        amdahl = fit_amdahl(*self._points)
        beyond = [in_words(amdahl)] if amdahl is not None and amdahl.limit else []
        return [note.rstrip(".") for note in self.notes] + beyond

    @property
    def _points(self) -> tuple[list[int], list[float]]:
        pairs = [(n * self.threads, s) for n in self.counts for s in self.speedups[n]]
        return [cores for cores, _ in pairs], [s for _, s in pairs]

    @property
    def headline(self) -> str:
        """What was found, without the threads (see `rival`) and without a full stop."""
        if max(self.counts, default=1) == 1:
            return f"{self.script}: only one {self.unit} was measured"
        most = max(self.counts, key=lambda n: median(self.speedups[n]))
        if most == 1:
            most = max(self.counts)
        return f"{self.script}: {count(most, self.unit)} are {times(median(self.speedups[most]))} as fast as one core"

    @property
    def rival(self) -> str:
        """Threads are parallel too: a chart without them would flatter the processes."""
        if self.all_threads is None:
            return ""
        threads, values = self.all_threads
        return f"one process with {count(threads, 'thread')}: {times(median(values))}"


def scaling_figure(data: ScalingData) -> Figure:
    """Speed-up above, efficiency below, both over processes, and the key beside them; see `ScalingData`."""
    figure = Figure(figsize=(8.6, 6.2), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.08, hspace=0.03)
    axes = figure.subplot_mosaic([["speed", "key"], ["share", "key"]], width_ratios=[1.9, 1], height_ratios=[2.3, 1])
    title = "\n".join(fill(line, 78) for line in (data.headline, data.rival.capitalize()) if line)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=INK)
    _draw_speedups(axes["speed"], data)
    _draw_efficiency(axes["share"], data)
    axes["speed"].sharex(axes["share"])
    axes["speed"].tick_params(labelbottom=False)
    axes["key"].axis("off")
    key = zip(*axes["speed"].get_legend_handles_labels())
    key = sorted(key, key=lambda entry: not entry[1].startswith("measured"))  # matplotlib puts error bars last
    axes["key"].legend(*zip(*key), loc="upper left", bbox_to_anchor=(0, 1), fontsize=10, frameon=False,
                       labelspacing=0.9, handlelength=2.6, borderaxespad=0)
    text = "\n".join(fill(line, 122) for line in [*data.caption, *(f"Note: {note}" for note in data.all_notes)])
    if text:
        figure.supxlabel(text, x=0.01, ha="left", fontsize=9, color="#444444", linespacing=1.35)
    return figure


def alt_text(data: ScalingData) -> str:
    """The chart in words."""
    parts = [f"{data.headline}."] + ([f"{data.rival.capitalize()}."] if data.rival else [])
    parts.append(f"Speed-up over {count(2, data.unit)[2:]}, {data.baseline} being 1.")
    for n in data.counts:
        values = data.speedups[n]
        spread = f", from {min(values):.2f} to {max(values):.2f} in {len(values)} repeats" if len(values) > 1 else ""
        share = median(values) / (n * data.threads)
        parts.append(f"{count(n, data.unit).capitalize()}: {median(values):.2f}{spread}, efficiency {percent(share)}.")
    parts += [f"{_law_name(fit)}: {in_words(fit)}." for fit in data.laws()]
    parts += [f"Your guess for {count(n, data.unit)}: {guess:.2f}." for n, guess in sorted(data.prediction.items())]
    for name, curve in data.beside:
        points = ", ".join(f"{speedup:.2f} on {count(n, 'core')}" for n, speedup in curve.items())
        parts.append(f"Beside it, {name}: {points}.")
    return " ".join([*parts, *(f"{line}." for line in data.caption), *(f"Note: {note}." for note in data.all_notes)])


def _draw_speedups(axes: Axes, data: ScalingData) -> None:
    tidy(axes, "", f"speed-up\n(1 = {data.baseline})")
    end = _last_count(data)
    _draw_points(axes, data, {n: list(values) for n, values in data.speedups.items()}, times)
    for n, guess in data.prediction.items():
        axes.plot(n, guess, marker="D", markersize=10, markerfacecolor="white", markeredgecolor=INK,
                  markeredgewidth=2.2, linestyle="none", zorder=4, label=f"your guess: {times(guess)}")
    axes.plot([1, end], [data.threads, end * data.threads], color=FAINT, linestyle=":", linewidth=1.6,
              label="ideal: each core counts in full")
    if data.all_threads is not None:
        values = data.all_threads[1]
        axes.axhline(median(values), color=THREADS, linestyle=(0, (7, 2, 1.5, 2)), linewidth=1.8,
                     label=fill(data.rival, WIDE))
        axes.axhspan(min(values), max(values), color=THREADS, alpha=0.12, linewidth=0)
    _draw_beside(axes, data)
    _draw_laws(axes, data, end)
    most = (data.usable or end) // data.threads
    if most < end:
        axes.axvspan(most + _margin(end), end + _margin(end), color=FAINT, alpha=0.12, linewidth=0,
                     label=fill(f"more than this machine's {count(data.usable, 'usable core')}", WIDE))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _draw_beside(axes: Axes, data: ScalingData) -> None:
    """Faint, and told apart by colour, dashes and marker."""
    for i, (name, curve) in enumerate(data.beside):
        style = {**line_style(i + 1), "marker": "sv^<>"[i % 5], "markersize": 6}
        axes.plot([cores / data.threads for cores in curve], list(curve.values()), alpha=0.7, linewidth=1.3,
                  label=fill(f"{name} (against its own baseline)", WIDE), zorder=3, **style)


def _draw_laws(axes: Axes, data: ScalingData, end: float) -> None:
    """Solid as far as was measured, dashed beyond, and named at the end so that colour is not needed."""
    most, fits = max(data.counts, default=1), data.laws()
    inside, beyond = np.linspace(1, most, 100), np.linspace(most, end, 50)
    highest = max((float(fit(end * data.threads)) for fit in fits), default=0)
    for fit, color, style in zip(fits, (AMDAHL, USL), ("-", (0, (1, 0.6)))):
        axes.plot(inside, fit(inside * data.threads), color=color, linewidth=2, linestyle=style,
                  label=fill(f"{_law_name(fit)}: {in_words(fit)}", WIDE))
        axes.plot(beyond, fit(beyond * data.threads), color=color, linewidth=1.5, linestyle=DASHED)
        last = float(fit(end * data.threads))
        axes.annotate("Amdahl" if fit.law == "Amdahl" else "USL", (end, last), color=color, fontsize=10, ha="right",
                      xytext=(0, 5 if last == highest else -5), textcoords="offset points",
                      va="bottom" if last == highest else "top")
    if fits:
        axes.plot([], [], color=INK, linewidth=1.5, linestyle=DASHED, label="extrapolated, not measured")


def _draw_points(axes: Axes, data: ScalingData, values: dict[int, list[float]], write) -> None:
    x = data.counts
    middle = [median(values[n]) for n in x]
    spread = [[m - min(values[n]) for m, n in zip(middle, x)], [max(values[n]) - m for m, n in zip(middle, x)]]
    repeats = max((len(values[n]) for n in x), default=0)
    label = f"measured: median of {repeats}, bars from smallest to largest" if repeats > 1 else "measured once"
    axes.errorbar(x, middle, yerr=spread, fmt="o", color=MEASURED, markersize=8, capsize=5, elinewidth=2,
                  capthick=2, zorder=5, label=fill(label, WIDE))
    for n, m in zip(x, middle):
        if n < max(x) and any(n < other < n + 0.12 * _last_count(data) for other in x):
            continue  # no room for it beside the next
        axes.annotate(write(m), (n, m), xytext=(9, -5), textcoords="offset points", fontsize=10.5, color=INK,
                      va="top", zorder=6, bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6})


def _draw_efficiency(axes: Axes, data: ScalingData) -> None:
    what = f"processes, {count(data.threads, 'thread')} each" if data.unit == "process" else "threads of one process"
    tidy(axes, what, "efficiency\n(speed-up / cores)")
    shares = {n: [s / (n * data.threads) for s in values] for n, values in data.speedups.items()}
    axes.axhline(1, color=FAINT, linestyle=":", linewidth=1.6)
    axes.plot(data.counts, [median(shares[n]) for n in data.counts], color=MEASURED, linewidth=1, alpha=0.6)
    _draw_points(axes, data, shares, percent)
    axes.set_ylim(0, max([1.25, *(1.15 * max(s) for s in shares.values() if s)]))
    axes.yaxis.set_major_locator(MultipleLocator(0.5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
    end = _last_count(data)
    axes.set_xlim(max(0.5, 1 - _margin(end)), end + _margin(end))
    axes.xaxis.set_major_locator(FixedLocator(range(1, end + 1)) if end <= 12 else
                                 MaxNLocator(integer=True, steps=[1, 2, 4, 8, 10]))


def _last_count(data: ScalingData) -> int:
    """How far the chart goes: half as far again as was measured, where something can be said about it."""
    others = [round(max(curve) / data.threads) for _, curve in data.beside if curve]
    most = max([1, *data.counts, *data.prediction, *others])
    return max(most + 1, round(1.5 * most)) if len(data.counts) > 1 else most + 1


def _margin(end: int) -> float:
    return max(0.25, 0.025 * end)


def _law_name(fit: Fit) -> str:
    return "Amdahl's law" if fit.law == "Amdahl" else "Universal scalability law"
