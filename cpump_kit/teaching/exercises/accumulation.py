"""Exercises of lesson 08, gradient accumulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, tried


@exercise(
    first_step="write down the sizes for 10 samples, batches of 2 and 2 batches a window",
    hints=("A full window has window * batch_size samples. What is left for the last one?",
           "range(0, samples, full) gives the places at which windows begin.",
           "A window that begins at `start` ends at min(start + full, samples)."))
def window_sizes(answer: Callable) -> Iterator[Finding]:
    """window_sizes(samples, batch_size, window): how many samples each window of an epoch has, the last included."""
    cases = [((16, 2, 4), [8, 8]), ((10, 2, 2), [4, 4, 2]), ((7, 2, 2), [4, 3]), ((3, 2, 4), [3])]
    given = [(calling(answer, *case), case, wanted, tried(answer, *case)) for case, wanted in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not isinstance(value, list)]
    yield for_all("a list with a size for each window", "collect them in a list", wrong_kind)
    if wrong_kind:
        return
    yield for_all("all samples are in some window, and none in two", "add up what you return",
                  [f"{call} gave {value}, which are {sum(value)} samples" for call, case, _, value in given
                   if sum(value) != case[0]])
    yield for_all("every window but the last is full", "window batches of batch_size samples",
                  [f"{call} gave {value}" for call, _, wanted, value in given if value[:-1] != wanted[:-1]])
    yield for_all("the last window has what is left", "it may be short: no more than the samples that are there",
                  [f"{call} gave {value}" for call, _, wanted, value in given if value != wanted])


@exercise(
    first_step="work out for 5 batches and a window of 2 after which batches a step is made",
    hints=("A step is made when a window is full. Batches are counted from 0.",
           "(number + 1) % window == 0 is true at the end of each full window.",
           "And the very last batch of the epoch ends its window, full or not."))
def ends_window(answer: Callable) -> Iterator[Finding]:
    """ends_window(number, batches, window): True if batch `number` (from 0) is the last of its window."""
    cases = [(8, 4), (5, 2), (3, 4), (4, 1)]
    given = {case: [n for n in range(case[0]) if tried(_said(answer), n, *case) == "yes"] for case in cases}
    wanted = {case: sorted({*range(case[1] - 1, case[0], case[1]), case[0] - 1}) for case in cases}
    yield for_all("a step at the end of each full window", "numbers count from 0", [
        f"with {n} batches and a window of {window}, steps were made after {given[n, window]}"
        for n, window in cases if set(range(window - 1, n, window)) - set(given[n, window])])
    yield for_all("the last, short window gets its step too", "what is left over must not be forgotten", [
        f"with {n} batches and a window of {window}, steps were made after {given[n, window]}"
        for n, window in cases if n - 1 not in given[n, window]])
    yield for_all("and no other batch ends a window", "", [
        f"with {n} batches and a window of {window}, steps were made after {given[n, window]}"
        for n, window in cases if given[n, window] != wanted[n, window]])


def _said(answer: Callable) -> Callable:
    """The answer in words, so that False is not taken for nothing."""
    def ends_window_of(*arguments):
        value = answer(*arguments)
        return value if value is None or value is ... else "yes" if value else "no"

    return ends_window_of
