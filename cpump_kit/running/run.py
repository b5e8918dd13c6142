"""A `Run`: workers on one side, their reader on the other, and the only thing in which the two meet."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator
from multiprocessing import resource_sharer
from pathlib import Path

from ..errors import RunStopped, WorkerError
from .hang import Where
from .history import History
from .record import RankStatus, Record
from .supervisor import Request, Supervisor


class Run:
    """A run of a script in worker processes, from `launch` on. Everything here may be read at any time.

    script, nprocs, threads   what runs, the number of ranks, the intra-op threads of each
    folder                    holds what each rank printed (rank0.log, ...); it goes when this object goes
    """

    def __init__(self, request: Request):
        self.script, self.nprocs, self.threads = request.target.name, request.nprocs, request.threads
        self.folder = Path(tempfile.mkdtemp(prefix="cpump-"))  # readable by this user alone
        self._record = Record(request.nprocs, self.folder, request.notes)
        self._ended, self._callbacks = threading.Event(), []
        self._waiting = 0
        # At a program's end `_end_all` does it, once no worker writes there any more.
        weakref.finalize(self, shutil.rmtree, self.folder, True).atexit = False
        _runs.add(self)
        self._supervisor = Supervisor(request, self._record, self.folder, self._tell_end)

    @property
    def state(self) -> str:
        """ "starting", "training", "done", "failed" or "stopped"."""
        return self._record.state

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know of its timings or safety, a line each."""
        with self._record.lock:
            return tuple(self._record.notes)

    @property
    def error(self) -> str | None:
        """One clear sentence about what ended the run early, or None."""
        return self._record.error

    @property
    def traceback(self) -> str | None:
        """The failing rank's own traceback, from the script's first line on, or None."""
        return self._record.traceback

    @property
    def results(self) -> list:
        """Wait for the end, then what the function returned, by rank. Raises WorkerError or RunStopped."""
        self.wait()
        if self.state == "failed":
            raise WorkerError(self.error + (f"\n\n{self.traceback}" if self.traceback else ""))
        if self.state == "stopped":
            raise RunStopped(self.error)
        return list(self._record.results)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, at most `timeout` seconds; True if it has. An interrupt stops the run."""
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
        return self._ended.is_set()

    def __await__(self) -> Generator:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> list:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.when_ended(lambda: loop.call_soon_threadsafe(ended.set))
        try:
            await ended.wait()
        except (asyncio.CancelledError, KeyboardInterrupt):
            self.stop()
            self._ended.wait()
        return self.results

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call `call` from the run's thread when the run has ended; at once if it has already."""
        with self._record.lock:
            if not self._ended.is_set():
                self._callbacks.append(call)
                return
        call()

    def _tell_end(self) -> None:
        with self._record.lock:
            self._ended.set()
        for call in self._callbacks:
            call()

    def stop(self) -> None:
        """End the run. The workers are asked, and ended a second later if they are still there. Returns at once."""
        self._supervisor.stop()

    def where(self, timeout: float = 1.0) -> Where:
        """Where each rank is now, by the script's line, and what it usually means if they get no further.

        Prints as a line a rank. Waits at most `timeout` seconds for the answers.
        """
        with self._record.lock:
            self._record.places.clear()
        self._supervisor.ask_where()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not self._ended.is_set():
            with self._record.lock:
                if all(rank.rank in self._record.places for rank in self.ranks if rank.state == "training"):
                    break
            time.sleep(0.01)
        with self._record.lock:
            return self._record.where()

    @property
    def standstill(self) -> str | None:
        """While a rank has not reported for long: where all of them are, and what it usually means. Else None."""
        return self._record.standstill

    @property
    def blocking(self) -> bool:
        """True while somebody waits in `results` or `wait`, so that a notebook's kernel takes no messages."""
        return self._waiting > 0

    @property
    def seconds(self) -> float:
        """Seconds from the launch until now, or until the end."""
        with self._record.lock:
            return (self._record.ended or time.monotonic()) - self._record.launched

    @property
    def samples(self) -> int:
        """Samples that all ranks have processed."""
        with self._record.lock:
            return int(sum(history.samples for history in self._record.histories))

    @property
    def samples_per_second(self) -> float | None:
        """Over the whole run and all ranks, from the first report to the last; None before that can be told."""
        return self.throughput(skip=0.0)

    def throughput(self, skip: float = 0.2) -> float | None:
        """Samples per second over all ranks without the warm-up, the first `skip` (a share) of each rank's reports."""
        with self._record.lock:
            rates = [history.rate(skip) for history in self._record.histories]
        return None if None in rates else sum(rates)

    @property
    def progress(self) -> tuple[float | None, float | None]:
        """(share done, seconds left); None where the script reports no total, or its speed is not known yet."""
        ranks = self.ranks
        if any(status.total is None for status in ranks):
            return None, None
        total, done = sum(status.total for status in ranks), sum(status.samples for status in ranks)
        share = min(1.0, done / total) if total else 1.0
        speeds = [status.samples_per_second for status in ranks if status.state == "training"]
        unknown = None in speeds or sum(speeds) <= 0
        return share, None if unknown else max(0.0, total - done) / sum(speeds)

    @property
    def ranks(self) -> list[RankStatus]:
        """How each rank is doing now."""
        with self._record.lock:
            return [self._record.status(rank) for rank in range(self.nprocs)]

    @property
    def history(self) -> History:
        """What was reported until now: a list of dicts with rank, step, time (seconds since launch) and the rest."""
        with self._record.lock:
            return History(self._record.histories)

    def series(self, name: str = "loss", points: int = 200, over: str = "samples so far",
               ) -> dict[int, tuple[list[float], list[float]]]:
        """For each rank: the samples so far, and `name` there, as means of at most `points` stretches. For drawing.

        over   "seconds" gives the seconds since the launch in place of the samples
        """
        column = "time" if over == "seconds" else over
        with self._record.lock:
            return {rank: history.series(name, points, column) for rank, history in enumerate(self._record.histories)}

    @property
    def output(self) -> list[tuple[int, str]]:
        """The last lines that the workers printed, as (rank, line), those that have not ended yet included."""
        with self._record.lock:
            return [*self._record.output.since(0), *self._record.output.unfinished()]

    def output_since(self, count: int) -> tuple[int, list[tuple[int, str]]]:
        """(number of lines so far, those after the first `count` that are still kept)."""
        with self._record.lock:
            return self._record.output.count, self._record.output.since(count)

    def __repr__(self) -> str:
        ranks = "1 rank" if self.nprocs == 1 else f"{self.nprocs} ranks"
        return f"<Run of {self.script}: {ranks}, {self.state}, {self.seconds:.1f} s>"


_runs: weakref.WeakSet[Run] = weakref.WeakSet()


def known_runs() -> set[Run]:
    """The runs of this process that somebody still holds, or that have not ended."""
    return set(_runs)


def runs_in_progress() -> list[str]:
    """The names of the runs of this process that have not ended."""
    return [run.script for run in _runs if not run.wait(0)]


@atexit.register
def _end_all() -> None:
    """A program's end ends its runs, before multiprocessing would wait for their processes."""
    if runs_in_progress():
        # A worker that ends while it fetches a socket from here would make multiprocessing print a traceback.
        resource_sharer.stop(timeout=1)
    for run in list(_runs):
        if not run.wait(0):
            print(f"cpump: {run.script} was still training when its program ended, and was stopped. "
                  "Wait for it with run.results.", file=sys.stderr)
            run.stop()
            run.wait(5)
        shutil.rmtree(run.folder, ignore_errors=True)
