"""`compare_approaches`: every approach on this machine, for models of three sizes, measured in the background."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import LaunchError
from ..folders import kept_folder, write_whole
from ..measuring.measurement import Measurement, MeasurementError
from ..measuring.sweep import SKIP
from ..measuring.sweep_data import now, this_machine
from ..notebook import in_notebook
from ..running import script, worker
from ..showing.picture import Picture
from . import approaches
from .approaches import APPROACHES, MODELS, Approach, Comparison, Measured
from .tables import ApproachTable, table

TRAININGS = Path(__file__).with_name("trainings.py")


def compare_approaches(models: str | Iterable[str] = tuple(MODELS), *, batch_size: int = 128, rounds: int = 2,
                       reuse: bool = False, show: bool = True) -> ApproachComparison:
    """Measure every approach of the lessons on this machine. Returns at once and measures in the background.

    models      "small", "middle" and "large", or some of them
    batch_size  samples of a step over all processes, so that all approaches train the same
    rounds      how often everything is measured, in turn forwards and backwards
    reuse       take the kept result of an equal comparison on this machine, if there is one
    show        in a notebook, show the progress under the cell, with a Stop button

    With two cores it takes one to two minutes. `await` it or `wait()`; then `table()` and `plot()`, and `guide` cites
    its numbers. Raises LaunchError, before anything is started, for a request that cannot work.
    """
    if worker.inside:
        raise LaunchError("a worker loaded this script and came upon a comparison: put it under the main guard, "
                          'if __name__ == "__main__":')
    rounds, batch_size = script.whole_number("rounds", rounds), script.whole_number("batch_size", batch_size)
    data = approaches.prepare(_models(models), batch_size, rounds, this_machine(), now())
    most = max(cell.processes for cell in data.cells)
    if batch_size % (4 * most):
        raise LaunchError(f"batch_size is shared out to {most} processes and to 4 micro-batches: take a multiple of "
                          f"{4 * most}, not {batch_size}")
    kept = _read(_kept_at(data)) if reuse else None
    found = ApproachComparison(kept or data, going=kept is None)
    if show and in_notebook():
        from .comparison_view import show as show_comparison

        show_comparison(found)
    return found


def newest_kept() -> Comparison | None:
    """The comparison that was measured last on this machine, or None."""
    here, found = this_machine(), []
    with suppress(OSError):
        found = [data for path in kept_folder("approaches", cache=True).glob("*.json") if (data := _read(path))]
    found = [data for data in found if all(data.machine.get(key) == here[key] for key in ("model", "usable"))]
    return max(found, key=lambda data: data.date, default=None)


class ApproachComparison(Measurement):
    """The measurement of all approaches; see Measurement.

    data    what was measured so far (see approaches.Comparison)
    going   what is being measured, or None
    """

    data: Comparison

    def __init__(self, data: Comparison, going: bool):
        self.going: Measured | None = None
        super().__init__(data, going)

    def table(self) -> ApproachTable:
        """What has been measured so far: for each approach and model the speed, efficiency, memory and loss."""
        return table(self.data)

    def plot(self) -> Picture:
        """Wait for the end, then the chart: the speed-up of each approach, a panel for each model."""
        from .approach_chart import alt_text, approach_figure

        self.wait()
        return Picture(approach_figure(self.data), alt_text(self.data))

    def __repr__(self) -> str:
        return f"<comparison of approaches: {self.state}, {self.data.done} of {self.data.to_do} measurements>"

    def _measure(self) -> None:
        by_name = {approach.name: approach for approach in APPROACHES}
        try:
            for turn in range(self.data.rounds):
                for cell in self.data.cells if turn % 2 == 0 else reversed(self.data.cells):
                    if cell.error is None:  # what has failed once is not tried again
                        self.going = cell
                        self._measure_once(by_name[cell.approach], cell)
        finally:
            self.going = None

    def _measure_once(self, approach: Approach, cell: Measured) -> None:
        run = self._run(TRAININGS, cell.processes, threads=cell.threads, approach=approach.training, model=cell.model,
                        batch_size=self.data.batch_size, steps=self.data.steps(cell.model),
                        shared=_shared(approach, cell))
        rate = run.throughput(SKIP)
        if run.state == "failed" or not rate:
            cell.error, cell.rates = run.error or "it reported too little to measure its speed", []
            if approach is APPROACHES[0]:  # without it there is nothing to compare with
                raise MeasurementError(f"the baseline, {approach.name}, could not be measured: {cell.error}",
                                        run.traceback)
            return
        ended = run.results
        cell.rates.append(rate)
        cell.loss = ended[-1]["loss"]  # the last rank has it in a pipeline too
        taken = sum(result["memory"] for result in ended)
        cell.memory = min(taken, cell.memory or taken)  # a first worker may have pages of its own that others share

    def _keep(self) -> None:
        text = json.dumps(approaches.to_dict(self.data), indent=1)
        with suppress(OSError):
            write_whole(_kept_at(self.data), lambda file: file.write(text.encode()))


def _shared(approach: Approach, cell: Measured):
    """Hogwild's model, which its processes are given; None for the other approaches."""
    if approach.training != "hogwild":
        return None
    from torch import nn

    from .trainings import network

    return nn.Sequential(*network(cell.model)).share_memory()


def _models(given: str | Iterable[str]) -> list[str]:
    models = [given] if isinstance(given, str) else list(given)
    if not models or any(model not in MODELS for model in models) or len(set(models)) < len(models):
        raise LaunchError(f"models takes some of {', '.join(MODELS)}, each once, not {given!r}")
    return models


def _kept_at(data: Comparison) -> Path:
    """The file of a comparison, named by all that makes two of them equal."""
    places = [(cell.approach, cell.model, cell.processes, cell.threads) for cell in data.cells]
    equal = [places, data.batch_size, data.rounds, data.machine, MODELS, TRAININGS.read_text(encoding="utf-8")]
    name = hashlib.sha256(json.dumps(equal, sort_keys=True).encode()).hexdigest()[:16]
    return kept_folder("approaches", cache=True) / f"{name}.json"


def _read(path: Path) -> Comparison | None:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        return approaches.from_dict(json.loads(path.read_text(encoding="utf-8")))
    return None
