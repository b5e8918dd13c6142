"""`board`: the sweeps that many people saved into one folder, in one chart and one table.

    everyone:  scaling.save("my_laptop.json")      and the file goes to a shared folder, or by mail
    teacher:   cp.board("folder")

Nothing about a person is in these files. A row of the table has the name that its file was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ..errors import CpumpError
from ..measuring import sweep_data
from ..measuring.sweep_data import SweepData, SweepError
from ..notebook import Shown, show_both
from ..style import count, number, times
from .tables import table

if TYPE_CHECKING:
    from ..showing.picture import Picture

LARGEST = 2**20  # bytes; a saved sweep has a few thousand
COLUMNS = ("file", "machine", "script", "arguments", "one core", "all threads", "fastest", "on", "speed-up")


class BoardError(CpumpError, ValueError):
    """A folder from which no board can be made."""


@dataclass(frozen=True)
class Curve:
    """One saved sweep as the board draws it.

    file       the name of its file, without the ending
    machine    what it was measured on, for people: "Xeon Gold 6140, 8 cores"
    script     what was measured, with its label if it has one
    arguments  those of the script, as they were written
    baseline   the script that it is compared with
    cores      core counts (processes x threads) in rising order, of each the fastest way to use them
    rates      samples/s of each, the median of its repeats
    base       samples/s of the baseline, one process with one thread, which is speed-up 1
    threads    samples/s of one process that uses all cores, or None
    """

    file: str
    machine: str
    script: str
    arguments: dict[str, str]
    baseline: str
    cores: tuple[int, ...]
    rates: tuple[float, ...]
    base: float
    threads: float | None = None

    @property
    def speedups(self) -> tuple[float, ...]:
        return tuple(rate / self.base for rate in self.rates)

    @property
    def task(self) -> tuple:
        """What was computed: samples/s of different tasks must not be compared."""
        return self.baseline, *sorted(self.arguments.items())

    @property
    def best(self) -> tuple[int, float]:
        """(cores, speed-up) of the fastest setting."""
        return max(zip(self.cores, self.speedups), key=lambda pair: pair[1])


@dataclass(frozen=True)
class Board:
    """The curves, and the files that were skipped with the reason. In a notebook it shows itself."""

    curves: Sequence[Curve]
    skipped: dict[str, str]

    @property
    def picture(self) -> Picture:
        from ..showing.picture import Picture
        from .board_chart import alt_text, board_figure

        return Picture(board_figure(self.curves), alt_text(self.curves))

    def save(self, path: str | Path) -> None:
        """Write the chart to a file; its ending says in which format (png, pdf, svg)."""
        self.picture.save(path)

    def rows(self) -> list[tuple[str, ...]]:
        """The table, the best speed-up first; its columns are `COLUMNS`."""
        def arguments(curve: Curve) -> str:
            return ", ".join(f"{name}={value}" for name, value in curve.arguments.items())

        ordered = sorted(self.curves, key=lambda curve: curve.best[1], reverse=True)
        return [(c.file, c.machine, c.script, arguments(c), number(c.base), number(c.threads), number(max(c.rates)),
                 count(c.best[0], "core"), times(c.best[1])) for c in ordered]

    def table(self) -> Shown:
        left_out = [f"Skipped: {name} ({why})" for name, why in self.skipped.items()]
        return table(COLUMNS, self.rows(), ["Speeds are in samples/s.", *left_out])

    def __repr__(self) -> str:
        return self.table().text

    def _ipython_display_(self) -> None:
        self.picture._ipython_display_()
        shown = self.table()
        show_both(shown.text, shown.html)


def board(folder: str | Path) -> Board:
    """The board of all sweeps that were saved somewhere in `folder` (`cp.sweep(...).save(path)`).

    What is no sweep is skipped and named. Raises BoardError if there is no such folder or no sweep in it.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise BoardError(f"there is no folder {folder} (looked from {Path.cwd()})")
    curves, skipped = [], {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not path.is_file() or any(part.startswith((".", "__")) for part in name.parts):
            continue
        try:
            curves.append(_curve(_load(path), name.with_suffix("").as_posix()))
        except SweepError as error:
            skipped[name.as_posix()] = str(error).removeprefix(str(path)).strip()
    if not curves:
        seen = f"; skipped: {', '.join(skipped)}" if skipped else ""
        raise BoardError(f"there is no saved sweep in {folder}{seen}. scaling.save('name.json') writes one")
    return Board(curves, skipped)


def _load(path: Path) -> SweepData:
    if path.stat().st_size > LARGEST:
        raise SweepError("is too large for a saved sweep")
    return sweep_data.load(path)


def _curve(data: SweepData, file: str) -> Curve:
    if not data.baseline.rates:
        raise SweepError("was stopped before its baseline was measured")
    best: dict[int, float] = {}
    ours = [data.baseline] if data.baseline.script == data.script else []
    for setting in [*ours, *data.settings]:
        if setting.rates:
            cores = setting.processes * setting.threads
            best[cores] = max(best.get(cores, 0.0), median(setting.rates))
    if not best:
        raise SweepError("was stopped before anything was measured")
    threads = data.all_threads.rate if data.all_threads else None
    script = data.script if data.label == data.script else f"{data.label} ({data.script})"
    return Curve(file, _machine(data.machine), script, dict(data.arguments), data.baseline.script, tuple(sorted(best)),
                 tuple(best[cores] for cores in sorted(best)), data.baseline.rate, threads)


def _machine(machine: dict) -> str:
    """The processor's name without the words that all have, and the cores that could be used."""
    model = str(machine.get("model") or "unknown processor").partition("@")[0]
    words = [word for word in model.replace("(R)", " ").replace("(TM)", " ").split()
             if word not in ("CPU", "Processor", "processor") and not word.endswith("-Core")]
    usable = machine.get("usable")
    return " ".join(words)[:40] + (f", {count(usable, 'core')}" if isinstance(usable, int) else "")
