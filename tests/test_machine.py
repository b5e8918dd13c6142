"""What counts as a usable core: affinity, the control group's quota, physical cores."""

import os
import sys
import threading

import pytest

import cpump_kit as cp
from cpump_kit import machine


def test_this_machine():
    found = cp.cores()
    assert 1 <= found.usable <= found.affinity <= found.logical
    assert 0 < found.memory_available_bytes <= found.memory_bytes and found.model
    assert f"{found.usable} usable cores" in str(found)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity mask")
def test_affinity_limits_the_usable_cores():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cp.cores().usable == cp.cores().affinity == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("physical, quota, usable", [(4, None, 4), (None, None, 8), (4, 2.5, 2), (4, 0.5, 1)])
def test_the_least_limit_counts(monkeypatch, physical, quota, usable):
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda logical: physical)
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)
    assert cp.cores().usable == usable
    assert cp.threads_per_worker(3) == max(1, usable // 3)


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
@pytest.mark.parametrize("files, quota", [
    ({"a/b/cpu.max": "150000 100000"}, 1.5),
    ({"a/b/cpu.max": "max 100000"}, None),
    ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),  # an ancestor grants less
    ({"cpu.max": "100000 100000"}, 1.0),  # in a container, where the host's path is not to be seen
    ({"cpu/a/b/cpu.cfs_quota_us": "50000", "cpu/a/b/cpu.cfs_period_us": "100000"}, 0.5),
    ({"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, None),
    ({}, None),
])
def test_quota_of_the_control_group(monkeypatch, tmp_path, files, quota):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    real = machine._lines
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "_lines", lambda path: ["4:cpu,cpuacct:/a/b", "0::/a/b"]
                        if str(path) == "/proc/self/cgroup" else real(path))
    assert machine.cpu_quota() == quota


def test_loopback():
    assert machine.loopback_interface() is None or isinstance(machine.loopback_interface(), str)
    if sys.platform == "linux":
        assert machine.loopback_interface() == "lo"


def test_core_use_is_measured_from_the_beginning_in_whatever_thread():
    use, found = machine.CoreUse(), []
    begin = sum(os.times()[:2])
    while sum(os.times()[:2]) - begin < 0.3:  # seconds of a core
        pass
    reader = threading.Thread(target=lambda: found.extend(use()))
    reader.start()
    reader.join()
    assert len(found) == os.cpu_count() and 5 < max(found) <= 100
    assert all(0 <= percent <= 100 for percent in use())
