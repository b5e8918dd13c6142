"""`report()`: what a training loop says about itself. Called thousands of times a second, so it only takes notes."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable

from .events import Reports

_listener: Callable[[dict], None] | None = None


def report(**numbers: float) -> None:
    """Report numbers from a training loop, for example `report(loss=loss.item(), samples=len(images))`.

    loss     the loss of this step
    samples  how many samples this rank has processed since its last report
    total    how many samples this rank will process in all; saying it once gives progress and time left
    data, forward, backward, optimizer, compute, communication   seconds of this step that went to it; the view shows
             their shares. Use those of them that you measure.
    Any other name is recorded as it is. Without a listener (a plain call of the function) nothing happens.
    Raises TypeError for a value that is not a number; a tensor of one element counts as a number.
    """
    if _listener is not None:
        _listener(numbers)


def listen(listener: Callable[[dict], None] | None) -> None:
    """From now on `listener` gets every report of this process."""
    global _listener
    _listener = listener


def as_numbers(numbers: dict) -> dict[str, float]:
    """The reported values as floats; TypeError names the value that is none."""
    for name, value in numbers.items():
        kind = type(value)
        if kind is int:  # each microsecond counts: short steps come by the thousands in a second
            numbers[name] = float(value)
        elif kind is not float:
            try:
                numbers[name] = float(value.detach() if hasattr(value, "detach") else value)
            except (TypeError, ValueError, RuntimeError):
                raise TypeError(f"report({name}=...) takes a number or a tensor of one element, "
                                f"not {kind.__name__}") from None
    return numbers


class Buffer:
    """Collects a worker's reports and sends them in batches, so that the training loop never waits for a pipe."""

    def __init__(self, send: Callable[[Reports], None], every: float = 0.1):
        self._send, self._every = send, every
        self._notes: list[tuple[float, dict[str, float]]] = []
        self._step, self._total = 0, None
        self._flushing, self._end = threading.Lock(), threading.Event()
        threading.Thread(target=self._keep_sending, name="cpump reports", daemon=True).start()

    def add(self, numbers: dict) -> None:
        self._notes.append((time.monotonic(), as_numbers(numbers)))

    def _keep_sending(self) -> None:
        while not self._end.wait(self._every):
            try:
                self.flush()
            except OSError:  # the launcher is gone, and the worker's watch on it ends this process
                return

    def close(self) -> None:
        """Send what is left and stop sending."""
        self._end.set()
        self.flush()

    def flush(self) -> None:
        with self._flushing:
            # One assignment, which no other thread can split: what comes later lands in the new list.
            notes, self._notes = self._notes, []
            while notes:
                names, same = notes[0][1].keys(), 1
                while same < len(notes) and notes[same][1].keys() == names:
                    same += 1
                self._send_batch([name for name in names if name != "total"], notes[:same])
                notes = notes[same:]

    def _send_batch(self, names: list[str], notes: list) -> None:
        """Send notes that have the same names."""
        self._total = notes[-1][1].get("total", self._total)
        if not names:  # only a total
            self._send(Reports(self._step, (), array("d"), (), self._total))
            return
        columns = tuple(array("d", [numbers[name] for _, numbers in notes]) for name in names)
        self._send(Reports(self._step, tuple(names), array("d", [time for time, _ in notes]), columns, self._total))
        self._step += len(notes)


def print_reports(rank: int, every: float = 2.0) -> Callable[[dict], None]:
    """A listener for `python` and `torchrun` without the kit's launcher: a tidy line every few seconds."""
    step, samples, since, spoken = 0, 0.0, time.monotonic(), 0.0

    def listener(numbers: dict) -> None:
        nonlocal step, samples, spoken
        numbers = as_numbers(numbers)
        step, samples, now = step + 1, samples + numbers.get("samples", 0.0), time.monotonic()
        if now - spoken < every:
            return
        spoken = now
        shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items() if name not in ("samples", "total"))
        rate = f"  {samples / (now - since):,.0f} samples/s" if samples and now > since and step > 1 else ""
        print(f"[rank {rank}] step {step}  {shown}{rate}", file=sys.stderr, flush=True)

    return listener
