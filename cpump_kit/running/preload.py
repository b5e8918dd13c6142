"""Imported once by the fork server, so that each worker finds its imports done.

A forked child has none of its parent's threads, so nothing may compute here.
"""

import atexit
import os
import shutil
import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal means the launcher; the server ends with it

import psutil  # noqa: E402

from . import imports, worker  # noqa: E402, F401

signal.signal(signal.SIGINT, signal.default_int_handler)  # the server now sets its own; children get this one

_server = os.getpid()


@atexit.register
def _leave_nothing() -> None:
    """The launcher has ended, perhaps killed. Workers end themselves; here end those that are stopped or stuck."""
    if os.getpid() != _server:
        return
    for child in psutil.Process().children():
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended
    shutil.rmtree(os.environ.get("CPUMP_LEFTOVERS", ""), ignore_errors=True)
    os._exit(0)  # what is left of an interpreter's end takes seconds with torch, and changes nothing
