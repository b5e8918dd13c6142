"""Exercises of lesson 12, the capstone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..exercise import Finding, exercise, for_all, tried


@exercise(
    first_step="write down by hand: the letters are 10, 11, 12, 13, 14, the length is 3, and one window starts at 1",
    hints=("A window of inputs has `length` letters, from its start on. Its targets begin one letter later.",
           "tokens[start:start + length] are the inputs of one window; torch.stack makes one tensor of several.",
           "Without a loop: starts[:, None] + torch.arange(length) has the place of each input; add 1 for targets."))
def windows(answer: Callable) -> Iterator[Finding]:
    """windows(tokens, length, starts): the inputs and the targets of the windows of `length` letters at `starts`."""
    import torch

    tokens, starts = torch.arange(100, 130), torch.tensor([0, 7, 7, 21])
    cases = [(tokens, 5, starts), (tokens, 8, torch.tensor([3])), (tokens, 29, torch.tensor([0]))]
    words = [f"with a length of {length} and starts {where.tolist()}" for _, length, where in cases]
    given = [tried(answer, *case) for case in cases]
    odd = [f"{said} it gave {_shape(value)}" for said, value in zip(words, given) if not _is_pair(value, torch)]
    yield for_all("two tensors, the inputs and the targets", "return inputs, targets", odd)
    if odd:
        return
    sizes = [(len(where), length) for _, length, where in cases]
    odd = [f"{said} the shapes are {_shape(value)}, and not {size} for both"
           for said, value, size in zip(words, given, sizes) if {tuple(part.shape) for part in value} != {size}]
    yield for_all("a row for each start, with `length` letters, in both", "stack the windows", odd)
    if odd:
        return
    yield for_all("the inputs begin at the starts", "the letter at the start is the first input", [
        f"{said} the first inputs are {inputs[:, 0].tolist()}, for letters that begin with 100, 101, 102"
        for said, (inputs, _), case in zip(words, given, cases) if not torch.equal(inputs, _rows(*case))])
    yield for_all("each target is the letter after its input", "what does the model have to guess at each place?", [
        f"{said} the first inputs are {inputs[0, :3].tolist()} and their targets {targets[0, :3].tolist()}"
        for said, (inputs, targets), (text, length, where) in zip(words, given, cases)
        if not torch.equal(targets, _rows(text, length, where + 1))])


def _rows(tokens, length: int, starts):
    return tokens.unfold(0, length, 1)[starts]


def _is_pair(value, torch) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(p, torch.Tensor) for p in value)


def _shape(value) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_shape(part) for part in value)})"
    return str(tuple(value.shape)) if hasattr(value, "shape") else f"{type(value).__name__}"


@exercise(
    first_step="look at the first ten losses: when is their mean known, and at whose time?",
    hints=("Go through the places from the tenth record on. The mean there is that of this record and the nine before.",
           "sum(loss for _, loss in records[end - 10:end]) / 10 is the mean of the ten records before place `end`.",
           "Return the time of record end - 1 at the first mean under the goal, and float('inf') after the loop."))
def time_to_loss(answer: Callable) -> Iterator[Finding]:
    """time_to_loss(history, goal): the first time at which the mean of the last ten losses is under the goal."""
    falling = _history([4 - 0.1 * step for step in range(40)])
    lucky = _history([3.0] * 12 + [0.1] + [3.0] * 12 + [1.5] * 15)  # one batch that was easy
    rising = _history([1.0] * 12 + [5.0] * 12)
    short = _history([1.0] * 9)
    tests = [dict(record) for record in falling]
    tests[20:20] = [{"rank": 0, "step": 20, "time": tests[20]["time"] - 0.1, "held_out": 0.5}]

    def seconds(history: list[dict], goal: float) -> float:
        value = tried(answer, history, goal)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else float("nan")

    late = seconds(falling, -9.0)
    yield for_all("float('inf') for a goal that was never reached", "never is later than any time", [
        f"a loss that falls to 0.1 reached -9 after {late} s"] if late != float("inf") else [])
    yield _time("a single lucky batch does not count", "take the mean of ten losses", seconds(lucky, 2.0), lucky, 2.0)
    few = seconds(short, 2.0)
    yield for_all("nine losses are no mean of ten", "begin with the tenth record", [
        f"with nine losses of 1 the goal of 2 was reached after {few} s"] if few != float("inf") else [])
    yield _time("the time of the record that completes the ten", "the mean is known when its last loss is",
                seconds(falling, 2.0), falling, 2.0)
    yield _time("the first time, also if the loss rises again", "return at once", seconds(rising, 2.0), rising, 2.0)
    yield _time("records without a loss are passed over", "keep those that have one", seconds(tests, 2.0), tests, 2.0)


def _history(losses: list[float]) -> list[dict]:
    """Records of one rank as `run.history` has them; the first came after 2 seconds."""
    return [{"rank": 0, "step": step, "time": 2 + 0.5 * step, "loss": loss} for step, loss in enumerate(losses)]


def _time(says: str, hint: str, given: float, history: list[dict], goal: float) -> Finding:
    records = [record for record in history if "loss" in record]
    ends = [end for end in range(10, len(records) + 1)
            if sum(record["loss"] for record in records[end - 10:end]) / 10 < goal]
    wanted = records[ends[0] - 1]["time"]
    return for_all(says, hint, [] if abs(given - wanted) < 1e-6 else [
        f"{len(records)} losses from {history[0]['loss']:g} to {history[-1]['loss']:g}, one in each half second from "
        f"2 s on, goal {goal:g}: it gave {given:g} s"])
