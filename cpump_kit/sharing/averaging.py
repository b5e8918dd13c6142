"""How gradients are averaged in shared memory: each rank averages a part of them, from what the others wrote there."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def part(rank: int, world_size: int, size: int) -> slice:
    """The stretch of `size` numbers that is this rank's: disjoint, as equal as can be, together all of them."""
    return slice(rank * size // world_size, (rank + 1) * size // world_size)


def publish(gradient: torch.Tensor, row: torch.Tensor, own: slice, world_size: int) -> None:
    """Write what the other ranks need of `gradient` (one dimension) to `row`, all but the rank's own part.

    Divided by the world size here, before the sum, as DDP does: the sum then has the size of a gradient.
    """
    size = len(gradient)
    if own.start == own.stop:  # each call counts in a short step
        torch.mul(gradient, 1 / world_size, out=row)
        return
    for start, stop in ((0, own.start), (own.stop, size)):
        if start < stop:
            torch.mul(gradient[start:stop], 1 / world_size, out=row[start:stop])


def average(gradient: torch.Tensor | None, rows: Sequence[torch.Tensor], own: slice, world_size: int,
            out: torch.Tensor) -> None:
    """Write the mean of the own part to `out`. `rows`: what others published; `gradient`: the rank's, if it has one."""
    if gradient is None:
        torch.sum(torch.stack([row[own] for row in rows]), 0, out=out)
    elif not rows:
        torch.mul(gradient[own], 1 / world_size, out=out)
    else:
        torch.add(rows[0][own], gradient[own], alpha=1 / world_size, out=out)
        for row in rows[1:]:
            out.add_(row[own])
