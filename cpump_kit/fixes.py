"""What `cpump doctor --fix` mends: only what can be made again, and nothing outside this environment and user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from .style import count

SHARED_MEMORY = Path("/dev/shm")
LEFT_BEHIND = re.compile(r"torch_(\d+)_\w+")  # torch names its segments after the process that made them
OLD = 24 * 3600  # seconds; a younger one may belong to a process that this container cannot see


def shared_memory() -> str | None:
    """Delete this user's segments that torch made more than a day ago in processes that have ended."""
    deleted, size = 0, 0
    for path in SHARED_MEMORY.glob("torch_*"):
        found = LEFT_BEHIND.fullmatch(path.name)
        try:
            state = path.lstat()
            dead = found and not psutil.pid_exists(int(found[1])) and time.time() - state.st_mtime > OLD
            if dead and state.st_uid == os.getuid():
                path.unlink()
                deleted, size = deleted + 1, size + state.st_size
        except OSError:
            continue
    return f"deleted {count(deleted, 'segment')} of ended processes, {size / 2**20:.0f} MiB" if deleted else None


def widgets() -> str | None:
    return _install("--force-reinstall", "--no-deps", "jupyterlab_widgets")


def kernel() -> str | None:
    """Write this environment's kernel spec. One of the user's own that hides it is left alone."""
    if not _own_environment():
        return None
    return _run([sys.executable, "-m", "ipykernel", "install", "--sys-prefix"])


def _install(*arguments: str) -> str | None:
    """pip, in an environment that is made for the kit; a system's Python is never changed."""
    return _run([sys.executable, "-m", "pip", "install", *arguments]) if _own_environment() else None


def _own_environment() -> bool:
    return sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ


def _run(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = (done.stdout.strip().splitlines() or [""])[-1]
    return f"ran {' '.join(command[1:])}" + (f", which failed: {said}" if done.returncode else "")


FIXES: dict[str, Callable[[], str | None]] = {"shared memory": shared_memory, "widgets": widgets, "kernel": kernel}
