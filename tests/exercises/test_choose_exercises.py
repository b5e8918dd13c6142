"""The checks of lesson 10: right answers pass, and each usual mistake is seen for what it is."""

import math

import pytest

from cpump_kit.teaching.checks import check


def last_of(name, answer):
    return [finding for finding in getattr(check, name)(answer).findings if not finding.holds]


def right_choose(speedups, allowed):
    bar = 0.9 * max(speedup for name, speedup in speedups.items() if name in allowed)
    return next(name for name, speedup in speedups.items() if name in allowed and speedup >= bar)


def right_break_even(start_a, rate_a, start_b, rate_b):
    if start_b <= start_a:
        return 0.0
    if rate_b <= rate_a:
        return float("inf")
    return (start_b - start_a) / (1 / rate_a - 1 / rate_b)


def forgets_what_is_allowed(speedups, allowed):
    return right_choose(speedups, set(speedups))


def the_fastest(speedups, allowed):
    return max(allowed, key=lambda name: speedups[name])


def the_first(speedups, allowed):
    return next(name for name in speedups if name in allowed)


def the_bar_is_that_of_all(speedups, allowed):
    bar = 0.9 * max(speedups.values())
    return next((name for name, speedup in speedups.items() if name in allowed and speedup >= bar), "none")


def never_infinite(start_a, rate_a, start_b, rate_b):
    return 0.0 if start_b <= start_a else abs((start_b - start_a) / (1 / rate_a - 1 / rate_b + 1e-12))


def rates_upside_down(start_a, rate_a, start_b, rate_b):
    if start_b <= start_a:
        return 0.0
    return (start_b - start_a) * (rate_b - rate_a) if rate_b > rate_a else math.inf


def starts_forgotten(start_a, rate_a, start_b, rate_b):
    return 0.0 if rate_b > rate_a else math.inf


@pytest.mark.parametrize("name, answer", [("choose", right_choose), ("break_even", right_break_even)])
def test_a_right_answer_is_accepted_and_an_open_cell_is_not(name, answer):
    assert last_of(name, answer) == []
    assert last_of(name, lambda *arguments: ...)[0].hint.startswith("first, ")


@pytest.mark.parametrize("name, answer, said", [
    ("choose", forgets_what_is_allowed, "one of the allowed names"),
    ("choose", the_bar_is_that_of_all, "one of the allowed names"),
    ("choose", the_first, "never one that is clearly slower"),
    ("choose", the_fastest, "the simplest of those that are fast enough"),
    ("break_even", never_infinite, "float('inf') where it is never ahead"),
    ("break_even", rates_upside_down, "for so many samples both take equally long"),
    ("break_even", starts_forgotten, "for so many samples both take equally long"),
    ("break_even", lambda *numbers: True, "a number of samples"),
])
def test_a_mistake_is_named(name, answer, said):
    assert any(said in finding.says for finding in last_of(name, answer))
