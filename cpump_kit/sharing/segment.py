"""A buffer that all ranks of a process group see, if they are on one machine."""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from ..errors import CpumpError
from ..style import memory

FOLDER = Path("/dev/shm") if os.path.isdir("/dev/shm") else Path(tempfile.gettempdir())


class SharingError(CpumpError, RuntimeError):
    """The ranks cannot train in shared memory; the text says why and what to do instead."""


def share(size: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """`size` bytes (uint8, zeros at first) that are the same memory in every rank. All ranks call it together.

    The memory has no name any more when this returns, so that nothing is left of it however the ranks end.
    Raises SharingError in every rank if there is not enough, or if a rank is on another machine.
    """
    first, made, offer = dist.get_rank(group) == 0, None, [None]
    if first:
        try:
            name, made = _make(size)
            offer = [(name, "")]
        except SharingError as error:
            offer = [("", str(error))]
    dist.broadcast_object_list(offer, group=group, group_src=0)
    name, problem = offer[0]
    if problem:
        raise SharingError(problem)
    found = made if first else _find(name, size)
    everywhere = [None] * dist.get_world_size(group)
    dist.all_gather_object(everywhere, found is not None, group=group)
    if first and sys.platform != "win32":
        os.unlink(FOLDER / name)
    if not all(everywhere):
        far = ", ".join(str(rank) for rank, seen in enumerate(everywhere) if not seen)
        raise SharingError(f"rank {far} is on another machine than rank 0, and memory can be shared on one machine "
                           "only; take the line that shares it out of the script, so that gloo or MPI carries the "
                           "gradients")
    return torch.frombuffer(found, dtype=torch.uint8)


def _make(size: int) -> tuple[str, mmap.mmap]:
    name = f"cpump-{secrets.token_hex(16)}"
    if sys.platform == "win32":
        return name, mmap.mmap(-1, size, tagname=name)
    room = shutil.disk_usage(FOLDER)
    file = os.open(FOLDER / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        if size > room.free:
            raise OSError
        # Without the pages in place the first write to one that is missing would end the process with SIGBUS.
        os.posix_fallocate(file, 0, size) if hasattr(os, "posix_fallocate") else os.truncate(file, size)
        return name, mmap.mmap(file, size)
    except OSError:
        os.unlink(FOLDER / name)
        raise SharingError(
            f"the ranks want to share {memory(size)}, and {FOLDER} has {memory(room.free)} free of "
            f"{memory(room.total)}; use fewer ranks or a smaller model, or give the container more "
            "(docker run --shm-size=4g)") from None
    finally:
        os.close(file)


def _find(name: str, size: int) -> mmap.mmap | None:
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=name)
    try:
        file = os.open(FOLDER / name, os.O_RDWR)
    except OSError:
        return None
    try:
        return mmap.mmap(file, size)
    finally:
        os.close(file)
