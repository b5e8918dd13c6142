"""Inside a worker process: take the job, run the script's function, send what happens, and always end.

    the run's supervisor ──Job, STOP, WHERE──▶ one pipe a rank ──▶ this process
                         ◀──Started, Reports, Place, Done, Failed──

Two things end a worker besides its own work: STOP raises KeyboardInterrupt in the script, and the end of the pipe,
which comes however the launcher ended, ends the process and whatever it started.
"""

from __future__ import annotations

import ctypes
import faulthandler
import linecache
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from . import carry, hang, process_group, reporting, tracebacks
from .events import STOP, WHERE, Done, Failed, Job, Started
from .explain import explain

PR_SET_PDEATHSIG = 1  # linux/prctl.h

_kept: list = []  # what must live until the process ends
inside = False  # True in a worker process; then `main()` of a script must not launch


def work(connection: Connection, inherited: list[Connection], ahead: bool) -> None:
    """The first and last function of a worker process. It never returns.

    inherited   connections of other workers, which a forked process has open too
    ahead       the process was started before there is work: it uses the time for imports
    """
    global inside
    inside = True
    for other in inherited:
        other.close()
    _guard()
    if ahead:
        from . import imports  # noqa: F401
    try:
        job = connection.recv()
        _redirect_output(Path(job.folder) / f"rank{job.rank}.log")
    except (EOFError, OSError):
        os._exit(1)  # the launcher ended before it had work for us
    _go_where_the_launcher_is(job)
    sending = threading.Lock()

    def send(event) -> None:
        with sending, suppress(OSError):  # the pipe has ended: `_watch` sees it too
            connection.send(event)

    threading.Thread(target=_watch, args=(connection, send, job), name="cpump watch", daemon=True).start()
    _do(job, send)
    # Stay until the launcher has heard all ranks and ends us: a peer may still read from our sockets, and rank 0
    # holds the store. Nothing is destructed on the way (see process_group.py).
    threading.Event().wait()


def _guard() -> None:
    """Be ready for Ctrl-C, for STOP, and for the sudden end of those who started us."""
    if hasattr(os, "setsid"):
        os.setsid()  # a group of our own: Ctrl-C reaches the launcher alone, and all of us can be ended together
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if we come from an idle kernel's thread
    if sys.platform == "linux":
        # A process that is stopped (SIGSTOP) would never see the pipe's end: wake it when its parent dies.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
        _let_the_fork_server_end()


def _let_the_fork_server_end() -> None:
    """Close our copy of the pipe by which the fork server sees that somebody still needs it.

    So it ends with the launcher, and on its way ends those of us who cannot do so themselves (preload.py).
    """
    server = sys.modules.get("multiprocessing.forkserver")
    if server is not None and server._forkserver._forkserver_alive_fd is not None:
        os.close(server._forkserver._forkserver_alive_fd)
        server._forkserver._forkserver_alive_fd = None


def _go_where_the_launcher_is(job: Job) -> None:
    os.environ.clear()
    os.environ.update(job.environment)
    sys.path[:] = job.path
    # Processes that the script starts (DataLoader workers) start as they would without us, not by our own method.
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    with suppress(OSError):  # it may have been removed, which is for the script to notice
        os.chdir(job.directory)


def _watch(connection: Connection, send: Callable, job: Job) -> None:
    """Answer the launcher, while the main thread trains."""
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            break
        if request == WHERE:
            send(hang.place(job.rank, job.script, set(job.cells)))
        elif request == STOP:
            # Raises KeyboardInterrupt in the main thread, so that the script's own `finally` blocks run.
            signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)
    # The launcher is gone and cannot tidy up: do it here, then end this process and all that it started.
    for folder in job.leftovers:
        shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg"):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _redirect_output(log: Path) -> None:
    """Let all that this process prints go to a file of the run, that of C code too."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    faulthandler.enable(all_threads=False)


def _do(job: Job, send: Callable) -> None:
    send(Started(os.getpid()))
    reports = reporting.Buffer(send)
    reporting.listen(reports.add)
    try:
        event = _run(job)
    except BaseException as error:
        _kept.append(error)  # and with it the frames, whose models may hold process groups
        event = _failure(error, job)
    reports.close()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if isinstance(event, Done):
        util._run_finalizers(0)  # as a process's end would: the script's named locks and queues leave nothing behind
    send(event)


def _run(job: Job) -> Done:
    import torch

    torch.set_num_threads(job.threads)  # OMP_NUM_THREADS comes too late where torch is imported already
    process_group.prepare(job.store, job.environment)
    for name, text in job.cells.items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    call, arguments = carry.unpack(job.call)
    module = None
    if job.script is not None:
        module = _load(job.script)
        call = getattr(module, job.function)
    result = call(job.rank, job.world_size, **arguments)
    return Done(carry.pack_result(result, module), time.monotonic_ns())


def _load(script: str) -> ModuleType:
    """Run the script as multiprocessing runs a main script in a child: as __mp_main__, so that its main guard stays
    shut, and in a place where the processes that this one starts (DataLoader workers) find its classes again."""
    sys.path.insert(0, os.path.dirname(script))
    sys.argv = [script]
    main = ModuleType("__mp_main__")
    main.__file__ = script
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)
    return main


def _printed(job: Job) -> str:
    """The end of what this process and those that it started have printed."""
    try:
        return Path(job.folder, f"rank{job.rank}.log").read_text("utf-8", "replace")[-4000:]
    except OSError:
        return ""


def _failure(error: BaseException, job: Job) -> Failed:
    kind = {SystemExit: "exit", KeyboardInterrupt: "interrupt"}.get(type(error), "exception")
    where, text = tracebacks.describe(error, {job.script, *job.cells})
    said = explain(error, _printed(job)) or tracebacks.headline(error)
    return Failed(kind, said, where, text, time.monotonic_ns())
