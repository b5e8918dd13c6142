"""For every test: whatever process it starts has ended when it ends."""

from __future__ import annotations

from multiprocessing import forkserver, resource_tracker

import psutil
import pytest

from cpump_kit.running.processes import ready_pids

GRACE = 5.0  # seconds that a process which is ending may still take


def _processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture(autouse=True)
def no_process_left_behind():
    before = _processes()
    yield
    # These belong to multiprocessing and to the kit, and live as long as the process that uses them.
    lasting = {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid, *ready_pids()}
    started = [process for process in _processes() - before if process.pid not in lasting]
    left = psutil.wait_procs(started, timeout=GRACE)[1] if started else []
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
