"""`sweep`: how a script scales over processes on this machine, measured in the background."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from ..errors import CpumpError, LaunchError, WorkerError
from ..machine import cores
from ..notebook import in_notebook
from ..running import script, worker
from ..running.launch import launch
from ..showing.picture import drawing
from ..style import count
from . import kept, sweep_data
from .sweep_data import Setting, SweepData, SweepError, Table, now, this_machine

if TYPE_CHECKING:
    from ..running.run import Run
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


class Sweep:
    """A measurement that goes on in the background, or one that was loaded. Everything may be read at any time.

    data       what was measured so far, in samples/s (see sweep_data.SweepData)
    going      the setting that is being measured, or None
    traceback  the failing rank's own, or None
    """

    def __init__(self, data: SweepData, plan: list[tuple] = (), arguments: dict | None = None):
        self.data, self.traceback = data, None
        self._plan, self._arguments = plan, arguments or {}
        self._seconds: list[float] = []
        self._run: Run | None = None
        self.going: Setting | None = None
        self._stop_asked = False
        self._waiting = 0
        self._lock, self._ended, self._callbacks = threading.Lock(), threading.Event(), []
        if plan:
            threading.Thread(target=self._measure, name=f"cpump sweep of {data.script}", daemon=True).start()
        else:
            self._ended.set()

    @property
    def state(self) -> str:
        """ "measuring", "done", "stopped" or "failed"."""
        return self.data.state

    @property
    def error(self) -> str | None:
        """The failed run's sentence, or None."""
        return self.data.error

    @property
    def blocking(self) -> bool:
        """True while somebody waits in `wait` or `plot`, so that a notebook's kernel takes no messages."""
        return self._waiting > 0

    def stop(self) -> None:
        """End the sweep and the run that is going on. What has been measured is kept. Returns at once."""
        with self._lock:
            self._stop_asked = True
            if self._run is not None:
                self._run.stop()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call `call` from the sweep's thread when it has ended; at once if it has already."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(call)
                return
        call()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True if it has come. An interrupt stops the sweep.

        Raises WorkerError if a run failed; what was measured before is kept.
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        self._waiting += 1
        try:
            # In short pieces: on Windows an endless wait would not notice an interrupt.
            while not self._ended.wait(max(0.0, min(0.2, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    break
        except KeyboardInterrupt:
            self.stop()
            self._ended.wait()
        finally:
            self._waiting -= 1
        self._raise_failure()
        return self._ended.is_set()

    def __await__(self) -> Generator:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Sweep:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.when_ended(lambda: loop.call_soon_threadsafe(ended.set))
        try:
            await ended.wait()
        except (asyncio.CancelledError, KeyboardInterrupt):
            self.stop()
            self._ended.wait()
        self._raise_failure()
        return self

    def _raise_failure(self) -> None:
        if self.state == "failed" and self._plan:  # not a loaded one, which is there to be looked at
            traceback = f"\n\n{self.traceback}" if self.traceback else ""
            raise WorkerError(f"{self.error}\nWhat was measured before is in sweep.table().{traceback}")

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

    # -- the sweep's thread -----------------------------------------------------------------------------------------

    def _measure(self) -> None:
        try:
            for turn in range(self.data.repeats):
                for what, setting in self._plan if turn % 2 == 0 else reversed(self._plan):
                    self._measure_once(what, setting)
                    if self.state != "measuring":
                        return
            self.data.state = "done"
            kept.keep(self.data)
        except CpumpError as error:
            self._fail(str(error))
        except Exception as error:  # whatever it is, nobody may wait for ever
            self._fail(f"the sweep ended unexpectedly: {type(error).__name__}: {error}")
        finally:
            self.going = None
            with self._lock:
                self._ended.set()
            for call in self._callbacks:
                call()

    def _measure_once(self, what, setting: Setting) -> None:
        with drawing:
            pass  # the picture of an earlier run takes a core for a moment
        with self._lock:
            if self._stop_asked:
                self.data.state = "stopped"
                return
            self.going = setting
            self._run = run = launch(what, setting.processes, threads=setting.threads, show=False, **self._arguments)
        run.wait()
        rate = run.throughput(SKIP)
        if run.state == "failed":
            self._fail(run.error, run.traceback)
        elif run.state == "stopped":
            self.data.state = "stopped"
        elif not rate:
            self._fail(f"{setting.script} reported too few samples to measure its speed: call "
                       f"report(samples=...) at each step, and let it make at least ten steps")
        else:
            self._seconds.append(run.seconds)
            setting.rates.append(rate)

    def _fail(self, sentence: str, traceback: str | None = None) -> None:
        self.data.error, self.traceback = sentence, traceback
        self.data.state = "failed"

    @property
    def progress(self) -> tuple[float, float | None]:
        """(share done, seconds left or None), the going run's own progress included."""
        run, each = self._run, mean(self._seconds) if self._seconds else None
        part = (run.progress[0] or 0.0) if run is not None and run.state == "training" else 0.0
        done = min(self.data.done + part, self.data.to_do)
        return done / self.data.to_do, None if each is None else (self.data.to_do - done) * each
