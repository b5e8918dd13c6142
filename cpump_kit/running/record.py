"""What is known of a run: written by its supervisor, read by `Run`, under one lock."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .events import Done, Failed, Place, Reports, Started
from .hang import Where, where
from .history import PARTS, RankHistory
from .output import Output
from .verdict import Outcome


@dataclass(frozen=True)
class RankStatus:
    """How one rank is doing now.

    state   starting, training, done, failed or stopped
    core    the core that it ran on when last looked at, where the system says so
    parts   {part of a step: seconds that it has taken in all}, where the script reports them (history.PARTS)
    """

    rank: int
    state: str
    steps: int
    samples: int
    total: int | None
    samples_per_second: float | None
    loss: float | None
    core: int | None = None
    parts: dict[str, float] = field(default_factory=dict)


class Record:
    """The lock guards every field; take it around each access."""

    def __init__(self, nprocs: int, folder: Path, notes: tuple[str, ...] = ()):
        self.lock = threading.RLock()
        self.notes = list(notes)  # on the run's timings or safety; more may come
        self.state = "starting"  # then "training", and at the end "done", "failed" or "stopped"
        self.error: str | None = None
        self.traceback: str | None = None
        self.results: list = [None] * nprocs
        self.launched, self.ended = time.monotonic(), None
        self.histories = [RankHistory() for _ in range(nprocs)]
        self.outcomes = [Outcome(rank) for rank in range(nprocs)]
        self.started: set[int] = set()
        self.cores: dict[int, int] = {}  # on which each rank ran when last looked at
        self.heard: dict[int, float] = {}  # when each rank last reported, or started
        self.places: dict[int, Place] = {}  # the newest answers to WHERE
        self.standstill: str | None = None  # where the ranks are, while one has not been heard for long
        self.output = Output(folder, nprocs)

    def take(self, rank: int, event: Started | Reports | Place | Done | Failed) -> None:
        """Note what a worker has said."""
        with self.lock:
            if isinstance(event, (Reports, Started)):
                self.heard[rank] = time.monotonic()
            if isinstance(event, Reports):
                self.histories[rank].add(event, self.launched)
            elif isinstance(event, Place):
                self.places[rank] = event
            elif isinstance(event, Started):
                self.started.add(rank)
                if len(self.started) == len(self.outcomes):
                    self.state = "training"
            else:
                self.outcomes[rank].event = event

    def status(self, rank: int) -> RankStatus:
        history, outcome = self.histories[rank], self.outcomes[rank]
        if isinstance(outcome.event, Done):
            state = "done"
        elif outcome.kind is not None and not outcome.ended_by_us:
            state = "failed"
        elif self.ended is not None:
            state = "stopped"
        else:
            state = "training" if rank in self.started else "starting"
        return RankStatus(
            rank, state, history.steps, int(history.samples), None if history.total is None else int(history.total),
            history.samples_per_second, history.last.get("loss"), self.cores.get(rank),
            {name: history.parts[name] for name in PARTS if name in history.parts})

    def where(self) -> Where:
        """Where the ranks said that they are, and what it means."""
        states = [self.status(rank).state for rank in range(len(self.outcomes))]
        return where(states, [self.places.get(rank) for rank in range(len(states))])
