"""For every test: whatever process it starts has ended when it ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from multiprocessing import forkserver, resource_tracker

import psutil
import pytest

from cpump_kit.running.processes import ready_pids

os.environ["CPUMP_CACHE"] = tempfile.mkdtemp(prefix="tests-of-cpump-")  # not the cache of whoever runs the tests
atexit.register(shutil.rmtree, os.environ["CPUMP_CACHE"], True)
GRACE = 5.0  # seconds that a process which is ending may still take


def _processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _lasting() -> set[int]:
    """What belongs to multiprocessing and to the kit, and lives as long as the process that uses it."""
    return {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid, *ready_pids()}


@pytest.fixture(autouse=True)
def no_process_left_behind():
    before = _processes()
    yield
    started, deadline = _processes() - before, time.monotonic() + GRACE
    while (left := [process for process in started if process.is_running() and process.pid not in _lasting()]):
        if time.monotonic() > deadline:
            break
        psutil.wait_procs(left, timeout=0.1)
    names = [describe(process) for process in left]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=GRACE)
    assert not names, f"the test left processes behind: {names}"


def describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)
