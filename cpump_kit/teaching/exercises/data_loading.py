"""Exercises of lesson 06, data loading."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, is_whole, tried


@exercise(
    first_step="try it for 2 ranks with 2 workers each: what are four different numbers?",
    hints=("Count through all loader workers of all ranks: how many stand before this one?",
           "rank * workers + worker is another number for each of them.",
           "Add that number to the seed of the training, so that another training gets other seeds."))
def worker_seed(answer: Callable) -> Iterator[Finding]:
    """worker_seed(seed, rank, worker, workers): another seed for each of the `workers` loader workers of each rank."""
    cases = [(0, 2, 2), (7, 3, 4), (100, 1, 3), (5, 4, 1)]
    given = {case: [tried(answer, case[0], rank, worker, case[2]) for rank in range(case[1])
                    for worker in range(case[2])] for case in cases}
    wrong_kind = [f"{calling(answer, seed, 0, 0, workers)} gave {values[0]!r}"
                  for (seed, _, workers), values in given.items() if not all(map(is_whole, values))]
    yield for_all("a whole number", "torch.manual_seed takes whole numbers", wrong_kind)
    if wrong_kind:
        return
    yield for_all("no two workers with the same seed", "count through all workers of all ranks",
                  [f"{ranks} ranks with {workers} workers each got {', '.join(map(str, values))}"
                   for (_, ranks, workers), values in given.items() if len(set(values)) < len(values)])
    yield for_all("another training seed gives other seeds", "use `seed` too",
                  [f"{calling(answer, 0, 1, 1, 2)} and {calling(answer, 1000, 1, 1, 2)} gave the same"]
                  if tried(answer, 0, 1, 1, 2) == tried(answer, 1000, 1, 1, 2) else [])


@exercise(
    first_step="loop over the items, and keep those whose turn it is",
    hints=("There are world_size * workers readers in all. The items go round, one to each.",
           "This reader's number is rank * workers + worker.",
           "Keep an item if its position, modulo the number of readers, is this reader's number; "
           "itertools.islice(items, start, None, step) does that too."))
def read_shard(answer: Callable) -> Iterator[Finding]:
    """read_shard(items, rank, world_size, worker, workers): the items of one loader worker of one rank, of a stream."""
    cases = [(10, 1, 1), (10, 2, 2), (7, 3, 1), (23, 2, 3)]
    parts = {case: [_read(answer, case, rank, worker) for rank in range(case[1]) for worker in range(case[2])]
             for case in cases}
    yield for_all("no item twice", "each item has one reader", [
        f"{n} items for {ranks} ranks with {workers} workers: {_twice(found)} of them were read more than once"
        for (n, ranks, workers), found in parts.items() if _twice(found)])
    yield for_all("no item left out", "mind both numbers, that of the rank and that of the worker", [
        f"{n} items for {ranks} ranks with {workers} workers: {n - len(set(sum(found, [])))} were read by nobody"
        for (n, ranks, workers), found in parts.items() if set(sum(found, [])) != set(range(n))])
    yield for_all("all read about equally much", "let the items go round", [
        f"{n} items: {', '.join(str(len(part)) for part in found)}" for (n, _, _), found in parts.items()
        if max(map(len, found)) - min(map(len, found)) > 1])


def _read(answer: Callable, case: tuple, rank: int, worker: int) -> list:
    n, ranks, workers = case

    def read_shard_of(*arguments):
        found = answer(iter(range(n)), *arguments)
        return found if found is None or found is ... else list(found)

    return tried(read_shard_of, rank, ranks, worker, workers)


def _twice(parts: list[list]) -> int:
    together = sum(parts, [])
    return len(together) - len(set(together))
