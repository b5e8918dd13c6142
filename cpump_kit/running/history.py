"""What the ranks have reported: bounded in memory, exact in the totals."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from ..style import count
from .events import Reports

LIMIT = 2**16  # records kept for each rank: half a megabyte a name, and far more than a screen has pixels
EACH = 32  # records that a stretch of a drawn line is the mean of, if there are as many
WINDOW = 2.0  # seconds over which the recent speed is taken
MISSING = -sys.float_info.max  # marks "not reported in this record"; NaN will not do, a loss can be NaN
SO_FAR = "samples so far"  # a column of ours: the cumulative sum of `samples`, which stays exact when thinned
PARTS = ("data", "forward", "backward", "optimizer", "compute", "communication")  # of a step, in seconds
OWN = ("step", "time", SO_FAR)


class RankHistory:
    """The reports of one rank in columns. Beyond `LIMIT` records every second one is dropped, again and again."""

    def __init__(self) -> None:
        self.steps = 0  # reports so far, exact
        self.samples = 0.0  # samples so far, exact
        self.total: float | None = None  # samples that the rank will process in all, once it has said so
        self.parts: dict[str, float] = {}  # seconds that went to each of PARTS that was reported, exact
        self.last: dict[str, float] = {}  # the newest value of each name
        self.stride = 1  # one record in `stride` is kept
        self._size = 0
        self._columns = {name: np.empty(LIMIT) for name in OWN}
        self._recent: deque[tuple[float, float]] = deque()

    def __len__(self) -> int:
        return self._size

    def column(self, name: str) -> np.ndarray:
        """The values of `name` in the kept records, MISSING where it was not reported."""
        return self._columns[name][:self._size] if name in self._columns else np.full(self._size, MISSING)

    def add(self, reports: Reports, launched: float) -> None:
        """Take in a batch. `launched` (seconds, the workers' clock) is subtracted from its times."""
        if reports.total is not None:
            self.total = reports.total
        if not reports.names:
            return
        size = len(reports.times)
        columns = {name: np.frombuffer(values) for name, values in zip(reports.names, reports.columns)}
        columns["step"] = np.arange(reports.first_step, reports.first_step + size, dtype=float)
        columns["time"] = np.frombuffer(reports.times) - launched
        columns[SO_FAR] = self.samples + np.cumsum(columns.get("samples", np.zeros(size)))
        self.steps, self.samples = reports.first_step + size, float(columns[SO_FAR][-1])
        self.last.update((name, float(columns[name][-1])) for name in reports.names)
        for name in columns.keys() & set(PARTS):
            self.parts[name] = self.parts.get(name, 0.0) + float(np.nansum(columns[name]))
        self._remember_speed(float(columns["time"][-1]))
        for start in range(0, size, LIMIT // 2):
            self._append({name: values[start:start + LIMIT // 2] for name, values in columns.items()})

    def _append(self, columns: dict[str, np.ndarray]) -> None:
        while True:
            kept = slice(-int(columns["step"][0]) % self.stride, None, self.stride)
            end = self._size + len(columns["step"][kept])
            if end <= LIMIT:
                break
            self._thin()
        for name in columns.keys() - self._columns.keys():
            self._columns[name] = np.full(LIMIT, MISSING)
        for name, column in self._columns.items():
            column[self._size:end] = columns[name][kept] if name in columns else MISSING
        self._size = end

    def _thin(self) -> None:
        self.stride *= 2
        even = self._columns["step"][:self._size] % self.stride == 0
        for column in self._columns.values():
            column[:even.sum()] = column[:self._size][even]
        self._size = int(even.sum())

    def _remember_speed(self, now: float) -> None:
        self._recent.append((now, self.samples))
        while len(self._recent) > 2 and self._recent[1][0] < now - WINDOW:
            self._recent.popleft()

    @property
    def samples_per_second(self) -> float | None:
        """Over about the last two seconds of reports; None before there are two batches of them."""
        if len(self._recent) < 2:
            return None
        (start, before), (end, now) = self._recent[0], self._recent[-1]
        return (now - before) / (end - start) if end > start else None

    def rate(self, skip: float) -> float | None:
        """Samples per second without the first `skip` (a share) of the records; None if too few are left."""
        first, last = int(skip * self._size), self._size - 1
        if last <= first:
            return None
        times, so_far = self.column("time"), self.column(SO_FAR)
        samples, seconds = so_far[last] - so_far[first], times[last] - times[first]
        return float(samples / seconds) if seconds > 0 else None

    def series(self, name: str, points: int, over: str = SO_FAR) -> tuple[list[float], list[float]]:
        """`name` over another column, as the means of at most `points` equal stretches; NaN and gaps are left out.

        Of long stretches every n-th record is taken: the view asks several times a second, and nobody sees more.
        """
        step = max(1, self._size // (EACH * points))
        values, along = self.column(name)[::step], self.column(over)[::step]
        here = np.isfinite(values) & (values != MISSING)
        values, along = values[here], along[here]
        if not len(values):
            return [], []
        starts = np.arange(0, len(values), -(-len(values) // points))
        ends = np.append(starts[1:], len(values))
        return along[ends - 1].tolist(), (np.add.reduceat(values, starts) / (ends - starts)).tolist()

    def record(self, rank: int, index: int) -> dict:
        """One report as a dict: rank, step, time in seconds since launch, and what was reported."""
        row = {"rank": rank, "step": int(self._columns["step"][index]), "time": float(self._columns["time"][index])}
        for name, column in self._columns.items():
            value = float(column[index])
            if name not in OWN and value != MISSING:
                row[name] = int(value) if name == "samples" and value.is_integer() else value
        return row


class History(Sequence):
    """All ranks' reports, rank by rank: a list of dicts, so `pandas.DataFrame(run.history)` is a tidy table."""

    def __init__(self, ranks: list[RankHistory]):
        self._ranks = copy.deepcopy(ranks)  # a picture of this moment, while the run goes on
        self._lengths = [len(rank) for rank in self._ranks]

    @property
    def thinned(self) -> int:
        """1 while every report is here; n when one in n of some rank was kept, to bound the memory."""
        return max((rank.stride for rank in self._ranks), default=1)

    def __len__(self) -> int:
        return sum(self._lengths)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        for rank, length in enumerate(self._lengths):
            if position < length:
                return self._ranks[rank].record(rank, position)
            position -= length
        raise IndexError(index)

    def __iter__(self) -> Iterator[dict]:
        for rank, length in enumerate(self._lengths):
            for index in range(length):
                yield self._ranks[rank].record(rank, index)

    def __repr__(self) -> str:
        kept = f", one in {self.thinned} kept (the totals are exact)" if self.thinned > 1 else ""
        return f"<History: {len(self):,} reports of {count(len(self._ranks), 'rank')}{kept}>"
