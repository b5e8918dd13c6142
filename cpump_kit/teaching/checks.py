"""`check` and `hint`: an exercise's properties one by one, and its hints, in the notebook."""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import CpumpError
from ..notebook import show_both
from .exercise import Exercise, Finding, NotDone, Stumbled
from .exercises import EXERCISES
from .passed import keep_passed

_hints_given: dict[str, int] = {}  # by exercise, in this kernel


class UnknownExercise(CpumpError, AttributeError):
    """There is no exercise of that name."""


@dataclass(frozen=True)
class Result:
    """What a check found; true if the answer has every property."""

    exercise: str
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return bool(self.findings) and all(finding.holds for finding in self.findings)

    def _ipython_display_(self) -> None:
        """Nothing: the check has shown it already, and a cell would show its last value once more."""


class _Checks:
    """`check.NAME(answer)` for each exercise."""

    def __getattr__(self, name: str) -> Callable[[object], Result]:
        if name.startswith("_"):  # asked by IPython and pickle, for example
            raise AttributeError(name)
        found = _find(name)

        def check(answer) -> Result:
            result = Result(found.name, tuple(_findings(found, answer)))
            _show(found, result)
            if result:
                keep_passed(found.name)
            return result

        check.__name__, check.__doc__ = found.name, f"Check your {found.task}"
        return check

    def __dir__(self) -> list[str]:
        return sorted(EXERCISES)

    def __repr__(self) -> str:
        return f"checks: {', '.join(dir(self))}"


check = _Checks()


def hint(name: str) -> None:
    """Show the next of the three hints of an exercise. Raises UnknownExercise."""
    found = _find(name)
    number = min(_hints_given.get(name, 0) + 1, len(found.hints))
    _hints_given[name] = number
    last = " There are no more; try it, and let the check look." if number == len(found.hints) else ""
    text = f"Hint {number} of {len(found.hints)}: {found.hints[number - 1]}{last}"
    show_both(text, f"<p>{html.escape(text)}</p>")


def _find(name: str) -> Exercise:
    if name in EXERCISES:
        return EXERCISES[name]
    near = difflib.get_close_matches(str(name), EXERCISES, n=1)
    rest = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(EXERCISES))}"
    raise UnknownExercise(f"there is no exercise {name!r}; {rest}")


def _findings(exercise: Exercise, answer) -> list[Finding]:
    """The findings, of which the last says why there are no more if the answer is not done or failed."""
    found = []
    try:
        if answer is None or answer is ...:
            raise NotDone("there is no answer yet")
        if not callable(answer):
            says = f"the answer is the function itself: cp.check.{exercise.name}(your_function), without a call of it"
            return [Finding(False, says, f"it got {answer!r}"[:200])]
        found += exercise.check(answer)
    except NotDone as so_far:
        found.append(Finding(False, "the answer is complete", str(so_far), f"first, {exercise.first_step}"))
    except Stumbled as error:
        found.append(Finding(False, "it runs without an error", str(error), "look at that line first"))
    except Exception as error:  # an answer that no check has thought of must not stop the notebook
        found.append(Finding(False, "it can be checked", f"{type(error).__name__}: {error}",
                             f"the task is {exercise.task}"))
    return found


def _show(exercise: Exercise, result: Result) -> None:
    if result:
        head = f"{exercise.name}: all right"
    else:
        right = sum(finding.holds for finding in result.findings)
        head = f"{exercise.name}: not yet done" + (f", {right} right so far" if right else "")
    text, rows = [head], [f"<b>{html.escape(head)}</b>"]
    for finding in result.findings:
        text.append(f"  {'right' if finding.holds else 'not yet'}: {finding.says}")
        details = [] if finding.holds else [f"seen: {finding.seen}", f"hint: {finding.hint}"]
        details = [detail for detail in details if not detail.endswith(": ")]
        text += [f"    {detail}" for detail in details]
        rows.append(_row(finding, details))
    if not result:
        call = f'cp.hint("{exercise.name}")'
        text.append(f"  {call} gives a hint")
        rows.append(f"<code>{html.escape(call)}</code> gives a hint")
    show_both("\n".join(text), f'<div style="line-height: 1.5">{"".join(rows)}</div>')


def _row(finding: Finding, details: list[str]) -> str:
    """A solid bar, a sign and a word for what is right, a dashed bar, a sign and a word for what is not."""
    bar, word = ("4px solid #009E73", "✓ right") if finding.holds else ("4px dashed #D55E00", "✗ not yet")
    inside = "".join(f'<br><span style="margin-left: 6em">{html.escape(detail)}</span>' for detail in details)
    return (f'<div style="border-left: {bar}; padding-left: 0.7em; margin: 0.2em 0">'
            f'<b style="display: inline-block; width: 6em">{word}</b>{html.escape(finding.says)}{inside}</div>')
