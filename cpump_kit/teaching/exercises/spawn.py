"""Exercises of lesson 03, spawn."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, tried


@exercise(
    first_step="try pickle.dumps(value) and see what happens with a lambda",
    hints=("A value travels to a spawned process as bytes: pickle.dumps makes them, or raises an error.",
           "Which error it raises depends on the value, so catch Exception.",
           "try: pickle.dumps(value) ... except Exception: return False ... and True if nothing was raised."))
def can_travel(answer: Callable) -> Iterator[Finding]:
    """can_travel(value): True if pickle can turn the value into bytes, as spawn needs it, else False."""
    travels = [("a number", 3), ("a list", [1, "two"]), ("a function of a module", math.sqrt), ("None", None)]
    stays = [("a lambda", lambda: 0), ("a lock", threading.Lock()), ("a generator", (i for i in range(2)))]
    named = _named(answer)
    given = [(name, wanted, tried(named, value)) for wanted, values in ((True, travels), (False, stays))
             for name, value in values]
    wrong_kind = [f"it gave {value!r} for {name}" for name, _, value in given if not isinstance(value, bool)]
    yield for_all("True or False", "return one of the two in each case", wrong_kind)
    if wrong_kind:
        return
    yield for_all("True for what travels", "pickle.dumps raises nothing for these",
                  [f"it gave False for {name}" for name, wanted, value in given if wanted and not value])
    yield for_all("False for what does not", "several kinds of error can come: catch them all",
                  [f"it gave True for {name}" for name, wanted, value in given if value and not wanted])


@exercise(
    first_step="work out on paper where the part of each rank begins, with 10 jobs and 3 ranks",
    hints=("Cut the list into world_size stretches. Where does the stretch of rank r begin if all were equally long?",
           "rank * len(jobs) // world_size is a whole number, also where the division leaves a remainder.",
           "The stretch of a rank ends where the next rank's begins."))
def block(answer: Callable) -> Iterator[Finding]:
    """block(jobs, rank, world_size): one rank's part of the list, a stretch of it; all parts together are the list."""
    cases = [(12, 3), (10, 3), (7, 2), (2, 4), (9, 1)]
    parts = {case: [tried(answer, list(range(case[0])), rank, case[1]) for rank in range(case[1])] for case in cases}
    wrong_kind = [f"{calling(answer, list(range(n)), rank, size)} gave {value!r}" for (n, size), ranks in parts.items()
                  for rank, value in enumerate(ranks) if not isinstance(value, list)]
    yield for_all("a list for every rank", "a slice of a list is a list, also an empty one", wrong_kind)
    if wrong_kind:
        return
    yield for_all("all parts, one after another, are the whole list", "does each part begin where the one before ends?",
                  [f"{n} jobs for {size} ranks came back as {sum(ranks, [])}" for (n, size), ranks in parts.items()
                   if sum(ranks, []) != list(range(n))])
    yield for_all("no rank has two jobs more than another", "divide after you have multiplied, not before",
                  [f"{n} jobs for {size} ranks: {', '.join(str(len(part)) for part in ranks)}"
                   for (n, size), ranks in parts.items() if max(map(len, ranks)) - min(map(len, ranks)) > 1])


def _named(answer: Callable) -> Callable:
    """The answer under a name, so that a message need not print what cannot be printed."""
    def can_travel_of(value):
        return answer(value)

    return can_travel_of
