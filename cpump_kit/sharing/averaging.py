"""How gradients are averaged in shared memory: each rank averages a part of them, from what the others wrote there."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def part(rank: int, world_size: int, size: int) -> slice:
    """The stretch of `size` numbers that is this rank's: disjoint, as equal as can be, together all of them."""
    return slice(rank * size // world_size, (rank + 1) * size // world_size)


def publish(gradient: torch.Tensor, row: torch.Tensor, own: slice, world_size: int) -> None:
    """Write what the other ranks need of `gradient` (one dimension) to `row`, all but the rank's own part.

    Divided by the world size here, before the sum, as DDP does: the sum then has the size of a gradient.
    """
    for others in (slice(own.start), slice(own.stop, None)):
        torch.mul(gradient[others], 1 / world_size, out=row[others])


def average(gradient: torch.Tensor | None, rows: Iterable[torch.Tensor], own: slice, world_size: int,
            out: torch.Tensor) -> None:
    """Write the mean of the own part to `out`. `rows`: what others published; `gradient`: the rank's, if it has one."""
    torch.mul(gradient[own], 1 / world_size, out=out) if gradient is not None else out.zero_()
    for row in rows:
        out.add_(row[own])
