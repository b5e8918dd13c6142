"""What a benchmark found: every raw figure, and from them a table, a chart and a JSON file."""

from __future__ import annotations

import datetime
import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from cpump_kit import cores
from cpump_kit.style import COLORS, number

HERE = Path(__file__).parent
PACKAGES = ("torch", "numpy", "accelerate", "loky", "jupyterlab", "ipykernel")


@dataclass
class Measured:
    """`raw[workload][way]` holds one figure a round, in the order of the rounds.

    against   the way that ratios refer to; they are taken within each round, so that a machine that is slower in
              one round than in another changes them little
    lower     True where lower figures are better
    """

    name: str
    title: str
    unit: str
    against: str
    lower: bool
    note: str = ""
    raw: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, workload: str, way: str, figure: float) -> None:
        self.raw.setdefault(workload, {}).setdefault(way, []).append(figure)

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys(way for ways in self.raw.values() for way in ways))

    def ratio(self, workload: str, way: str) -> float | None:
        """How many times as good as `against`: the median of the rounds' ratios."""
        ways = self.raw[workload]
        if way not in ways or self.against not in ways:
            return None
        pairs = list(zip(ways[way], ways[self.against]))
        return median(other / mine if self.lower else mine / other for mine, other in pairs)


def write(found: Measured) -> None:
    """Write NAME.json and NAME.png, and put the table into README.md."""
    setting = {"date": f"{datetime.date.today()}", "machine": str(cores()), "system": platform.platform(),
               "python": platform.python_version(), "versions": _versions()}
    (HERE / f"{found.name}.json").write_text(json.dumps({**setting, **asdict(found)}, indent=1) + "\n")
    chart(found).savefig(HERE / f"{found.name}.png")
    _put_into_readme(found, setting)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def table(found: Measured) -> str:
    """Rows are ways, columns workloads: the median, in brackets the smallest and the largest, then the ratio."""
    lines = [f"| {found.unit} | {' | '.join(found.raw)} |", "| --- |" + " ---: |" * len(found.raw)]
    lines += [f"| {way} | {' | '.join(_cell(found, workload, way) for workload in found.raw)} |" for way in found.ways]
    return "\n".join(lines)


def _cell(found: Measured, workload: str, way: str) -> str:
    figures = found.raw[workload].get(way)
    if not figures:
        return "–"
    ratio = found.ratio(workload, way)
    times = f" **{ratio:.2f}×**" if ratio is not None else ""
    spread = f" ({number(min(figures))}–{number(max(figures))})" if len(figures) > 1 else ""
    return f"{number(median(figures))}{spread}{times}"


def chart(found: Measured) -> Figure:
    """A panel for each workload; a bar to each median, a dot for each round."""
    ways = found.ways
    figure = Figure(figsize=(max(5.5, 3.1 * len(found.raw) + 1.6), 1.5 + 0.36 * len(ways)), dpi=110,
                    layout="constrained")
    panels = figure.subplots(1, len(found.raw), sharey=True, squeeze=False)[0]
    for axes, (workload, figures) in zip(panels, found.raw.items()):
        for y, way in enumerate(ways):
            values = figures.get(way, [])
            if values:
                axes.barh(y, median(values), height=0.62, color=COLORS[2 if "cpump" in way else 0], alpha=0.75)
                axes.plot(values, [y] * len(values), "o", color="#222222", markersize=3.5)
        axes.set_title(workload, fontsize=10, loc="left")
        axes.set_xlabel(found.unit)
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.25)
    panels[0].set_yticks(range(len(ways)), ways)
    panels[0].invert_yaxis()
    better = "shorter bars are better" if found.lower else "longer bars are better"
    figure.suptitle(f"{found.title} ({better}; dots: single rounds)", x=0.01, ha="left", fontsize=11)
    return figure


def _put_into_readme(found: Measured, setting: dict) -> None:
    readme = HERE / "README.md"
    start, end = f"<!-- {found.name} -->", f"<!-- end of {found.name} -->"
    before, _, rest = readme.read_text(encoding="utf-8").partition(start)
    after = rest.partition(end)[2]
    rounds = max(len(figures) for ways in found.raw.values() for figures in ways.values())
    versions = ", ".join(f"{name} {number}" for name, number in setting["versions"].items())
    text = (f"{start}\n\n{found.note}\n\n{table(found)}\n\n![{found.title}: the table as bars]({found.name}.png)\n\n"
            f"{setting['date']}, {rounds} rounds, {setting['machine']}; Python {setting['python']}, {versions}. "
            f"In bold: times as good as {found.against}, the median of the rounds' ratios. "
            f"Again: `python -m benchmarks {found.name} --rounds {rounds}`\n\n{end}")
    readme.write_text(before + text + after, encoding="utf-8")
