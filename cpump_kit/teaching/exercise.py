"""What an exercise is: what is asked, three hints, and the properties that an answer must have.

A check is a generator of findings. It looks at what an answer does, never at how it is written and never at its
speed, and it says what is amiss without giving the answer away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One property of an answer: whether it `holds`; if not, what was `seen` and a `hint`."""

    holds: bool
    says: str
    seen: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Exercise:
    name: str
    task: str
    first_step: str
    hints: tuple[str, str, str]
    check: Callable[[Callable], Iterator[Finding]]


class NotDone(Exception):
    """The answer is not finished: its text says what came so far."""


class Stumbled(Exception):
    """The answer raised an error: its text says which."""


EXERCISES: dict[str, Exercise] = {}


def exercise(first_step: str, hints: tuple[str, str, str]) -> Callable:
    """Enter a check under its function's name; the docstring is the task."""
    def enter(check: Callable) -> Callable:
        EXERCISES[check.__name__] = Exercise(check.__name__, check.__doc__, first_step, hints, check)
        return check
    return enter


def tried(answer: Callable, *arguments):
    """What the answer gives for the arguments. Raises NotDone for nothing and Stumbled for an error."""
    call = calling(answer, *arguments)
    try:
        value = answer(*arguments)
    except NotImplementedError:
        raise NotDone(f"{call} is not implemented") from None
    except Exception as error:
        raise Stumbled(f"{call} raised {type(error).__name__}: {error}") from None
    if value is None or value is ...:
        raise NotDone(f"{call} gives {'nothing' if value is None else '...'} so far")
    return value


def calling(answer: Callable, *arguments) -> str:
    return f"{getattr(answer, '__name__', 'your function')}({', '.join(map(repr, arguments))})"


def is_whole(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def for_all(says: str, hint: str, problems: list[str]) -> Finding:
    """The finding for a property that must hold in every case; the first problem is what was seen."""
    return Finding(not problems, says, problems[0] if problems else "", hint)
