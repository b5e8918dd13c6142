"""`launch`: check the request, then hand back a `Run` that does it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import LaunchError
from ..machine import cores, threads_per_worker
from ..notebook import in_notebook
from ..style import count, memory
from . import carry, processes, script, worker
from .run import Run, runs_in_progress
from .supervisor import Request

# Every library with a thread pool of its own reads one of these when it is loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# What one more worker takes before it trains anything, measured with torch 2.13: those forked share torch's pages.
WORKER_BYTES = {"forkserver": 12 * 2**20, "fork": 12 * 2**20, "spawn": 210 * 2**20}


def launch(what: str | Path | Callable, nprocs: int = 1, *, threads: int | None = None,
           start_method: str | None = None, show: bool = True, silence: float = 10.0, timeout: float | None = None,
           **arguments) -> Run:
    """Run `train(rank, world_size, **arguments)` in `nprocs` worker processes. Returns at once.

    what          a script's path (its `train`, or "path.py:function"), or a function, also one of the notebook
    nprocs        the world size
    threads       intra-op threads of each worker; by default OMP_NUM_THREADS if you have set it, or else the usable
                  cores divided by nprocs (more threads than cores is the commonest reason for a slow run)
    start_method  "forkserver" (Linux's default here), "spawn" (elsewhere) or "fork" (unsafe after any computation)
    show          in a notebook, show the live view under the cell
    silence       seconds without a report after which the view says where each rank is
    timeout       seconds after which the run is ended, with that as its error; by default it may take for ever

    The script is read afresh on each launch. Tensors, modules, locks and barriers among the arguments travel by
    handle, so they are the same memory here and in every worker. Raises LaunchError, before a process starts, if
    the request cannot work.
    """
    if worker.inside:
        raise LaunchError("a worker loaded this script and came upon a launch: put it under the main guard, "
                          'if __name__ == "__main__":')
    target = script.find(what)
    nprocs = script.whole_number("nprocs", nprocs)
    threads = script.whole_number("threads", threads) if threads is not None else _default_threads(nprocs)
    method = processes.check_start_method(start_method)
    script.check_arguments(target, arguments)
    calls, cells = _pack(target, arguments, nprocs)
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    notes = _notes(nprocs, threads, method)
    run = Run(Request(target, nprocs, threads, method, start_method is None, calls, arguments, cells, environment,
                      os.getcwd(), tuple(sys.path), notes, silence, timeout))
    if show and in_notebook():
        from ..showing.live import show as show_live

        show_live(run)
    return run


def _default_threads(nprocs: int) -> int:
    yours = os.environ.get("OMP_NUM_THREADS", "")
    return int(yours) if yours.isdigit() and int(yours) > 0 else threads_per_worker(nprocs)


def _notes(nprocs: int, threads: int, method: str) -> tuple[str, ...]:
    """What the reader should know of this run's timings or safety, a line each."""
    notes, usable = [], cores().usable
    if nprocs * threads > usable:
        notes.append(f"{count(nprocs, 'process')} with {count(threads, 'thread')} each share "
                     f"{count(usable, 'usable core')}: they push each other aside.")
    for other in runs_in_progress():
        notes.append(f"{other} is still training: the timings of both runs will suffer.")
    need, free = nprocs * WORKER_BYTES[method], cores().memory_available_bytes
    if need > free:
        notes.append(f"{count(nprocs, 'worker')} need at least {memory(need)} before they train, and {memory(free)} of "
                     "memory are free: the system may end one of them.")
    if method == "fork":
        notes.append("fork copies this process without its threads: if PyTorch has computed anything here before, "
                     "the workers can hang.")
    return tuple(notes)


def _pack(target: script.Target, arguments: dict, nprocs: int) -> tuple[list[bytes], dict[str, str]]:
    try:
        packed = [carry.pack((target.call, arguments)) for _ in range(nprocs)]
    except Exception as error:
        for name, value in arguments.items():
            carry.check_travels(f"the argument {name}", value)
        if target.call is not None:
            carry.check_travels(f"the function {target.name}", target.call)
        raise LaunchError(f"the arguments cannot be sent to a worker process: {error}") from None
    return [call for call, _ in packed], packed[0][1]
