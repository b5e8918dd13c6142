"""Exercises of lesson 02, threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, is_whole, tried


@exercise(
    first_step="find the largest of the speeds, and then which counts come close to it",
    hints=("More threads are only worth their cores if they bring speed. What is the best speed, and which counts "
           "reach nearly that?",
           "Keep the counts whose speed is at least 95 % of the best one.",
           "Of these take the smallest: min(...) over the counts that you kept."))
def threads_that_pay(answer: Callable) -> Iterator[Finding]:
    """threads_that_pay(speeds): the fewest threads whose speed is within 5 % of the best; {threads: samples/s}."""
    cases = [({1: 100.0, 2: 190.0, 4: 300.0}, 4), ({1: 100.0, 2: 98.0}, 1), ({1: 50.0, 2: 97.0, 4: 100.0, 8: 99.0}, 2),
             ({4: 10.0}, 4), ({8: 100.0, 2: 99.0, 1: 20.0}, 2)]
    given = [(calling(answer, case), case, wanted, tried(answer, dict(case))) for case, wanted in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, case, _, value in given
                  if not is_whole(value) or value not in case]
    yield for_all("one of the measured counts", "return a key of `speeds`, not a speed", wrong_kind)
    if wrong_kind:
        return
    yield for_all("nearly as fast as the best", "within 5 %: at least 0.95 times the best speed",
                  [f"{call} gave {value}, with {case[value]:g} of {max(case.values()):g} samples/s"
                   for call, case, _, value in given if case[value] < 0.95 * max(case.values())])
    yield for_all("no thread more than it needs", "of all the counts that are fast enough, which is the smallest?",
                  [f"{call} gave {value}, and fewer threads are as fast" for call, _, wanted, value in given
                   if value > wanted])


@exercise(
    first_step="write the time that n threads take as a part that stays and a part that shrinks",
    hints=("With one thread the work takes 1. The serial share stays as it is, the rest is divided by n.",
           "n threads take serial + (1 - serial) / n.",
           "The speed-up is the time of one thread divided by that of n: 1 / (...)."))
def amdahl(answer: Callable) -> Iterator[Finding]:
    """speedup(n, serial): Amdahl's law, the speed-up of n threads if the share `serial` of the work stays serial."""
    cases = [(1, 0.3), (4, 0.0), (4, 1.0), (2, 0.5), (8, 0.1)]
    given = [(calling(answer, *case), *case, tried(answer, *case)) for case in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not isinstance(value, (int, float))]
    yield for_all("a number", "a speed-up such as 1.8", wrong_kind)
    if wrong_kind:
        return
    yield for_all("one thread has a speed-up of 1", "put n = 1 into your formula",
                  [f"{call} gave {value:.3g}" for call, n, _, value in given if n == 1 and abs(value - 1) > 1e-9])
    yield for_all("if everything can be divided, n threads are n times as fast", "put serial = 0 into your formula",
                  [f"{call} gave {value:.3g}" for call, n, s, value in given if s == 0 and abs(value - n) > 1e-9])
    yield for_all("if nothing can be divided, nothing is gained", "put serial = 1 into your formula",
                  [f"{call} gave {value:.3g}" for call, _, s, value in given if s == 1 and abs(value - 1) > 1e-9])
    yield for_all("in between, the serial share stays and the rest is divided by n", "add the two parts of the time",
                  [f"{call} gave {value:.4g}" for call, n, s, value in given
                   if abs(value - 1 / (s + (1 - s) / n)) > 1e-6])
