"""The messages between a run and its workers: one `Job` down each pipe, then events up."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

STOP = "stop"  # down the pipe at any time: please end
WHERE = "where"  # down the pipe at any time: please say where you are; the answer is a Place


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to begin. Times are `time.monotonic()` seconds."""

    rank: int
    world_size: int
    threads: int
    script: str | None  # path of the script to load, or None when `call` carries a function
    function: str
    call: bytes  # carry.pack of (function or None, keyword arguments)
    environment: dict[str, str]
    directory: str  # the launcher's current one
    path: tuple[str, ...]  # the launcher's sys.path
    store: Any  # for rank 0: the socket on which it puts the store (rendezvous.py)
    folder: str  # private to the run; holds the ranks' output
    leftovers: tuple[str, ...]  # folders to remove if the launcher ends without doing so
    cells: dict[str, str]  # the text of notebook cells by file name, for tracebacks


@dataclass(frozen=True)
class Started:
    pid: int


@dataclass(frozen=True)
class Reports:
    """A stretch of reports with equal names. `columns[i]` holds the values of `names[i]`."""

    first_step: int
    names: tuple[str, ...]
    times: array
    columns: tuple[array, ...]
    total: float | None  # samples that this rank will process in all, once it has said so


@dataclass(frozen=True)
class Done:
    result: bytes  # carry.pack_result of what the function returned
    monotonic_ns: int


@dataclass(frozen=True)
class Failed:
    """What ended a worker: `kind` is "exception", "exit" (sys.exit), "interrupt" or "lost peer"."""

    kind: str
    error: str  # for example "ValueError: boom"
    where: str  # for example "ddp.py, line 23, in train"; empty where no line is known
    traceback: str
    monotonic_ns: int


@dataclass(frozen=True)
class Place:
    """Where a rank's main thread is: `line` of the script, the function that it waits in, and the `kind` of wait
    ("collective", "backward", "lock" or "")."""

    rank: int
    line: str
    waits_in: str
    kind: str
