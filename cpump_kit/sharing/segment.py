"""What rank 0 makes for all ranks of a process group on one machine: memory that they share, for a start."""

from __future__ import annotations

import mmap
import os
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from .. import machine
from ..errors import CpumpError
from ..style import memory

FOLDER = Path("/dev/shm") if os.path.isdir("/dev/shm") else Path(tempfile.gettempdir())


class SharingError(CpumpError, RuntimeError):
    """The ranks cannot train in shared memory; the text says why and what to do instead."""


def share(size: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """`size` bytes (uint8) that are the same memory in every rank. All ranks call it together.

    The memory has no name any more when this returns, so that nothing is left of it however the ranks end.
    Raises SharingError in every rank if there is not enough, or if a rank is on another machine.
    """
    room = max(size, 1)  # there is no empty file in memory
    return torch.frombuffer(hand_out(partial(_file, room), partial(_mapped, room), group), dtype=torch.uint8)[:size]


def hand_out(make: Callable[[int], AbstractContextManager[list]], find: Callable, group: dist.ProcessGroup | None):
    """What rank 0 makes, as each rank finds it. All ranks call it together.

    make(world_size)   in rank 0: what each rank needs to find it. Left once all have found it, or cannot.
    find(needed)       in each rank. OSError says that it is not there, as on another machine.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    dist.barrier(group)  # so that what rank 0 makes has its name for a moment only, also if a rank comes late
    with ExitStack() as until_found:
        offer = [None, ""]
        if rank == 0:
            try:
                offer[0] = (platform.node(), until_found.enter_context(make(world_size)))
            except (SharingError, OSError) as error:
                offer[1] = str(error)
        dist.broadcast_object_list(offer, group=group, group_src=0)
        made, problem = offer
        if problem:
            raise SharingError(problem)
        try:
            found = find(made[1][rank]) if made[0] == platform.node() else None
        except OSError:
            found = None
        everywhere = [None] * world_size
        dist.all_gather_object(everywhere, found is not None, group=group)
    if not all(everywhere):
        far = ", ".join(str(rank) for rank, seen in enumerate(everywhere) if not seen)
        raise SharingError(f"rank {far} is on another machine than rank 0, and memory can be shared on one machine "
                           "only; take the line that shares it out of the script, so that gloo or MPI carries the "
                           "gradients")
    return found


@contextmanager
def _file(size: int, world_size: int) -> Iterator[list[str]]:
    name = f"cpump-{secrets.token_hex(16)}"
    if sys.platform == "win32":
        made = mmap.mmap(-1, size, tagname=name)
        yield [name] * world_size
        made.close()
        return
    file = os.open(FOLDER / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        _reserve(file, size)
        yield [name] * world_size
    finally:
        os.close(file)
        os.unlink(FOLDER / name)


def _reserve(file: int, size: int) -> None:
    """Have the pages in place: the first write to one that cannot be had would end the process (SIGBUS, or SIGKILL)."""
    room, (total, free) = shutil.disk_usage(FOLDER), machine.memory()
    if size > free:
        raise SharingError(f"the ranks want to share {memory(size)}, and this machine has {memory(free)} of its "
                           f"{memory(total)} of memory free; use fewer ranks or a smaller model, or end other programs")
    try:
        if size > room.free:
            raise OSError
        os.posix_fallocate(file, 0, size) if hasattr(os, "posix_fallocate") else os.truncate(file, size)
    except OSError:
        raise SharingError(
            f"the ranks want to share {memory(size)}, and {FOLDER} has {memory(room.free)} free of "
            f"{memory(room.total)}; use fewer ranks or a smaller model, or give the container more "
            "(docker run --shm-size=4g)") from None


def _mapped(size: int, name: str) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=name)
    file = os.open(FOLDER / name, os.O_RDWR)
    try:
        return mmap.mmap(file, size)
    finally:
        os.close(file)
