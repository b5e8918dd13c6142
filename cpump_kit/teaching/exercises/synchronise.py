"""Exercises of lesson 05, synchronise."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator

from ...running.launch import launch
from ..exercise import Finding, NotDone, exercise

PATIENCE = 20  # seconds that the ranks may take, which they need only if one waits for ever


@exercise(
    first_step="take the lock, change the counter, give the lock back, `times` times",
    hints=("Only one process at a time may read, add and write. What is the smallest piece of code that must not be "
           "interrupted?",
           "`with lock:` takes the lock for the lines below it and gives it back, also after an error.",
           "for _ in range(times): with lock: counter += 1"))
def count_up(answer: Callable) -> Iterator[Finding]:
    """count_up(counter, lock, times): add 1 to the shared tensor `times` times, so that no addition is lost."""
    import torch

    counter, lock = torch.zeros(1, dtype=torch.int64).share_memory_(), multiprocessing.get_context("spawn").Lock()
    times = 20_000
    run = launch(_call_count_up, 2, threads=1, show=False, timeout=PATIENCE, count=answer, counter=counter, lock=lock,
                 times=times)
    run.wait()
    yield Finding(run.state == "done", "it ends in both processes", run.error or "",
                  "is the lock given back each time, and not taken twice?")
    if run.state != "done":
        return
    if int(counter) == 0:
        raise NotDone("the counter is still 0")
    seen = f"{2 * times:,} were made and {int(counter):,} are left"
    yield Finding(int(counter) == 2 * times, "no addition is lost", seen,
                  "between reading and writing the counter nobody else may come in")


def _call_count_up(rank: int, world_size: int, *, count: Callable, counter, lock, times: int) -> None:
    count(counter, lock, times)


@exercise(
    first_step="write this rank's row, then wait at the barrier",
    hints=("Two moments matter: nobody may read before every row is written, and nobody may write again before "
           "everybody has read.",
           "So: write your row, barrier.wait(), take the mean over the rows, barrier.wait().",
           "The mean over the rows of a table is table.mean(0)."))
def all_reduce(answer: Callable) -> Iterator[Finding]:
    """all_reduce(mine, table, rank, barrier): the mean over all ranks' `mine`, by way of the shared `table`."""
    import torch

    spawn = multiprocessing.get_context("spawn")
    table = torch.full((3, 50), float("nan")).share_memory_()
    run = launch(_call_all_reduce, 3, threads=1, show=False, timeout=PATIENCE, reduce=answer, table=table,
                 barrier=spawn.Barrier(3))
    run.wait()
    yield Finding(run.state == "done", "it ends in all three processes", run.error or "",
                  "every rank has to come to each barrier, equally often")
    if run.state != "done":
        return
    ranks = run.results
    if all(found is None or found is ... for rank in ranks for found in rank):
        raise NotDone("it returns nothing so far")
    good = all(isinstance(found, torch.Tensor) and found.shape == (50,) for rank in ranks for found in rank)
    yield Finding(good, "a tensor of the same shape comes back", "something else came", "return the mean of the rows")
    if not good:
        return
    wrong = [turn for turn in range(len(ranks[0])) for rank in ranks if not torch.allclose(rank[turn], _wanted(turn))]
    yield Finding(not wrong, "it is the mean over all ranks, every time",
                  f"it was not in {len(set(wrong))} of {len(ranks[0])} rounds",
                  "a fast rank may read too early, or write its next row too early: there are two moments to wait")


def _call_all_reduce(rank: int, world_size: int, *, reduce: Callable, table, barrier) -> list:
    """Many rounds with other numbers and other delays in each, so that a missing barrier shows."""
    import time

    import torch

    found = []
    for turn in range(60):
        if (turn + rank) % 3 == 0:
            time.sleep(0.002)
        result = reduce(torch.full((50,), float(10 * turn + rank)), table, rank, barrier)
        found.append(result.clone() if isinstance(result, torch.Tensor) else result)
    return found


def _wanted(turn: int):
    import torch

    return torch.full((50,), 10.0 * turn + 1.0)
