"""A communication hook for DistributedDataParallel that averages gradients in shared memory."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from .meeting import Meeting
from .segment import SharingError, share


class Average:
    """The shared memory of a hook: a row for each rank's bucket, and one for the mean."""

    def __init__(self, group: dist.ProcessGroup | None):
        self._group, self._meet, self._shared = group, None, torch.empty(0, 0, dtype=torch.uint8)

    def __call__(self, gradients: torch.Tensor) -> None:
        """Replace `gradients` (one dimension, the same size in each rank) by their mean over all ranks."""
        rank, world_size = dist.get_rank(self._group), dist.get_world_size(self._group)
        *rows, mean = self._rows(gradients, world_size + 1)  # each always begins at the same place, see below
        rows[rank].copy_(gradients)
        self._meet()  # every row is written
        part = slice(rank * len(mean) // world_size, (rank + 1) * len(mean) // world_size)
        torch.add(rows[0][part], rows[1][part], out=mean[part]) if world_size > 1 else mean.copy_(rows[0])
        for row in rows[2:]:
            mean[part].add_(row[part])
        mean[part].div_(world_size)
        self._meet()  # every part of the mean is written, and no rank reads the rows any more
        # Nobody writes to `mean` again before all have come to the next call's first meeting, after this copy: a rank
        # that is ahead may be writing its row already, and no row lies where `mean` does, whatever the sizes.
        gradients.copy_(mean)

    def _rows(self, gradients: torch.Tensor, rows: int) -> list[torch.Tensor]:
        size = gradients.nbytes
        if gradients.device.type != "cpu":
            raise SharingError(f"shared_memory_hook is for training on CPU cores, and here is a gradient on "
                               f"{gradients.device}; take the line that registers the hook out of the script")
        if self._meet is None:
            self._meet = Meeting(self._group)
        if size > self._shared.shape[1]:  # DDP forms its buckets anew after the first step, in all ranks alike
            room = -(-size // 64) * 64  # whole cache lines
            self._shared = share(rows * room, self._group).view(rows, room)
        return [row[:size].view(gradients.dtype) for row in self._shared]


# DDP looks at these annotations as they are, so this file does not postpone them.
def average(state: Average, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook itself. It is done when it returns: on CPU cores there is nobody who could average meanwhile."""
    gradients = bucket.buffer()
    state(gradients)
    done = torch.futures.Future()
    done.set_result(gradients)
    return done


def shared_memory_hook(group: dist.ProcessGroup | None = None) -> tuple[Average, Callable]:
    """For `model.register_comm_hook(*shared_memory_hook())`, in every rank, after DDP(model).

    Does what DDP does by itself, the mean over all ranks, for ranks of one machine. Other ranks get a SharingError
    with the first backward pass. `group` is the process group of the DDP model, if it has one of its own.
    """
    return Average(group), average
