"""Exercises of lesson 00, your machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, is_whole, tried


@exercise(
    first_step="write a return line that gives each worker its part of the usable cores",
    hints=("With 8 usable cores and 2 workers, how many threads can each have so that no core serves two threads?",
           "A thread cannot be split: divide without a remainder, as // does, and leave the remainder unused.",
           "With more workers than cores the division gives 0, and a worker needs one thread to run at all: "
           "max takes the larger of two numbers."))
def threads_per_worker(answer: Callable) -> Iterator[Finding]:
    """share(usable_cores, nprocs): the threads for each of nprocs workers, at least 1."""
    cases = [(2, 1), (2, 2), (8, 3), (16, 5), (2, 4), (1, 1), (64, 64)]
    given = [(calling(answer, *case), *case, tried(answer, *case)) for case in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not is_whole(value)]
    yield for_all("a whole number of threads", "half a thread cannot run: think of //", wrong_kind)
    if wrong_kind:
        return
    yield for_all("at least one thread for each worker", "what is left where there are more workers than cores?",
                  [f"{call} gave {value}" for call, _, _, value in given if value < 1])
    yield for_all("no more threads than cores, as long as each worker can have a core",
                  "all workers run at once, so count their threads together",
                  [f"{call} gave {value}: {nprocs} workers would run {value * nprocs} threads"
                   for call, cores, nprocs, value in given if nprocs <= cores and value * nprocs > cores])
    yield for_all("no cores idle that could give every worker one more thread", "use what the machine has",
                  [f"{call} gave {value}: {nprocs} workers would leave {cores - value * nprocs} of {cores} cores idle"
                   for call, cores, nprocs, value in given if (value + 1) * nprocs <= cores])
