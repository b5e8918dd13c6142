"""What this machine really gives: usable cores, memory, shared memory, and the threads for each worker."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Cores:
    """The machine as a training run meets it.

    usable           cores that a run can keep busy at once: the least of `affinity`, `quota` and `physical`
    logical          cores that the operating system shows (hyper-threads included)
    physical         cores with arithmetic units of their own, or None where the system does not say
    affinity         logical cores on which this process may run
    quota            CPUs that the control group grants (containers, JupyterHub), or None without a limit
    memory_bytes, memory_available_bytes   main memory, the control group's limit included
    shm_bytes, shm_free_bytes              /dev/shm, or None where there is none (macOS, Windows)
    model            the processor's name
    """

    usable: int
    logical: int
    physical: int | None
    affinity: int
    quota: float | None
    memory_bytes: int
    memory_available_bytes: int
    shm_bytes: int | None
    shm_free_bytes: int | None
    model: str

    def __str__(self) -> str:
        limits = [f"{self.logical} logical"]
        if self.physical is not None:
            limits.append(f"{self.physical} physical")
        if self.affinity != self.logical:
            limits.append(f"{self.affinity} allowed by the affinity mask")
        if self.quota is not None:
            limits.append(f"{self.quota:g} granted by the control group")
        memory = f"{self.memory_available_bytes / 2**30:.1f} of {self.memory_bytes / 2**30:.1f} GiB memory free"
        return f"{self.usable} usable cores ({', '.join(limits)}), {memory}, {self.model}"


def cores() -> Cores:
    """Look at this machine now. See `Cores` for the fields.

    Two hyper-threads of one core share its arithmetic units, which training keeps busy, so `usable` never
    exceeds the physical cores; a fractional quota is rounded down, since a throttled rank holds up the others.
    """
    logical = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    physical, quota = psutil.cpu_count(logical=False), cpu_quota()
    limits = [affinity, physical or affinity, int(quota) if quota is not None else affinity]
    (total, available), shm = memory(), _shared_memory()
    return Cores(
        usable=max(1, min(limits)), logical=logical, physical=physical, affinity=affinity, quota=quota,
        memory_bytes=total, memory_available_bytes=available,
        shm_bytes=shm[0], shm_free_bytes=shm[1], model=_model())


def threads_per_worker(nprocs: int) -> int:
    """Intra-op threads for each of `nprocs` workers, so that together they do not exceed the usable cores."""
    return max(1, cores().usable // nprocs)


def memory() -> tuple[int, int]:
    """(main memory, what of it is free) in bytes, the control group's limit included."""
    machine, (limit, used) = psutil.virtual_memory(), _memory_limit()
    return min(machine.total, limit), min(machine.available, limit - used)


class CoreUse:
    """Call it for how busy each logical core was since the call before, in percent; the first time since it was made.

    psutil.cpu_percent remembers the call before of the same thread only, and the live view has a thread of its own.
    """

    def __init__(self):
        self._before = psutil.cpu_times(percpu=True)

    def __call__(self) -> list[float]:
        before, self._before = self._before, psutil.cpu_times(percpu=True)
        return [_busy(then, now) for then, now in zip(before, self._before)]


def _busy(then, now) -> float:
    """Percent of the time between two readings of a core's clocks in which it had work."""
    # What guests (of a virtual machine host) take is in "user" and "nice" already.
    spent = {name: getattr(now, name) - getattr(then, name) for name in now._fields if not name.startswith("guest")}
    whole = sum(spent.values())
    idle = spent["idle"] + spent.get("iowait", 0.0)
    return 100 * min(1.0, max(0.0, 1 - idle / whole)) if whole > 0 else 0.0


def loopback_interface() -> str | None:
    """The name of the network interface that carries 127.0.0.1 ("lo", "lo0"), or None if none says so."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == "127.0.0.1" for address in addresses):
            return name
    return None


def cpu_quota() -> float | None:
    """CPUs that this process's control group grants, or None without a limit.

    Version 2 writes "quota period" or "max period" into cpu.max, version 1 uses two files; a limit of any
    ancestor group applies too (kernel documentation, admin-guide/cgroup-v2 and scheduler/sched-bwc).
    """
    quotas = []
    for group in _groups("cpu"):
        quota, period = _words(group / "cpu.max")[:2] or (None, None)
        if quota is None:
            quota, period = (_words(group / f"cpu.cfs_{name}_us")[:1] for name in ("quota", "period"))
            quota, period = (quota[0], period[0]) if quota and period else (None, None)
        if quota not in (None, "max", "-1") and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _memory_limit() -> tuple[float, int]:
    """The control group's memory limit and its use, in bytes; (infinity, 0) without a limit."""
    found = (float("inf"), 0)
    for group in _groups("memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit, used = _words(group / limit), _words(group / used)
            if limit and used and limit[0] != "max":
                found = min(found, (int(limit[0]), int(used[0])))
    return found


def _groups(controller: str) -> list[Path]:
    """The folders of this process's control group and its ancestors, for version 2 and for version 1."""
    folders = []
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = CGROUPS
        elif controller in controllers.split(","):
            root = CGROUPS / controller
        else:
            continue
        here = root / path.lstrip("/")
        # Inside a container the path may be the host's, which is not there: then the root holds the limit.
        folders += [folder for folder in (here, *here.parents) if folder == root or root in folder.parents]
    return folders


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _shared_memory() -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return None, None
    return usage.total, usage.free


@lru_cache(maxsize=1)
def _model() -> str:
    if platform.system() == "Linux":
        names = [line for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
        if names:
            return names[0].partition(":")[2].strip()
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or platform.machine()
    return platform.processor() or platform.machine()
