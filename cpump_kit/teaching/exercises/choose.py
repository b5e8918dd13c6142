"""Exercises of lesson 10, choosing an approach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, tried


@exercise(
    first_step="find the largest speed-up of those that are allowed: max(...)",
    hints=("Leave out what is not allowed first: nothing that comes after may see it.",
           "The fastest that is left sets the bar, and whoever reaches 90 % of it is fast enough.",
           "The approaches stand in the order of their simplicity: take the first that is fast enough."))
def choose(answer: Callable) -> Iterator[Finding]:
    """choose(speedups, allowed): of the allowed approaches that reach 90 % of the fastest, the first one's name.

    speedups   {name: speed-up}, the simplest approach first
    allowed    a set of names
    """
    speedups = {"one": 1.0, "threads": 1.5, "ddp": 1.2, "shared": 1.6, "hogwild": 1.95}
    everything = set(speedups)
    cases = [(speedups, everything, "hogwild"), (speedups, everything - {"hogwild"}, "threads"),
             (speedups, {"one"}, "one"), ({"threads": 1.79, "ddp": 2.0}, {"threads", "ddp"}, "ddp"),
             ({"threads": 1.81, "ddp": 2.0}, {"threads", "ddp"}, "threads"),
             ({"ddp": 0.6, "shared": 0.5, "one": 1.0}, {"ddp", "shared"}, "ddp")]
    given = [tried(answer, dict(numbers), set(allowed)) for numbers, allowed, _ in cases]
    seen = [f"{_told(answer, numbers, allowed)} gave {value!r}" for (numbers, allowed, _), value in zip(cases, given)]

    outside = [said for said, (numbers, allowed, _), value in zip(seen, cases, given)
               if not isinstance(value, str) or value not in allowed]
    yield for_all("one of the allowed names", "leave out first what is not allowed", outside)
    if outside:
        return
    slow = [said for said, (numbers, allowed, _), value in zip(seen, cases, given)
            if numbers[value] < 0.9 * max(numbers[name] for name in allowed)]
    yield for_all("never one that is clearly slower than the fastest allowed one",
                  "90 % of the fastest that is allowed is the bar", slow)
    yield for_all("the simplest of those that are fast enough", "the first in the order of `speedups`",
                  [said for said, (_, _, right), value in zip(seen, cases, given)
                   if value != right and said not in slow])


@exercise(
    first_step="write down both times for n samples: start + n / rate",
    hints=("For n samples the first needs start_a + n / rate_a seconds, the second start_b + n / rate_b.",
           "Where the two lines cross, both times are equal. Solve that for n.",
           "Three cases have no crossing: the second starts no later and is no slower (0), or it is no faster and "
           "starts later (float('inf'))."))
def break_even(answer: Callable) -> Iterator[Finding]:
    """break_even(start_a, rate_a, start_b, rate_b): the samples from which b is done first; b starts no sooner.

    start_a, start_b   seconds until the training begins, start_b >= start_a
    rate_a, rate_b     samples/s
    """
    cases = {(0.0, 1000, 1.0, 2000): 2000.0, (0.5, 3000, 2.0, 4000): 18_000.0, (0.0, 1000, 0.0, 1500): 0.0,
             (0.0, 1000, 1.0, 1000): math.inf, (0.0, 1000, 1.0, 600): math.inf}
    given = {case: tried(answer, *case) for case in cases}

    def seen(where: Callable) -> list[str]:
        return [f"{calling(answer, *case)} gave {value!r}" for case, value in given.items() if where(case, value)]

    wrong_kind = seen(lambda case, value: isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0)
    yield for_all("a number of samples", "from 0 on, or float('inf')", wrong_kind)
    if wrong_kind:
        return
    yield for_all("for so many samples both take equally long", "set the two times equal, and solve for the samples",
                  seen(lambda case, value: 0 < cases[case] < math.inf and not math.isclose(value, cases[case])))
    yield for_all("0 where it starts as soon and is faster", "it is ahead from the first sample on",
                  seen(lambda case, value: cases[case] == 0 and value != 0))
    yield for_all("float('inf') where it is never ahead", "look at the case of equal rates, and of a slower b",
                  seen(lambda case, value: cases[case] == math.inf and value != math.inf))


def _told(answer: Callable, speedups: dict, allowed: set) -> str:
    return calling(answer, speedups, sorted(allowed)).replace("[", "{").replace("]", "}")
