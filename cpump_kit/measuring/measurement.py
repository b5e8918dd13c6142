"""What measures in the background, one launch after another: waiting for it, stopping it, and how it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from statistics import mean
from typing import TYPE_CHECKING, Protocol

from ..errors import CpumpError, RunStopped, WorkerError
from ..running.launch import launch
from ..showing.picture import drawing

if TYPE_CHECKING:
    from ..running.run import Run


class Figures(Protocol):
    """Plain data that a measurement fills; it may be read at any time."""

    state: str  # measuring, done, stopped or failed
    error: str | None  # the sentence of a failed one
    done: int  # launches that are done, of `to_do`
    to_do: int


class MeasurementError(CpumpError):
    """A run that ends the whole measurement. `traceback` is the failing rank's own, or None."""

    def __init__(self, sentence: str, traceback: str | None = None):
        super().__init__(sentence)
        self.traceback = traceback


class Measurement:
    """A measurement that goes on in the background, or one that was loaded. Everything may be read at any time.

    A kind of measurement gives `_measure`, which makes its launches with `_run` and writes into `data`.

    data       what was measured so far
    traceback  the failing rank's own, or None
    """

    def __init__(self, data: Figures, going: bool):
        self.data, self.traceback = data, None
        self._going, self._waiting = going, 0
        self._seconds: list[float] = []
        self._launched: Run | None = None
        self._stop_asked = False
        self._lock, self._ended, self._callbacks = threading.Lock(), threading.Event(), []
        if going:
            threading.Thread(target=self._work, name=f"cpump {type(self).__name__.lower()}", daemon=True).start()
        else:
            self._ended.set()

    def _measure(self) -> None:
        """Make all launches. In a thread of its own."""
        raise NotImplementedError

    def _keep(self) -> None:
        """Called when everything has been measured."""

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
        """True while somebody waits in `wait`, so that a notebook's kernel takes no messages."""
        return self._waiting > 0

    def stop(self) -> None:
        """End the measurement and the run that is going on. What has been measured is kept. Returns at once."""
        with self._lock:
            self._stop_asked = True
            if self._launched is not None:
                self._launched.stop()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call `call` from the measurement's thread when it has ended; at once if it has already."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(call)
                return
        call()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True if it has come. An interrupt stops the measurement.

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

    async def _wait_in_loop(self):
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
        if self.state == "failed" and self._going:  # not a loaded one, which is there to be looked at
            traceback = f"\n\n{self.traceback}" if self.traceback else ""
            raise WorkerError(f"{self.error}\nWhat was measured before is in its table().{traceback}")

    @property
    def progress(self) -> tuple[float, float | None]:
        """(share done, seconds left or None), the going run's own progress included."""
        run, each = self._launched, mean(self._seconds) if self._seconds else None
        part = (run.progress[0] or 0.0) if run is not None and run.state == "training" else 0.0
        done = min(self.data.done + part, self.data.to_do)
        return done / self.data.to_do, None if each is None else (self.data.to_do - done) * each

    # -- the measurement's thread -----------------------------------------------------------------------------------

    def _run(self, what, nprocs: int, **options) -> Run:
        """Launch, and wait for the end: a run that is done or failed. Raises RunStopped, also before a launch."""
        with drawing:
            pass  # the picture of an earlier run takes a core for a moment
        with self._lock:
            if self._stop_asked:
                raise RunStopped("stopped")
            self._launched = run = launch(what, nprocs, show=False, **options)
        run.wait()
        if run.state == "stopped":
            raise RunStopped("stopped")
        if run.state == "done":
            self._seconds.append(run.seconds)
        return run

    def _work(self) -> None:
        try:
            self._measure()
            self.data.state = "done"
            self._keep()
        except RunStopped:
            self.data.state = "stopped"
        except CpumpError as error:
            self._fail(str(error), getattr(error, "traceback", None))
        except Exception as error:  # whatever it is, nobody may wait for ever
            self._fail(f"the measurement ended unexpectedly: {type(error).__name__}: {error}", None)
        finally:
            with self._lock:
                self._ended.set()
            for call in self._callbacks:
                call()

    def _fail(self, sentence: str, traceback: str | None) -> None:
        self.data.error, self.traceback = sentence, traceback
        self.data.state = "failed"
