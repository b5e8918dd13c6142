"""A communication hook for DistributedDataParallel that averages gradients in shared memory."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.futures import Future

from . import averaging
from .meeting import Meeting
from .segment import SharingError, share


class Buckets:
    """DDP's buckets of gradients, in shared memory: for each one a row a rank, and a row for the mean.

    Each bucket has memory of its own, so that one may be written while another is read.
    """

    def __init__(self, group: dist.ProcessGroup | None):
        self._group, self._meet, self._memory, self._waiting = group, None, {}, []

    def average(self, gradients: torch.Tensor, number: int = 0, last: bool = True) -> Future[torch.Tensor]:
        """The mean of `gradients` (one dimension, the same size in each rank) over all ranks.

        The ranks meet once for all buckets, at the last one: on CPU cores there is nobody who could average the first
        ones while backward computes the others. The mean is DDP's to read until the next call with this number.
        """
        rank, world_size = dist.get_rank(self._group), dist.get_world_size(self._group)
        if number == 0:
            self._waiting = []  # a backward that failed may have left some
        mean, *rows = self._rows(number, gradients, world_size + 1)  # DDP asks that its result begins the storage
        own, done = averaging.part(rank, world_size, len(gradients)), Future()
        averaging.publish(gradients, rows[rank], own, world_size)
        self._waiting.append((gradients, rows[:rank] + rows[rank + 1:], own, mean, done))
        if last:
            self._meet()  # every rank has published, and has copied the means of the step before
            for gradients, others, own, mean, _ in self._waiting:
                averaging.average(gradients, others, own, world_size, out=mean[own])
            self._meet()  # every part of every mean is written, and no rank reads the rows any more
            for *_, mean, done in self._waiting:
                done.set_result(mean)
        return done

    def _rows(self, number: int, gradients: torch.Tensor, rows: int) -> list[torch.Tensor]:
        if gradients.device.type != "cpu" or gradients.layout != torch.strided:
            found = "sparse" if gradients.layout != torch.strided else f"on {gradients.device}"
            raise SharingError(f"shared_memory_hook averages dense gradients on CPU cores, and here is one that is "
                               f"{found}; take the line that registers the hook out of the script")
        size = -(-gradients.nbytes // 64) * 64  # whole cache lines
        if number not in self._memory or self._memory[number].shape[1] != size:
            # The first time, and once more after the first step, when DDP forms its buckets anew: in all ranks alike.
            self._memory[number] = share(rows * size, self._group).view(rows, size)
        if self._meet is None:
            self._meet = Meeting(self._group)
        return [row[:gradients.nbytes].view(gradients.dtype) for row in self._memory[number]]


# DDP looks at these annotations as they are, so this file does not postpone them.
def average(state: Buckets, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """The hook itself: DDP calls it in backward with each bucket, in the same order in every rank."""
    return state.average(bucket.buffer(), bucket.index(), bucket.is_last())


def shared_memory_hook(group: dist.ProcessGroup | None = None) -> tuple[Buckets, Callable]:
    """For `model.register_comm_hook(*shared_memory_hook())`, in every rank, after DDP(model).

    Does what DDP does by itself, the mean over all ranks, for ranks of one machine. Other ranks get a SharingError
    with the first backward pass. `group` is the process group of the DDP model, if it has one of its own.
    """
    return Buckets(group), average
