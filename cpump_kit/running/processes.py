"""Starting and ending worker processes, and the fork server that makes a start fast."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from ..errors import LaunchError
from ..machine import cores
from .worker import work

_starting = threading.Lock()
FIRST = 2  # workers started ahead before anybody has launched
_ready: list[Worker] = []  # spawned ahead for the next run, see `keep_ready`


@dataclass
class Worker:
    rank: int
    process: BaseProcess
    connection: Connection

    @property
    def sentinel(self) -> int:
        return self.process.sentinel


def default_start_method() -> str:
    """forkserver on Linux; spawn on macOS and Windows. CPUMP_START_METHOD overrides it."""
    return os.environ.get("CPUMP_START_METHOD") or ("forkserver" if sys.platform == "linux" else "spawn")


def check_start_method(method: str | None) -> str:
    method, known = method or default_start_method(), multiprocessing.get_all_start_methods()
    if method not in known:
        raise LaunchError(f"start_method must be one of {', '.join(known)} on this system, not {method!r}")
    return method


def warm() -> None:
    """Begin in the background what the first launch would wait for: the fork server, or else the first workers."""
    if multiprocessing.parent_process() is None:
        _start_fork_server() if default_start_method() == "forkserver" else keep_ready(FIRST)


def _start_fork_server() -> None:
    """Forking it is safe: it imports and never computes, so no thread pool exists that a child would miss."""
    from multiprocessing import forkserver

    multiprocessing.set_forkserver_preload(["cpump_kit.running.preload"])
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # The server looks for modules where a fresh interpreter does, and must find the kit that is running here.
    # Its sockets lie in multiprocessing's folder, which is not removed if this process is killed.
    with _starting, _in_environment(PYTHONPATH=os.pathsep.join(path), CPUMP_LEFTOVERS=util.get_temp_dir()):
        forkserver.ensure_running()


def keep_ready(nprocs: int) -> None:
    """Where workers are spawned, start those of the next run ahead, in the background: their imports take seconds."""
    if default_start_method() == "spawn":
        threading.Thread(target=_start_ahead, args=(min(nprocs, cores().usable),), name="cpump ahead").start()


def _start_ahead(nprocs: int) -> None:
    while len(_ready) < nprocs:
        _ready.append(_start(len(_ready), "spawn", [], ahead=True))


def ready_pids() -> set[int]:
    """The processes that wait for the next run."""
    return {worker.process.pid for worker in _ready}


@atexit.register
def _end_ready() -> None:
    while _ready:
        kill(_ready.pop())


@contextmanager
def _in_environment(**variables: str) -> Iterator[None]:
    """Set variables for the programs started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def start_worker(rank: int, method: str, others: list[Worker], ready: bool) -> Worker:
    """A process that waits for its job on the connection.

    others   those of the same run so far
    ready    it may be one that was started ahead
    """
    while ready and method == "spawn" and _ready:
        worker = _ready.pop(0)
        if worker.process.is_alive():
            return replace(worker, rank=rank)
    if method == "forkserver":
        _start_fork_server()
    return _start(rank, method, others, ahead=False)


def _start(rank: int, method: str, others: list[Worker], ahead: bool) -> Worker:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    # A forked child also inherits our ends of the pipes; unless it closes them no rank would see us end.
    inherited = [ours, *(other.connection for other in others)] if method == "fork" else []
    # Not a daemon: a daemon may start no DataLoader workers. The pipe's end is what ends a worker with its launcher.
    process = context.Process(target=work, args=(theirs, inherited, ahead), name=f"cpump rank {rank}",
                              daemon=False)
    with _main_left_alone():
        process.start()
    theirs.close()
    return Worker(rank, process, ours)


@contextmanager
def _main_left_alone() -> Iterator[None]:
    """Keep multiprocessing from importing the caller's main script into the worker.

    A worker loads its own script, and running the caller's there again would cost time and, without a main guard,
    launch again without end. A main module that says it is a package's __main__ is left alone (multiprocessing.spawn).
    """
    main = sys.modules["__main__"]
    with _starting:
        before = getattr(main, "__spec__", None)
        main.__spec__ = ModuleSpec("cpump_kit.__main__", None)
        try:
            yield
        finally:
            main.__spec__ = before


def kill(worker: Worker) -> None:
    """End a worker and what it started, at once; a process that is stopped (SIGSTOP) ends too."""
    pid = worker.process.pid
    if hasattr(os, "killpg"):
        try:
            os.killpg(pid, signal.SIGKILL)  # a worker leads a group of its own, see worker.py
            return
        except (ProcessLookupError, PermissionError):
            pass  # it has not come to make its group yet, or all of it is gone
    if worker.process.exitcode is None:
        for child in _descendants(pid):
            child.kill()
        worker.process.kill()


def peak_memory(worker: Worker) -> int | None:
    """The most memory in bytes that the process has held at once until now; None if it cannot be seen."""
    try:
        # Linux keeps the peak itself; elsewhere it is the use now, and the caller keeps asking.
        for line in Path(f"/proc/{worker.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
        return psutil.Process(worker.process.pid).memory_info().rss
    except (OSError, psutil.Error):
        return None


def core_of(worker: Worker) -> int | None:
    """The core on which the process ran last; None where the system does not say (macOS, Windows)."""
    try:
        return psutil.Process(worker.process.pid).cpu_num()
    except (AttributeError, psutil.Error):
        return None


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
