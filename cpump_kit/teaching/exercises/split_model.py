"""Exercises of lesson 09, split models."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, tried


@exercise(
    first_step="draw the timeline of 2 stages and 2 micro-batches on paper, and count the boxes that stay empty",
    hints=("Count time in slots: one micro-batch on one stage takes one slot. How many slots pass until the last stage "
           "is done with the last micro-batch?",
           "That is microbatches + stages - 1. In how many of them does one stage work?",
           "The share is empty slots over all slots; a stage is empty in stages - 1 of them."))
def bubble(answer: Callable) -> Iterator[Finding]:
    """bubble(stages, microbatches): the share of time, from 0 to 1, in which a stage has nothing to do."""
    cases = {(1, 4): 0.0, (2, 1): 1 / 2, (2, 8): 1 / 9, (4, 1): 3 / 4, (4, 4): 3 / 7}
    given = {case: tried(answer, *case) for case in cases}

    def seen(where: Callable) -> list[str]:
        return [f"{calling(answer, *case)} gave {value!r}" for case, value in given.items() if where(case, value)]

    wrong_kind = seen(lambda case, value: not isinstance(value, (int, float)) or not 0 <= value < 1)
    yield for_all("a share from 0 up to, but not including, 1", "empty slots over all slots", wrong_kind)
    if wrong_kind:
        return
    yield for_all("one stage alone is never empty", "there is nobody to wait for",
                  seen(lambda case, value: case[0] == 1 and value))
    yield for_all("without micro-batches only one stage works at a time", "with one micro-batch, all others are empty",
                  seen(lambda case, value: case[1] == 1 and abs(value - cases[case]) > 1e-9))
    yield for_all("it shrinks as micro-batches are added", "the slots to fill and to drain are the same few",
                  seen(lambda case, value: abs(value - cases[case]) > 1e-9))


@exercise(
    first_step="write down the shape of the weight of nn.Linear(6, 4), and which part of it gives the first 2 outputs",
    hints=("nn.Linear(inputs, outputs) keeps its weight as outputs x inputs: one row for each output.",
           "A rank that computes some of the outputs needs their rows, and no others.",
           "weight.chunk(world_size) cuts along the first dimension; a rank takes the chunk of its number."))
def weight_shard(answer: Callable) -> Iterator[Finding]:
    """weight_shard(weight, rank, world_size): the part of a linear layer's weight that gives this rank's outputs."""
    import torch

    weight, inputs = torch.arange(24.0).view(4, 6), torch.eye(6)[:5]
    ranks = [tried(lambda *arguments: answer(weight, *arguments), rank, 2) for rank in range(2)]
    tensors = [f"rank {rank} got {value!r}"[:200] for rank, value in enumerate(ranks)
               if not isinstance(value, torch.Tensor) or value.dim() != 2]
    yield for_all("each rank gets a matrix", "a part of the weight, which has two dimensions", tensors)
    if tensors:
        return
    narrow = [f"rank {rank} got {tuple(value.shape)} of {tuple(weight.shape)}" for rank, value in enumerate(ranks)
              if value.shape[1] != weight.shape[1]]
    yield for_all("each output still sees all inputs", "the weight is outputs x inputs: which of the two do you cut?",
                  narrow)
    if narrow:
        return
    yield for_all("each rank has half of the outputs", "two ranks, four outputs",
                  [f"rank {rank} got {len(value)} rows" for rank, value in enumerate(ranks) if len(value) != 2])
    joined = torch.cat([inputs @ value.T for value in ranks], dim=1)
    yield Finding(torch.equal(joined, inputs @ weight.T) if joined.shape == (5, 4) else False,
                  "put side by side, the ranks' outputs are those of the whole layer", "they are other numbers",
                  "rank 0 has the first outputs, rank 1 those that follow")
