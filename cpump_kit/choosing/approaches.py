"""The approaches that the lessons have shown, in words, and what was measured of them: plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median

from ..style import count


@dataclass(frozen=True)
class Approach:
    """One way to use the cores.

    training    its name in trainings.APPROACHES
    processes   their number, or None for a rank on each usable core (8 at most)
    one_thread  a single intra-op thread; otherwise the processes divide the usable cores among them
    exact       it trains what one process trains, to rounding
    goes_wrong, use_when   without a full stop
    begin_with  the line or the script to begin with
    """

    name: str
    training: str
    processes: int | None
    one_thread: bool
    exact: bool
    lesson: str
    goes_wrong: str
    use_when: str
    begin_with: str


APPROACHES = (
    Approach("one process, one thread", "one process", 1, True, True, "01", "it leaves the other cores idle",
             "you need a baseline, or have many small trainings: then one a core, side by side",
             "torch.set_num_threads(1)"),
    Approach("one process, all threads", "one process", 1, False, True, "02",
             "layers that are quick to compute: the threads then wait for each other longer than they work",
             "first of all: nothing in the script changes", "scripts/single.py"),
    Approach("Hogwild", "hogwild", None, False, False, "04",
             "processes overwrite each other's updates: no two runs are equal, and a large learning rate may not learn",
             "the model is small, samples are many, and results may vary", "scripts/hogwild.py"),
    Approach("DDP, gloo", "ddp", None, False, True, "07",
             "many weights that are quick to compute: each step then waits for its messages",
             "several hosts or GPUs will follow: it is the standard, and the same script runs there",
             "scripts/ddp.py"),
    Approach("DDP, shared-memory hook", "hook", None, False, True, "07",
             "it is for the ranks of one machine: on several hosts it is refused",
             "you have a DDP script and one machine: one line more",
             "model.register_comm_hook(*cp.shared_memory_hook())"),
    Approach("share_training", "share_training", None, False, True, "07",
             "it is for one machine, and for optimizers that treat each number by itself: others are refused",
             "one machine has to give all it can, with the result of one process",
             "optimizer = cp.share_training(model, optimizer)"),
    Approach("DDP, gloo, 4 batches a step", "accumulation", None, False, False, "08",
             "fewer steps for the same samples: the learning rate no longer fits, and the loss is behind",
             "messages are slow, or the batch that you want does not fit into memory", "scripts/accumulation.py"),
    Approach("pipeline of 2 stages", "pipeline", 2, False, True, "09",
             "the bubble: stages wait for each other, and the slower one sets the pace",
             "the model does not fit into one process", "scripts/pipeline.py"),
)

# A model's name, what it is, and on how many samples each approach trains it. See trainings.network.
MODELS = {
    "small": ("a network of 3 linear layers, 55,000 weights", 76_800),
    "middle": ("a network of 3 linear layers, 670,000 weights", 15_360),
    "large": ("a convolutional network, 850,000 weights that each work at many places", 3_840),
}
FEWEST = 12  # steps that a speed can be measured on, whatever the batch
MOST = 8  # processes: more need a larger batch before they pay


@dataclass
class Measured:
    """One approach with one model. `rates`: samples/s over all processes, one a round, without the warm-up.

    loss     on held-out digits, after the same samples as all others
    memory   bytes of all processes at the end; what they share counts once (on Linux)
    error    the sentence of a run that failed, or None
    """

    approach: str
    model: str
    processes: int
    threads: int
    rates: list[float] = field(default_factory=list)
    loss: float | None = None
    memory: int | None = None
    error: str | None = None

    @property
    def rate(self) -> float | None:
        return median(self.rates) if self.rates else None


@dataclass
class Comparison:
    """What was measured of every approach: see `Measured`. state: measuring, done, stopped or failed."""

    batch_size: int
    rounds: int
    machine: dict
    date: str
    cells: list[Measured]
    state: str = "measuring"
    error: str | None = None

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(cell.model for cell in self.cells))

    @property
    def done(self) -> int:
        return sum(self.rounds if cell.error else len(cell.rates) for cell in self.cells)

    @property
    def to_do(self) -> int:
        return self.rounds * len(self.cells)

    def steps(self, model: str) -> int:
        """How many of its batches each approach trains on."""
        return max(FEWEST, MODELS[model][1] // self.batch_size)

    def cell(self, approach: str, model: str) -> Measured:
        return next(cell for cell in self.cells if (cell.approach, cell.model) == (approach, model))

    def speedups(self, cell: Measured) -> list[float]:
        """Of each round, against one process with one thread."""
        one = self.cell(APPROACHES[0].name, cell.model).rate
        return [rate / one for rate in cell.rates] if one else []

    def speedup(self, cell: Measured) -> float | None:
        found = self.speedups(cell)
        return median(found) if found else None

    def fastest(self, model: str, exact: bool = False) -> Measured | None:
        """The approach with the most samples/s; `exact`: among those that train what one process trains."""
        allowed = {approach.name for approach in APPROACHES if approach.exact or not exact}
        cells = [cell for cell in self.cells if cell.model == model and cell.rates and cell.approach in allowed]
        return max(cells, key=lambda cell: cell.rate, default=None)

    def notes(self) -> list[str]:
        """What a reader must know before trusting the numbers. Without full stops."""
        usable = self.machine["usable"]
        notes = [f"{cell.approach}, {cell.model} model: {cell.error}".rstrip(".") for cell in self.cells if cell.error]
        if self.state == "stopped":
            notes.append(f"stopped early: {self.done} of {count(self.to_do, 'measurement')} were made")
        most = max(cell.processes * cell.threads for cell in self.cells)
        if most > usable:
            notes.append(f"{count(most, 'process')} share {count(usable, 'usable core')}, so they take turns")
        if self.rounds == 1:
            notes.append("each was measured once, so its spread is not known")
        return notes

    def caption(self) -> str:
        how = f"median of {self.rounds} interleaved rounds" if self.rounds > 1 else "one measurement each"
        return (f"{self.machine['model']}, {count(self.machine['usable'], 'usable core')}, torch "
                f"{self.machine['torch']}, {self.date[:10]}. Steps of {self.batch_size} samples over all processes; "
                f"samples/s without the warm-up, {how}.")


def prepare(models: list[str], batch_size: int, rounds: int, machine: dict, date: str) -> Comparison:
    """A comparison in which nothing has been measured yet."""
    cells = [Measured(approach.name, model, *_places(approach, machine["usable"]))
             for model in models for approach in APPROACHES]
    return Comparison(batch_size, rounds, machine, date, cells)


def _places(approach: Approach, usable: int) -> tuple[int, int]:
    """(processes, threads of each) on so many usable cores."""
    processes = approach.processes or max(2, min(usable, MOST))
    return processes, 1 if approach.one_thread else max(1, usable // processes)


def to_dict(data: Comparison) -> dict:
    return asdict(data)


def from_dict(content: dict) -> Comparison:
    """The inverse. Raises TypeError or KeyError for something else."""
    return Comparison(**{**content, "cells": [Measured(**cell) for cell in content["cells"]]})
