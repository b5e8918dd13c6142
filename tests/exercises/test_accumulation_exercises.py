"""Lesson 08: the checks accept the solution and say of a wrong answer what is wrong with it."""

import pytest

from cpump_kit.teaching.checks import check


def last_of(name, answer):
    return [finding for finding in getattr(check, name)(answer).findings if not finding.holds]


def sizes(samples, batch_size, window):
    full = window * batch_size
    return [min(start + full, samples) - start for start in range(0, samples, full)]


def ends(number, batches, window):
    return (number + 1) % window == 0 or number == batches - 1


@pytest.mark.parametrize("name, answer", [("window_sizes", sizes), ("ends_window", ends)])
def test_the_solution_is_accepted_and_an_open_cell_is_not(name, answer):
    assert last_of(name, answer) == [] and last_of(name, lambda *arguments: ...)


@pytest.mark.parametrize("name, answer, said", [
    ("window_sizes", lambda samples, size, window: [size * window] * (samples // (size * window)), "all samples"),
    ("window_sizes", lambda samples, size, window: [samples], "every window but the last"),
    ("window_sizes", lambda samples, size, window: samples // (size * window), "a list"),
    ("ends_window", lambda number, batches, window: (number + 1) % window == 0, "the last, short window"),
    ("ends_window", lambda number, batches, window: number % window == 0, "each full window"),
    ("ends_window", lambda number, batches, window: True, "no other batch"),
])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, said):
    assert said in last_of(name, answer)[0].says
