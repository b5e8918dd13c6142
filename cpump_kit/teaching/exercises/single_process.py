"""Exercises of lesson 01, a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, calling, exercise, for_all, tried


@exercise(
    first_step="leave out the first `skip` steps, and find how many seconds the rest took",
    hints=("A speed is an amount divided by a time. Which samples were trained between the end of step `skip` - 1 "
           "and the end of the last step?",
           "ends[-1] is when the last step ended. The steps that count begin when the last skipped one ends, at "
           "ends[skip - 1].",
           "There are len(ends) - skip steps that count, with batch_size samples each; divide by ends[-1] - "
           "ends[skip - 1]."))
def throughput(answer: Callable) -> Iterator[Finding]:
    """throughput(ends, batch_size, skip): samples/s after the first `skip` steps; `ends` has each step's end in s."""
    slow_start = [5.0, 6.0, 6.5, 7.0, 7.5]  # the first step takes five seconds, the last ones half a second
    cases = [(([1.0, 2.0, 3.0], 10, 1), 10.0), ((slow_start, 64, 2), 128.0), (([0.5, 1.0], 8, 1), 16.0)]
    given = [(calling(answer, *case), case, wanted, tried(answer, *case)) for case, wanted in cases]
    wrong_kind = [f"{call} gave {value!r}" for call, _, _, value in given if not isinstance(value, (int, float))]
    yield for_all("a number", "samples divided by seconds", wrong_kind)
    if wrong_kind:
        return
    yield for_all("the steps of the warm-up do not count", "do you subtract the time at which they ended?",
                  [f"{call} gave {value:.4g}, as if all steps counted" for call, (ends, size, _), wanted, value in given
                   if abs(value - size * len(ends) / ends[-1]) < 1e-6 and abs(value - wanted) > 1e-6])
    yield for_all("samples per second", "count the steps between the two times, not their ends",
                  [f"{call} gave {value:.4g}" for call, _, wanted, value in given if abs(value - wanted) > 1e-6])


@exercise(
    first_step="for each image, find which of the ten numbers is the largest",
    hints=("logits has a row for each image. The model's answer is the position of the row's largest number.",
           "logits.argmax(1) gives that position for each row; comparing it with labels gives True and False.",
           "The mean of True and False is the share of True: (...).float().mean().item()."))
def accuracy(answer: Callable) -> Iterator[Finding]:
    """accuracy(logits, labels): the share of right answers, a Python number from 0 to 1."""
    import torch

    torch.manual_seed(0)
    labels = torch.tensor([0, 1, 2, 2, 1])
    perfect = torch.nn.functional.one_hot(labels, 3).float() * 4 - 1
    half = perfect.clone()
    half[:2] = half[:2].flip(1) + torch.tensor([0.0, -9.0, 0.0])
    cases = [(perfect, 1.0), (-perfect * torch.tensor([1.0, 2.0, 3.0]), 0.0), (half, 0.6)]
    given = [(tried(_named(answer), logits, labels), wanted) for logits, wanted in cases]
    wrong_kind = [f"it gave {value!r}" for value, _ in given if not isinstance(value, float)]
    yield for_all("a Python number", "a tensor of one number becomes a Python number with .item()", wrong_kind)
    if wrong_kind:
        return
    yield for_all("from 0 to 1", "a share, not a count and not percent",
                  [f"it gave {value:g} where all answers were right" for value, wanted in given[:1] if value > 1.0])
    yield for_all("the share of rows whose largest number stands at the label", "look along the row: argmax(1)",
                  [f"it gave {value:.3g} where {wanted:g} of the answers are right" for value, wanted in given
                   if abs(value - wanted) > 1e-6])


def _named(answer: Callable) -> Callable:
    """The answer under a name, so that a message does not print whole tensors."""
    def accuracy_of(logits, labels):
        return answer(logits, labels)

    return accuracy_of
