"""The sweeps that this machine has made, kept in the user's cache: for charts of several lessons, and for reuse."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..folders import kept_folder
from ..running.script import Target
from . import sweep_data
from .sweep_data import SweepData, SweepError

SAME_MACHINE = ("model", "usable")  # whose curves may stand in one chart


def source(data: SweepData, targets: Sequence[Target]) -> str:
    """What stands for all that makes two sweeps equal, as a short text; "" if a function is measured."""
    if any(target.script is None for target in targets):
        return ""
    settings = [(setting.script, setting.processes, setting.threads) for setting in data.all_settings]
    texts = [(target.function, Path(target.script).read_text("utf-8", "replace")) for target in targets]
    everything = json.dumps([texts, settings, data.repeats, data.label, data.arguments, data.machine], sort_keys=True)
    return hashlib.sha256(everything.encode()).hexdigest()[:16]


def keep(data: SweepData) -> None:
    """Write a sweep to the cache. Where that cannot be, it is not kept."""
    name = re.sub(r"\W+", "-", data.label)[:40]
    with suppress(OSError, SweepError):
        sweep_data.save(data, kept_folder("sweeps", cache=True) / f"{name}-{data.source or 'function'}.json")


def find(wanted: str) -> SweepData | None:
    """The newest kept sweep that is equal, marked as reused; None if there is none."""
    equal = [data for data in _all() if wanted and data.source == wanted]
    if not equal:
        return None
    newest = max(equal, key=lambda data: data.date)
    newest.reused = True
    return newest


def newest(machine: dict) -> list[SweepData]:
    """The newest sweep of each label on this machine, newest first."""
    here = [data for data in _all() if all(data.machine.get(key) == machine.get(key) for key in SAME_MACHINE)]
    by_label = {data.label: data for data in sorted(here, key=lambda data: data.date)}
    return sorted(by_label.values(), key=lambda data: data.date, reverse=True)


def _all() -> Iterator[SweepData]:
    with suppress(OSError):
        for path in sorted(kept_folder("sweeps", cache=True).glob("*.json")):
            with suppress(SweepError):  # broken, or of another version
                yield sweep_data.load(path)
