"""Exercises of lesson NUMBER, TITLE."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, is_whole, tried


@exercise(
    first_step="write a return line with both arguments in it",
    hints=("A first hint says what to think of.",
           "A second one names the tool.",
           "A third one describes the answer without giving it."))
def NAME_part(answer: Callable) -> Iterator[Finding]:
    """part(samples, ranks): how many samples each rank gets, if all get as many as each other."""
    cases = [(12, 3), (10, 3), (7, 1), (2, 4)]
    given = [(calling(answer, *case), *case, tried(answer, *case)) for case in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not is_whole(value)]
    yield for_all("a whole number", "think of //", wrong_kind)
    if wrong_kind:
        return
    yield for_all("no more than there are", "count the samples of all ranks together",
                  [f"{call} gave {value}" for call, samples, ranks, value in given if value * ranks > samples])
    yield for_all("none left that would have been enough for all", "how many are left over?",
                  [f"{call} gave {value}" for call, samples, ranks, value in given if (value + 1) * ranks <= samples])
