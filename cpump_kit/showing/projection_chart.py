"""The chart of what networks would make of a training on many hosts. Pure: data in, a figure or its words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ..measuring.projection import Network, ProjectionError, StepTime
from ..style import COLORS, percent, times
from .charts import FAINT, INK, tidy
from .picture import SHARPNESS, Picture

NOT_MEASURED = "projection, not measured"
DASHED = (0, (5, 2.5))
MARKERS = "osD^vP"  # every line is dashed here, so these tell them apart where colours do not
TOLD = (4, 32, 1024)  # hosts that the words name


@dataclass(frozen=True)
class Projected:
    """What the chart is drawn from: {a network's name: its step time}, and the most hosts that are drawn."""

    steps: dict[str, StepTime]
    hosts: int

    @property
    def counts(self) -> list[int]:
        """1, 2, 4, ... and the last one."""
        return sorted({*(2**i for i in range(self.hosts.bit_length())), self.hosts})

    @property
    def caption(self) -> str:
        one = next(iter(self.steps.values()))
        return (f"A step computes {1000 * one.compute:.3g} ms on each host, then a ring all-reduce averages "
                f"{one.bytes / 1e6:.3g} MB of gradients. Nothing overlaps, and each host has a batch of its own.")


def project_hosts(compute: float, size: float, networks: Sequence[Network], hosts: int = 1024) -> Picture:
    """Draw speed-up and efficiency on 1 to `hosts` hosts, as a model of the step's time has them; nothing is measured.

    compute   seconds that one host computes in a step
    size      bytes of the gradients
    networks  one line each, for example cp.Network("1 Gbit/s Ethernet", latency=50e-6, bandwidth=125e6)
    Raises ProjectionError for a time, a size or hosts that cannot be, and for no or too many networks.
    """
    if not (compute > 0 and size >= 0 and isinstance(hosts, int) and hosts >= 2):
        raise ProjectionError("a projection takes a compute time above 0, a size from 0 on and at least 2 hosts, "
                              f"not {compute}, {size} and {hosts}")
    if not 1 <= len(networks) <= len(COLORS) or len({network.name for network in networks}) < len(networks):
        raise ProjectionError(f"a projection takes 1 to {len(COLORS)} networks with different names, "
                              f"not {[network.name for network in networks]}")
    data = Projected({network.name: StepTime(compute, network.latency, network.bandwidth, size)
                      for network in networks}, hosts)
    return Picture(projection_figure(data), alt_text(data))


def projection_figure(data: Projected) -> Figure:
    """Speed-up above and efficiency below, both over hosts, and the key beside them."""
    figure = Figure(figsize=(8.6, 6.4), dpi=100 * SHARPNESS, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.08, hspace=0.03)
    axes = figure.subplot_mosaic([["speed", "key"], ["share", "key"]], width_ratios=[1.9, 1], height_ratios=[1.6, 1])
    figure.suptitle(f"{_headline(data)}\n({NOT_MEASURED})", x=0.01, ha="left", fontsize=12.5, fontweight="bold",
                    color=INK)
    _draw(axes["speed"], data, "speed-up (1 = one host)", lambda step, hosts: step.speedup(hosts))
    _draw(axes["share"], data, "efficiency", lambda step, hosts: step.efficiency(hosts))
    counts = np.array([1, data.hosts])
    axes["speed"].plot(counts, counts, color=FAINT, linestyle=":", linewidth=1.6,
                       label="ideal: each host\ncounts in full")
    axes["speed"].plot([], [], color=INK, linestyle=DASHED, linewidth=1.8, label=f"dashed: {NOT_MEASURED}")
    axes["speed"].set_yscale("log", base=2)
    axes["speed"].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes["share"].set_ylim(0, 1.08)
    axes["share"].yaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
    axes["share"].set_xlabel("hosts", fontsize=10.5, color=INK)
    axes["speed"].sharex(axes["share"])
    axes["speed"].tick_params(labelbottom=False)
    axes["key"].axis("off")
    axes["key"].legend(*axes["speed"].get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(0, 1),
                       fontsize=10, frameon=False, labelspacing=0.9, handlelength=3.4, borderaxespad=0)
    figure.supxlabel(fill(data.caption, 122), x=0.01, ha="left", fontsize=9, color="#444444", linespacing=1.35)
    return figure


def alt_text(data: Projected) -> str:
    """The chart in words."""
    parts = [f"{_headline(data)}: a {NOT_MEASURED}."]
    told = [hosts for hosts in TOLD if hosts < data.hosts] + [data.hosts]
    for name, step in data.steps.items():
        points = [f"{times(step.speedup(hosts))} on {hosts:,} hosts, efficiency {percent(step.efficiency(hosts))}"
                  for hosts in told]
        parts.append(f"{name}: {'; '.join(points)}.")
    return " ".join([*parts, data.caption])


def _draw(axes: Axes, data: Projected, what: str, value) -> None:
    tidy(axes, "", what)
    hosts = np.array(data.counts)
    for i, (name, step) in enumerate(data.steps.items()):
        axes.plot(hosts, value(step, hosts), color=COLORS[i], linestyle=DASHED, linewidth=1.8, marker=MARKERS[i],
                  markersize=5.5, markerfacecolor="white", label=fill(name, 28))
    axes.set_xscale("log", base=2)
    axes.set_xticks([count for count in data.counts if count.bit_length() % 2 or count == data.hosts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))


def _headline(data: Projected) -> str:
    return f"1 to {data.hosts:,} hosts: what the network would make of a step"
