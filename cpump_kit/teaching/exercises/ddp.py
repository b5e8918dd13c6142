"""Exercises of lesson 07, distributed data parallel."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator, Sequence

from ...running.launch import launch
from ..exercise import Finding, NotDone, calling, exercise, for_all, is_whole, tried


@exercise(
    first_step="work out on paper how many samples each of 2 ranks takes if a step is to have 128 in all",
    hints=("A DDP step trains on the samples of all ranks together. How many is that?",
           "All ranks take equally many, so the global batch is divided among them; each gets a whole number.",
           "Before you divide, look at the remainder (the % operator): if there is one, raise ValueError with a "
           "sentence that names both numbers."))
def global_batch(answer: Callable) -> Iterator[Finding]:
    """per_rank(global_batch, world_size): the batch of each rank; ValueError if it cannot be divided evenly."""
    cases = [(128, 2), (64, 1), (96, 3), (8, 8)]
    given = [(calling(answer, *case), *case, tried(answer, *case)) for case in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not is_whole(value)]
    yield for_all("a whole number of samples", "DataLoader takes no fraction: think of //", wrong_kind)
    if wrong_kind:
        return
    yield for_all("all ranks together take the global batch", "multiply what you return by the number of ranks",
                  [f"{call} gave {value}: {world_size} ranks would take {value * world_size} samples a step"
                   for call, batch, world_size, value in given if value * world_size != batch])
    yield for_all("an uneven division is refused with ValueError",
                  "a training that silently takes another batch than you asked for cannot be compared",
                  [problem for case in [(10, 4), (3, 2), (1, 2)] if (problem := _not_refused(answer, *case))])


def _not_refused(answer: Callable, batch: int, world_size: int) -> str:
    call = calling(answer, batch, world_size)
    try:
        value = answer(batch, world_size)
    except ValueError:
        return ""
    except Exception as error:
        return f"{call} raised {type(error).__name__}, not ValueError"
    return f"{call} gave {value!r}, and {batch} samples cannot be divided among {world_size} ranks"


@exercise(
    first_step="return a part of the list `order`, another one for each rank",
    hints=("Deal the samples out like cards: who gets the first, the second, the third?",
           "Rank r takes the r-th sample and from there every world_size-th. A slice has a start and a step.",
           "order[start:stop:step] with an empty stop runs to the end of the list, whatever its length."))
def shard(answer: Callable) -> Iterator[Finding]:
    """shard(order, rank, world_size): the indices of one rank, out of the shuffled list `order`."""
    cases = [(_shuffled(n), world_size) for n, world_size in [(12, 3), (10, 3), (7, 2), (9, 1), (11, 4)]]
    parts = [[tried(answer, list(order), rank, size) for rank in range(size)] for order, size in cases]
    names = [f"with {len(order)} samples and {size} ranks" for order, size in cases]
    wrong_kind = [f"{name}, rank {rank} got {value!r}" for name, ranks in zip(names, parts)
                  for rank, value in enumerate(ranks) if _indices(value) is None]
    yield for_all("a list of indices for every rank", "a slice of a list is a list", wrong_kind)
    if wrong_kind:
        return
    found = [(name, order, [_indices(value) for value in ranks])
             for name, (order, _), ranks in zip(names, cases, parts)]
    yield for_all("no sample twice", "two ranks that train on one sample do the same work twice, and padding does too",
                  [f"{name}, {_repeated(ranks)} of them came more than once"
                   for name, order, ranks in found if _repeated(ranks)])
    yield for_all("no sample left out", "count the samples of all ranks together, and mind the remainder",
                  [f"{name}, {len(set(order) - set(sum(ranks, [])))} of them came to no rank"
                   for name, order, ranks in found if set(order) - set(sum(ranks, []))])
    yield for_all("the ranks' shares differ by one sample at most",
                  "in each step the ranks wait for each other, so a longer share makes the others wait",
                  [f"{name}, the shares have {', '.join(str(len(part)) for part in ranks)} samples"
                   for name, _, ranks in found if max(map(len, ranks)) - min(map(len, ranks)) > 1])
    yield for_all("every share keeps the shuffled order", "take the values that `order` holds, not their positions",
                  [f"{name}, a rank's samples came in another order than in `order`"
                   for name, order, ranks in found for part in ranks if not _in_order(part, order)])


def _shuffled(n: int) -> list[int]:
    return random.Random(0).sample(range(n), n)


def _indices(value: Sequence) -> list[int] | None:
    try:
        found = [int(index) for index in value]
    except (TypeError, ValueError):
        return None
    return None if isinstance(value, str) else found


def _repeated(ranks: list[list[int]]) -> int:
    together = sum(ranks, [])
    return len(together) - len(set(together))


def _in_order(part: list[int], order: list[int]) -> bool:
    places = [order.index(index) for index in part if index in order]
    return places == sorted(places)


PATIENCE = 15  # seconds that one rank waits for another before it gives up


@exercise(
    first_step="loop over model.parameters() and all-reduce the gradient, .grad, of each",
    hints=("dist.all_reduce(tensor) replaces the tensor on every rank by the sum over all ranks, in place.",
           "Each parameter holds its gradient in parameter.grad; every rank must call all_reduce for the same ones "
           "in the same order.",
           "A sum of two gradients is twice their mean: dist.get_world_size() says how many there are, and "
           "`tensor /= number` divides in place."))
def average_gradients(answer: Callable) -> Iterator[Finding]:
    """average_gradients(model): after backward, replace every gradient by its mean over all ranks."""
    run = launch(_gradients, 2, threads=1, show=False, average=answer, patience=PATIENCE)
    run.wait()
    seen, hint = run.error or "", "look at that line first"
    if "imed out" in seen:
        seen = f"one rank waited {PATIENCE} s for the other in vain"
        hint = "every rank has to take part in every all_reduce, in the same order"
    yield Finding(run.state == "done", "it ends on both ranks", seen, hint)
    if run.state != "done":
        return
    ranks = run.results
    if all((rank["after"] == rank["own"]).all() and rank["same_weights"] for rank in ranks):
        raise NotDone("the gradients are as they were")
    yield Finding(all(rank["same_weights"] for rank in ranks), "the weights are left to the optimizer",
                  "the weights were changed", "work on parameter.grad, not on the parameter")
    yield Finding(_close(ranks[0]["after"], ranks[1]["after"]), "both ranks end with the same gradients",
                  "the gradients differ", "is each gradient of the model reduced, on each rank?")
    yield Finding(all(_close(rank["after"], rank["whole"]) for rank in ranks),
                  "they are the gradients of one process that has all the samples", _compared(ranks[0]),
                  "the loss is a mean over samples, so the gradients of the ranks need the same")


def _gradients(rank: int, world_size: int, *, average: Callable, patience: float) -> dict:
    """In a worker: the gradients of this rank's half of the samples before and after, and those of all samples."""
    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=patience))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    samples, labels = torch.randn(8, 6), torch.randint(3, (8,))

    def gradients(part: slice) -> torch.Tensor:
        model.zero_grad()
        nn.functional.cross_entropy(model(samples[part]), labels[part]).backward()
        return flat(parameter.grad for parameter in model.parameters())

    def flat(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
        return torch.cat([tensor.detach().flatten().clone() for tensor in tensors])

    whole, own, before = gradients(slice(None)), gradients(slice(rank, None, world_size)), flat(model.parameters())
    average(model)
    after = flat(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                 for parameter in model.parameters())
    return {"whole": whole, "own": own, "after": after, "same_weights": torch.equal(before, flat(model.parameters()))}


def _close(one, other) -> bool:
    return bool((one - other).abs().max() < 1e-5)


def _compared(rank: dict) -> str:
    ratio = float(rank["after"].norm() / rank["whole"].norm())
    if _close(rank["after"], ratio * rank["whole"]):
        return f"they are {ratio:.3g} times as large"
    return "they differ"
