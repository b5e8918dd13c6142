"""What a sweep has measured: plain data, its table, its chart, and its file. Knows nothing of processes or threads."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ..errors import CpumpError
from ..folders import write_whole
from ..machine import cores
from ..style import count, number, percent, times

if TYPE_CHECKING:
    from ..showing.picture import Picture

FORMAT, VERSION = "cpump sweep", 1
COLUMNS = ("script", "processes", "threads each", "samples/s", "smallest to largest", "speed-up", "efficiency")


class SweepError(CpumpError, ValueError):
    """A sweep that cannot be measured, drawn, saved or loaded."""


@dataclass
class Setting:
    """One way to run: `rates` are the samples/s of its repeats so far, over all processes, without the warm-up."""

    script: str
    processes: int
    threads: int  # intra-op threads of each process
    rates: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        return median(self.rates) if self.rates else None


@dataclass
class SweepData:
    """Settings and where they were measured.

    label        the approach, to name it in charts ("Hogwild"); the script's name if none was given
    source       stands for all that makes two sweeps equal: the scripts' text, arguments, settings, machine, torch
    reused       True for one that was taken from an earlier day and not measured again
    baseline     one process with one thread: speed-up 1
    all_threads  one process with every usable core; None on one core
    settings     one for each process count (or thread count), in rising order; the baseline is among them if the
                 script is the same
    state        measuring, done, stopped or failed; `error` is the sentence of a failed one
    machine      model, usable cores, system, python, torch
    """

    script: str
    baseline: Setting
    all_threads: Setting | None
    settings: list[Setting]
    repeats: int
    arguments: dict[str, str] = field(default_factory=dict)
    machine: dict = field(default_factory=dict)
    date: str = ""
    state: str = "measuring"
    error: str | None = None
    label: str = ""
    source: str = ""
    reused: bool = False

    def __post_init__(self) -> None:
        self.label = self.label or self.script

    @property
    def all_settings(self) -> list[Setting]:
        """Each once, in the order of the table."""
        found = [self.baseline, *([self.all_threads] if self.all_threads else [])]
        return found + [setting for setting in self.settings if setting is not self.baseline]

    @property
    def over_threads(self) -> bool:
        """True if the settings differ in threads and not in processes."""
        return len({setting.threads for setting in self.settings}) > 1

    @property
    def done(self) -> int:
        return sum(len(setting.rates) for setting in self.all_settings)

    @property
    def to_do(self) -> int:
        return self.repeats * len(self.all_settings)

    def speedups(self, setting: Setting) -> list[float]:
        one = self.baseline.rate
        return [rate / one for rate in setting.rates] if one else []

    def notes(self) -> list[str]:
        """What a reader must know before trusting the numbers. Without full stops."""
        notes, usable = [], self.machine.get("usable")
        if self.reused:
            notes.append(f"measured on {self.date[:10]}, and not again now")
        if self.state == "failed":
            notes.append(f"ended early: {self.error}".rstrip("."))
        elif self.state == "stopped":
            notes.append(f"stopped early: {self.done} of {count(self.to_do, 'measurement')} were made")
        for setting in self.settings:
            if usable and setting.processes * setting.threads > usable:
                notes.append(f"{_way(setting)} share {count(usable, 'usable core')}, so they take turns")
        notes += [f"{_way(one)} and {_way(other)} overlap in their repeats, so their difference may be noise"
                  for one, other in self._rivals() if _overlap(one.rates, other.rates)]
        if self.repeats == 1:
            notes.append("each setting was measured once, so its spread is not known")
        return notes

    def _rivals(self) -> list[tuple[Setting, Setting]]:
        """The pairs that a reader compares: everything with the baseline, the fastest count with the threads."""
        pairs = [(setting, self.baseline) for setting in self.all_settings if setting is not self.baseline]
        measured = [setting for setting in self.settings if setting.rates]
        if self.all_threads and measured:
            pairs.append((max(measured, key=lambda setting: setting.rate), self.all_threads))
        return pairs

    def caption(self) -> list[str]:
        machine = self.machine
        model, usable = machine.get("model", "unknown processor"), machine.get("usable")
        known = f", {count(usable, 'usable core')}" if usable else ""
        how = f"median of {self.repeats} interleaved repeats" if self.repeats > 1 else "one measurement each"
        return [f"{model}{known}, torch {machine.get('torch', '?')}, {self.date[:10]}",
                f"Speed: samples/s over all processes, {how}; each run's warm-up (first fifth) is left out"]

    def curve(self) -> dict[int, list[float]]:
        """{cores: the speed-ups of each repeat}, the baseline included where it is the same script."""
        same = self.baseline.script == self.script
        return {s.processes * s.threads: self.speedups(s) for s in ([self.baseline] if same else []) + self.settings}

    def picture(self, prediction: dict[int, float] | None = None, beside: Sequence[SweepData] = ()) -> Picture:
        """The scaling chart, over the curves of other sweeps. Raises SweepError while there is nothing to draw."""
        if not self.baseline.rates:
            raise SweepError("there is nothing to draw: the baseline, one process with one thread, was not measured")
        from ..showing.picture import Picture
        from ..showing.scaling_chart import ScalingData, alt_text, scaling_figure

        same = self.baseline.script == self.script
        points = [self.baseline, *self.settings] if same and self.settings[0].threads == 1 else self.settings
        threads, over = self.all_threads, self.over_threads
        data = ScalingData(
            self.label or self.script, {s.threads if over else s.processes: self.speedups(s) for s in points},
            self.settings[0].processes if over else self.settings[0].threads,
            (threads.threads, self.speedups(threads)) if threads and threads.rates else None,
            "one process with one thread" if same else f"{self.baseline.script} with one thread",
            self.machine.get("usable"), self.caption(), self.notes(), prediction or {},
            "thread" if over else "process", [(f"{other.label or other.script}, {other.date[:10]}", {
                n: median(values) for n, values in sorted(other.curve().items()) if values}) for other in beside])
        return Picture(scaling_figure(data), alt_text(data))

    def table(self) -> Table:
        return Table([self._row(setting) for setting in self.all_settings], self.notes())

    def _row(self, setting: Setting) -> tuple[str, ...]:
        first = (setting.script, str(setting.processes), str(setting.threads))
        rates, speedups = setting.rates, self.speedups(setting)
        if not speedups:
            return (*first, "–", "–", "–", "–")
        speedup = median(speedups)
        return (*first, number(median(rates)), f"{number(min(rates))} to {number(max(rates))}", times(speedup),
                percent(speedup / (setting.processes * setting.threads)))


@dataclass(frozen=True)
class Table:
    """Rows of text under `COLUMNS`, with the notes that belong to them. Shows itself in a notebook and as text."""

    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        lines = [COLUMNS, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
        text = ["  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:]))])
                for line in lines]
        return "\n".join([*text, *(f"Note: {note}." for note in self.notes)])

    def _repr_html_(self) -> str:
        left, right = "text-align:left", "text-align:right"
        head = "".join(f'<th style="{right if i else left}">{name}</th>' for i, name in enumerate(COLUMNS))
        rows = "".join("<tr>" + "".join(f'<td style="{right if i else left}">{escape(cell)}</td>'
                                        for i, cell in enumerate(row)) + "</tr>" for row in self.rows)
        notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def this_machine() -> dict:
    """What a measurement depends on, in plain values."""
    here = cores()
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "?"
    return {"model": here.model, "usable": here.usable, "system": platform.platform(),
            "python": platform.python_version(), "torch": torch}


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _way(setting: Setting) -> str:
    each = " each" if setting.processes > 1 else ""
    threads = f" with {count(setting.threads, 'thread')}{each}" if setting.threads > 1 else ""
    return f"{count(setting.processes, 'process')} of {setting.script}{threads}"


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return min(len(a), len(b)) > 1 and min(a) <= max(b) and min(b) <= max(a)


# --- the file ----------------------------------------------------------------------------------------------------


def save(data: SweepData, path: Path) -> None:
    """Write `data` as JSON. Raises SweepError rather than overwrite a file that is no sweep."""
    if path.exists():
        try:
            load(path)
        except SweepError:
            raise SweepError(f"{path} exists and holds no sweep, so it is left alone: choose another name") from None
    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(data)}, indent=1)
    try:
        write_whole(path, lambda file: file.write(f"{text}\n".encode()))
    except OSError as error:
        raise SweepError(f"{path} cannot be written: {error.strerror or error}") from None


def load(path: Path) -> SweepData:
    """The inverse of `save`. Raises SweepError for a file that is missing, damaged or something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise SweepError(f"{path} is not a saved sweep, or it is damaged: it is no JSON text") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise SweepError(f"{path} is not a saved sweep: sweep.save(path) writes one")
    if content.get("version") != VERSION:
        raise SweepError(f"{path} was saved by another version of the kit (format {content.get('version')!r}, "
                         f"here {VERSION}): measure again with cp.sweep")
    try:
        return _from_dict({key: value for key, value in content.items() if key not in ("format", "version")})
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise SweepError(f"{path} is a damaged sweep: a part of it is missing or is no measurement") from None


def _from_dict(content: dict) -> SweepData:
    baseline, threads = _setting(content["baseline"]), content["all_threads"]
    settings = [_setting(setting) for setting in content["settings"]]
    same = [s for s in settings if (s.script, s.processes, s.threads) == (baseline.script, 1, 1)]
    data = SweepData(**{**content, "baseline": same[0] if same else baseline, "settings": settings,
                        "all_threads": None if threads is None else _setting(threads)})
    words = isinstance(data.script, str) and isinstance(data.date, str) and isinstance(data.machine, dict)
    if not words or not settings or not isinstance(data.repeats, int):
        raise ValueError
    if data.state == "measuring":  # it was saved on its way
        data.state = "stopped"
    return data


def _setting(content: dict) -> Setting:
    setting = Setting(**content)
    numbers = all(isinstance(rate, float) and math.isfinite(rate) and rate > 0 for rate in setting.rates)
    if not numbers or min(setting.processes, setting.threads) < 1 or not isinstance(setting.script, str):
        raise ValueError
    return setting
