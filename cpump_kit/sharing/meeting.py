"""Ranks of one machine wait for each other in a few microseconds."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch.distributed as dist

from ..machine import cores
from ..running import carry
from .segment import SharingError, hand_out

EAGER = 0.001  # seconds in which a rank that waits is back at once, before it goes to sleep
LOOK = 1.0  # seconds between two looks at whether the others still live
PATIENCE = 1800.0  # seconds, as torch.distributed waits

_give_way = getattr(os, "sched_yield", lambda: time.sleep(0))  # Windows has no sched_yield


class Meeting:
    """Call it in every rank: it returns when all have called it.

    What a rank wrote to shared memory before the call, every rank reads after it. A flag in the memory itself would
    not do: a processor may show one core's writes to the others in another order (ARM does; x86 keeps the order, TSO),
    and neither torch nor Python can ask for a fence. Semaphores have it inside, on every system: what was written
    before a release is there after the acquire (IEEE 1003.1, 4.15 "Memory Synchronization"; Windows likewise,
    "Synchronization and Multiprocessor Issues").

    A dissemination barrier (Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization"): in round
    k each rank tells the one 2^k places on that it is here, so ceil(log2(world size)) rounds tell everybody of all.
    Each semaphore has one rank that releases it and one that waits for it, so a rank that is a meeting ahead cannot
    be taken for another.
    """

    def __init__(self, group: dist.ProcessGroup | None = None):
        world_size = dist.get_world_size(group)
        self._rounds = hand_out(_semaphores, carry.unpack, group)
        self._processes = [None] * world_size
        dist.all_gather_object(self._processes, _identity(), group=group)
        # With more ranks than cores, whoever stays awake has the core of a rank that it waits for.
        self._eager = EAGER if world_size <= cores().usable else 0.0

    def __call__(self) -> None:
        """Raises SharingError if another rank has ended, or does not come within half an hour."""
        for theirs, mine in self._rounds:
            theirs.release()
            self._wait(mine)

    def _wait(self, semaphore) -> None:
        start = time.monotonic()
        while not semaphore.acquire(False):
            if time.monotonic() - start > self._eager:
                return self._sleep(semaphore, start + PATIENCE)
            _give_way()

    def _sleep(self, semaphore, deadline: float) -> None:
        while not _acquire(semaphore, LOOK):
            for rank, identity in enumerate(self._processes):
                if not _lives(identity):
                    raise SharingError(f"lost contact with rank {rank}, whose process has ended")
            if time.monotonic() > deadline:
                raise SharingError(f"another rank did not come within {PATIENCE / 60:.0f} minutes")


@contextmanager
def _semaphores(world_size: int) -> Iterator[list[bytes]]:
    """For each rank, by round: the semaphore that it releases and the one that it waits for."""
    spawn = multiprocessing.get_context("spawn")
    rounds = [[spawn.Semaphore(0) for _ in range(world_size)] for _ in range((world_size - 1).bit_length())]
    yield [carry.pack([(by_rank[(rank + 2**k) % world_size], by_rank[rank]) for k, by_rank in enumerate(rounds)])[0]
           for rank in range(world_size)]
    # Now `rounds` goes, and with it the semaphores' names. Those who have opened them keep them.


def _acquire(semaphore, seconds: float) -> bool:
    if sys.platform != "darwin":
        return semaphore.acquire(True, seconds)
    deadline = time.monotonic() + seconds  # macOS has no sem_timedwait; Python's substitute sleeps up to 20 ms
    while not semaphore.acquire(False):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0001)
    return True


def _identity() -> tuple[int, float]:
    return os.getpid(), psutil.Process().create_time()


def _lives(identity: tuple[int, float]) -> bool:
    """False for a process that has ended, also if its number has been given to another one since."""
    pid, created = identity
    try:
        process = psutil.Process(pid)
        return process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
