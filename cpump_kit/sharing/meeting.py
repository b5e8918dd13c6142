"""Ranks of one machine wait for each other in a few microseconds."""

from __future__ import annotations

import multiprocessing
import os
import time

import psutil
import torch.distributed as dist

from ..machine import cores
from ..running import carry
from .segment import SharingError

LOOK = 1.0  # seconds between two looks at whether the others still live
PATIENCE = 1800.0  # seconds, as torch.distributed waits
SPINS = 400  # tries before a rank goes to sleep; each takes a fraction of a microsecond


class Meeting:
    """Call it in every rank: it returns when all have called it.

    What a rank wrote to shared memory before the call, every rank reads after it. That rests on POSIX semaphores,
    which order memory (IEEE 1003.1, 4.15 "Memory Synchronization"), and not on flags in the memory itself, which
    would need fences on processors that reorder stores.

    A dissemination barrier (Hensgen, Finkel and Manber 1988, "Two algorithms for barrier synchronization"): in round
    k each rank tells the one 2^k places on that it is here, so ceil(log2(world size)) rounds tell everybody of all.
    Each semaphore has one rank that releases it and one that waits for it, so a rank that is a meeting ahead cannot
    be taken for another.
    """

    def __init__(self, group: dist.ProcessGroup | None = None):
        self._rank, world_size = dist.get_rank(group), dist.get_world_size(group)
        rounds = (world_size - 1).bit_length()
        spawn, offer = multiprocessing.get_context("spawn"), [None]
        if self._rank == 0:
            made = [[spawn.Semaphore(0) for _ in range(world_size)] for _ in range(rounds)]
            offer = [carry.pack(made)[0]]
        dist.broadcast_object_list(offer, group=group, group_src=0)
        semaphores = carry.unpack(offer[0])
        self._rounds = [(by_rank[(self._rank + 2**k) % world_size], by_rank[self._rank])
                        for k, by_rank in enumerate(semaphores)]
        self._processes = [None] * world_size
        dist.all_gather_object(self._processes, _identity(), group=group)
        # All have opened the semaphores by now. With rank 0's first ones their names go, and nothing can be left.
        made = None
        # A rank that spins takes the core of one that it waits for, if there are more ranks than cores.
        self._spins = SPINS if world_size <= cores().usable else 1

    def __call__(self) -> None:
        """Raises SharingError if another rank has ended, or does not come within half an hour."""
        for theirs, mine in self._rounds:
            theirs.release()
            self._wait(mine)

    def _wait(self, semaphore) -> None:
        for _ in range(self._spins):
            if semaphore.acquire(False):
                return
        deadline = time.monotonic() + PATIENCE
        while not semaphore.acquire(True, LOOK):
            for rank, identity in enumerate(self._processes):
                if not _lives(identity):
                    raise SharingError(f"lost contact with rank {rank}, whose process has ended")
            if time.monotonic() > deadline:
                raise SharingError(f"another rank did not come within {PATIENCE / 60:.0f} minutes")


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
