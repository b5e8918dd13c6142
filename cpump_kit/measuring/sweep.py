"""`sweep`: how a script scales over processes on this machine, measured in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LaunchError
from ..machine import cores
from ..notebook import in_notebook
from ..running import script, worker
from ..style import count
from . import kept, sweep_data
from .measurement import Measurement, MeasurementError
from .sweep_data import Setting, SweepData, SweepError, Table, now, this_machine

if TYPE_CHECKING:
    from ..showing.picture import Picture

BESIDE = 5  # curves of other sweeps in one chart: more could not be told apart
SKIP = 0.2  # the share of each run's reports that is its warm-up
FOR_LAUNCH = ("start_method", "silence", "timeout")  # arguments that are not for train()


def sweep(what: str | Path | Callable, nprocs: Iterable[int] = (1, 2), repeats: int = 3, *,
          baseline: str | Path | Callable | None = None, threads: int | Iterable[int] = 1, label: str | None = None,
          reuse: bool = False, show: bool = True, **arguments) -> Sweep:
    """Measure the samples/s of `what` on each of `nprocs` processes. Returns at once and measures in the background.

    what       a script's path or a function, as for `launch`; `arguments` go to its train() or to `launch`
    nprocs     process counts; each process gets `threads` intra-op threads, the same at every count, so that n
               processes use n times as many cores as one
    threads    intra-op threads of each process, or several counts of them for one process: nprocs=1, threads=(1, 2)
    label      names the approach in charts and tables; the script's name by default
    reuse      take the kept result of an equal sweep on this machine, if there is one (see `past_sweeps`)
    repeats    how often each setting is measured; the repeats are interleaved (each round measures every setting, in
               turn forwards and backwards), so that a machine that warms up or gets busy does not favour one of them
    baseline   the script to compare with, for example the plain single-process one; by default `what` itself
    show       in a notebook, show the progress under the cell, with a Stop button

    Two more settings are always measured: the baseline in one process with one thread, which is speed-up 1, and the
    baseline in one process with as many threads as usable cores, which any number of processes has to beat.

    `await sweep` or `sweep.wait()` waits, `sweep.plot()` waits and draws, `sweep.table()` shows what there is so far.
    Raises LaunchError, before anything is started, for a request that cannot work.
    """
    if worker.inside:
        raise LaunchError("a worker loaded this script and came upon a sweep: put it under the main guard, "
                          'if __name__ == "__main__":')
    counts, thread_counts = _counts("nprocs", nprocs), _counts("threads", threads)
    if len(counts) > 1 and len(thread_counts) > 1:
        raise LaunchError("vary either nprocs or threads in one sweep: nprocs=(1, 2), or nprocs=1 with threads=(1, 2)")
    repeats = script.whole_number("repeats", repeats)
    plain = what if baseline is None else baseline
    targets = [script.find(what), script.find(plain)]
    for target in targets:
        script.check_arguments(target, {name: arguments[name] for name in arguments if name not in FOR_LAUNCH})
    name, plain_name = (target.name for target in targets)
    usable = cores().usable

    one = Setting(plain_name, 1, 1)
    here = baseline is None and counts == [1] and usable in thread_counts  # a point of the curve is that line already
    all_threads = Setting(plain_name, 1, usable) if usable > 1 and not here else None
    settings = [one if baseline is None and n == t == 1 else Setting(name, n, t) for n in counts for t in thread_counts]
    data = SweepData(name, one, all_threads, settings, repeats, {k: repr(v) for k, v in arguments.items()},
                     this_machine(), now(), label=label or name)
    data.source = kept.source(data, targets)
    if reuse and (earlier := kept.find(data.source)):
        return _shown(Sweep(earlier), show)
    plan = [(plain if s is one or s is all_threads else what, s) for s in data.all_settings]
    return _shown(Sweep(data, plan, arguments), show)


def _shown(found: Sweep, show: bool) -> Sweep:
    if show and in_notebook():
        from .sweep_view import show as show_sweep

        show_sweep(found)
    return found


def past_sweeps() -> list[Sweep]:
    """The kept sweeps of this machine, the newest of each label, newest first; for `sweep.plot(beside=...)`.

    Every sweep that ends is kept in the user's cache.
    """
    return [Sweep(data) for data in kept.newest(this_machine())]


def load_sweep(path: str | Path) -> Sweep:
    """The sweep that `sweep.save(path)` wrote. Raises SweepError if the file holds none."""
    return Sweep(sweep_data.load(Path(path).expanduser()))


def _counts(name: str, given) -> list[int]:
    """The numbers of processes or threads, each once, in rising order."""
    several = [given] if isinstance(given, int) else given
    if isinstance(several, (str, bytes)) or not isinstance(several, Iterable):
        raise LaunchError(f"{name} takes whole numbers, for example {name}=(1, 2), not {given!r}")
    counts = sorted({script.whole_number(f"each of {name}", n) for n in several})
    if not counts:
        raise LaunchError(f"{name} is empty: give at least one number, for example {name}=(1, 2)")
    return counts


class Sweep(Measurement):
    """The measurement of a scaling curve; see Measurement. `await` it or `wait()`, then `plot()`.

    data    what was measured so far, in samples/s (see sweep_data.SweepData)
    going   the setting that is being measured, or None
    """

    data: SweepData

    def __init__(self, data: SweepData, plan: list[tuple] = (), arguments: dict | None = None):
        self._plan, self._arguments = plan, arguments or {}
        self.going: Setting | None = None
        super().__init__(data, going=bool(plan))

    def plot(self, prediction=None, beside: Iterable[Sweep] = ()) -> Picture:
        """Wait for the end, then the scaling chart: speed-up and efficiency over processes.

        prediction   a guess to draw beside the measurement: what cp.predict returned, a speed-up for the largest
                     number of processes, or {processes: speed-up}
        beside       other sweeps to draw with it, for example cp.past_sweeps(), at most the first five; each against
                     its own baseline. One with the label of this sweep is left out.
        A stopped sweep gives the chart of what it has. Raises WorkerError if a run failed, SweepError if there is
        nothing to draw. `.figure` of the result is the matplotlib figure, `.save(path)` writes it to a file.
        """
        self.wait()
        others = [other.data for other in beside if other.data.label != self.data.label and other.data.baseline.rates]
        return self.data.picture(self._guesses(prediction), others[:BESIDE])

    def _guesses(self, prediction) -> dict[int, float]:
        prediction = getattr(prediction, "value", prediction)
        if prediction is None:
            return {}
        last = self.data.settings[-1]
        most = last.threads if self.data.over_threads else last.processes
        guesses = prediction if isinstance(prediction, dict) else {most: prediction}
        try:
            return {int(n): float(guess) for n, guess in guesses.items()}
        except (TypeError, ValueError):
            raise SweepError(f"a prediction is a speed-up such as 1.8, or {{2: 1.8}}, not {prediction!r}") from None

    def table(self) -> Table:
        """What has been measured so far: a row a setting, speed-up and efficiency against the baseline."""
        return self.data.table()

    def save(self, path: str | Path) -> None:
        """Write everything measured as JSON, for `cp.load_sweep(path)`. Never overwrites a file that is no sweep."""
        sweep_data.save(self.data, Path(path).expanduser())

    def __repr__(self) -> str:
        done = f"{self.data.done} of {count(self.data.to_do, 'measurement')}"
        return f"<Sweep of {self.data.script}: {self.state}, {done}>"

    def _measure(self) -> None:
        try:
            for turn in range(self.data.repeats):
                for what, setting in self._plan if turn % 2 == 0 else reversed(self._plan):
                    self.going = setting
                    self._measure_once(what, setting)
        finally:
            self.going = None

    def _measure_once(self, what, setting: Setting) -> None:
        run = self._run(what, setting.processes, threads=setting.threads, **self._arguments)
        if run.state == "failed":
            raise MeasurementError(run.error, run.traceback)
        rate = run.throughput(SKIP)
        if not rate:
            raise MeasurementError(f"{setting.script} reported too few samples to measure its speed: call "
                                    f"report(samples=...) at each step, and let it make at least ten steps")
        setting.rates.append(rate)

    def _keep(self) -> None:
        kept.keep(self.data)
