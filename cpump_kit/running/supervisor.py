"""The thread behind a run: it starts the workers, takes in what they say, and ends them all.

    launch ──Request──▶ Supervisor ──Job──▶ workers
                            │  ◀──events──────┘
                            ▼
                         Record ◀── Run (the reader's side)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, util
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path

from .. import machine
from . import carry, processes
from .events import STOP, WHERE, Done, Job
from .record import Record
from .rendezvous import Meeting
from .script import Target
from .tracebacks import of_fault
from .verdict import decide

HEAR_OUT = 0.3  # seconds in which the other ranks may say what happened, before a verdict
ASKED = 1.0  # seconds between the question to stop and the end of the process
POLL = 0.1  # seconds between two looks at what the workers printed
LOOK = 0.5  # seconds between two looks at their memory and at who has not been heard
ANSWER = 0.5  # seconds in which the ranks may say where they are before a run is ended for its time limit
LITTLE = 0.03  # the share of memory below which the system may soon end a process
MEMORY_LOW = "This machine's memory is nearly used up: if it runs out, the system ends a rank."


@dataclass(frozen=True)
class Request:
    """A checked request, as `launch` makes it."""

    target: Target
    nprocs: int
    threads: int
    method: str
    ready: bool  # workers that were started ahead will do
    calls: list[bytes]  # one packed call a rank
    arguments: dict  # kept until the run ends: a lock or a shared tensor goes with the last who holds it
    cells: dict[str, str]  # the text of notebook cells in the calls, by file name
    environment: dict[str, str]
    directory: str
    path: tuple[str, ...]
    notes: tuple[str, ...] = ()
    silence: float = 10.0  # seconds without a report after which the ranks are asked where they are
    timeout: float | None = None  # seconds that the run may take


class Supervisor(threading.Thread):
    """Starts at once. Workers belong to this thread, which stays until they have ended: Linux ties a parent-death
    signal to the thread that started a process."""

    def __init__(self, request: Request, record: Record, folder: Path, when_ended: Callable[[], None]):
        super().__init__(name=f"cpump {request.target.name}", daemon=True)
        self._request, self._record, self._folder, self._when_ended = request, record, folder, when_ended
        self._workers: list[processes.Worker] = []
        self._woken, self._wake = Pipe(duplex=False)
        self._calling = threading.Lock()
        self._stop_asked = False
        self._next_look = 0.0
        self.start()

    def stop(self) -> None:
        """Ask for the end. Returns at once."""
        self._stop_asked = True
        self._call(STOP)

    def ask_where(self) -> None:
        """Ask every rank where it is. Returns at once; the answers come into the record."""
        self._call(WHERE)

    def _call(self, request: str) -> None:
        with self._calling, suppress(OSError):  # it has ended
            self._wake.send(request)

    def run(self) -> None:
        try:
            self._start_workers()
            self._follow()
        except Exception as error:
            self._fail(f"{self._request.target.name} could not be run: {type(error).__name__}: {error}")
        finally:
            self._end_workers()
            self._request.arguments.clear()
            self._conclude()
            self._when_ended()
            if self._request.ready:
                processes.keep_ready(self._request.nprocs)

    def _start_workers(self) -> None:
        request, meeting = self._request, Meeting()
        for rank, call in enumerate(request.calls):
            if self._stop_asked:
                break
            worker = processes.start_worker(rank, request.method, self._workers, request.ready)
            self._workers.append(worker)
            job = Job(
                rank, request.nprocs, request.threads, request.target.script, request.target.function, call,
                environment={**request.environment, **meeting.environment(rank, request.nprocs)},
                directory=request.directory, path=request.path,
                store=meeting.handle() if rank == 0 else None, folder=str(self._folder),
                leftovers=(str(self._folder), util.get_temp_dir()), cells=request.cells)
            with suppress(OSError):  # it has ended already, which `_follow` will see
                worker.connection.send(job)
        request.calls.clear()
        meeting.close()  # the copy on its way to rank 0 keeps the port

    def _follow(self) -> None:
        """Take events until every rank is done or has ended, or until a failure or a stop has run its course."""
        talking = {worker.connection: worker for worker in self._workers}
        living = {worker.sentinel: worker for worker in self._workers}
        asked, deadline, outcomes = False, None, self._record.outcomes
        while living and not all(outcome.over for outcome in outcomes):
            for ready in wait_for_any([*talking, *living, self._woken], timeout=POLL):
                if ready is self._woken:
                    self._tell(self._woken.recv())
                elif ready in living:
                    self._note_end(living.pop(ready))
                elif not self._take_event(talking[ready]):
                    del talking[ready]
            with self._record.lock:
                self._record.output.poll()
            now = time.monotonic()
            if now >= self._next_look:
                self._next_look = now + LOOK
                self._look(living.values(), now)
            if self._stop_asked and not asked:
                asked, deadline = True, now + ASKED
            elif deadline is None and decide(outcomes, self._request.target.name) is not None:
                deadline = now + HEAR_OUT
            if deadline is not None and now >= deadline or self._out_of_time(now):
                break
        for worker in talking.values():
            self._drain(worker)

    def _tell(self, request: str) -> None:
        for worker in self._workers:
            if request == STOP:
                self._record.outcomes[worker.rank].ended_by_us = True
            with suppress(OSError):  # it has ended
                worker.connection.send(request)

    def _look(self, living: Iterable[processes.Worker], now: float) -> None:
        """Note the ranks' memory, and if one has not been heard for long, where all of them are."""
        record, (memory, free) = self._record, machine.memory()
        with record.lock:
            if free < LITTLE * memory and MEMORY_LOW not in record.notes:
                record.notes.append(MEMORY_LOW)
            for worker in living:
                outcome = record.outcomes[worker.rank]
                outcome.peak_memory = processes.peak_memory(worker) or outcome.peak_memory
                if (core := processes.core_of(worker)) is not None:
                    record.cores[worker.rank] = core
            heard = [when for rank, when in record.heard.items() if not record.outcomes[rank].over]
            quiet = now - min(heard, default=now)
            if quiet < self._request.silence:
                record.standstill = None
                return
            if record.standstill is not None or record.places:
                record.standstill = f"No report for {quiet:.0f} s.\n{record.where()}"
        self._tell(WHERE)

    def _out_of_time(self, now: float) -> bool:
        limit, record = self._request.timeout, self._record
        if limit is None or now - record.launched < limit:
            return False
        record.places.clear()
        self._tell(WHERE)
        while time.monotonic() < now + ANSWER and len(record.places) < len(self._workers):
            for connection in wait_for_any([worker.connection for worker in self._workers], timeout=0.05):
                self._take_event(next(worker for worker in self._workers if worker.connection is connection))
        name = self._request.target.name
        self._fail(f"{name} did not end within its time limit of {limit:g} s.", str(record.where()))
        return True

    def _take_event(self, worker: processes.Worker) -> bool:
        """Take one event; False at the end of the pipe."""
        try:
            event = worker.connection.recv()
        except (EOFError, OSError):
            return False
        self._record.take(worker.rank, event)
        return True

    def _drain(self, worker: processes.Worker) -> None:
        with suppress(OSError):
            while worker.connection.poll() and self._take_event(worker):
                pass

    def _note_end(self, worker: processes.Worker) -> None:
        self._drain(worker)  # what it said before its end
        worker.process.join()
        with self._record.lock:
            outcome = self._record.outcomes[worker.rank]
            outcome.exitcode, outcome.ended_ns = worker.process.exitcode, time.monotonic_ns()
            if outcome.event is None and outcome.exitcode < 0:
                outcome.machine = machine.cores()
                outcome.where, outcome.stack = of_fault(self._record.output.last_words(worker.rank))

    def _end_workers(self) -> None:
        for worker in self._workers:
            processes.kill(worker)
        for worker in self._workers:
            worker.process.join(5)
            worker.connection.close()

    def _conclude(self) -> None:
        """Say how it ended, once and for all."""
        record, name = self._record, self._request.target.name
        with record.lock:
            record.output.poll(final=True)
            record.ended = time.monotonic()
            if record.error is not None:
                return
            if all(isinstance(outcome.event, Done) for outcome in record.outcomes):
                self._unpack_results()
            elif self._stop_asked:
                record.state = "stopped"
                record.error = (f"Stopped by you after {record.ended - record.launched:.1f} s; "
                                "what was reported until then is in run.history.")
            else:
                verdict = decide(record.outcomes, name)
                self._fail(verdict.sentence, verdict.traceback)

    def _unpack_results(self) -> None:
        for rank, outcome in enumerate(self._record.outcomes):
            try:
                self._record.results[rank] = carry.unpack(outcome.event.result)
            except Exception as error:
                self._fail(f"What rank {rank} of {self._request.target.name} returned cannot be read here: {error}. "
                           "Return numbers, strings, lists, dicts or tensors.")
                return
        self._record.state = "done"

    def _fail(self, sentence: str, traceback: str | None = None) -> None:
        with self._record.lock:
            self._record.state, self._record.error, self._record.traceback = "failed", sentence, traceback
