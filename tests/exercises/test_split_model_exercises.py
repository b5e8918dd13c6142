"""Lesson 09: the checks accept the solution and say of a wrong answer what is wrong with it."""

import pytest

from cpump_kit.teaching.checks import check


def last_of(name, answer):
    return [finding for finding in getattr(check, name)(answer).findings if not finding.holds]


def share(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)


def rows(weight, rank, world_size):
    return weight.chunk(world_size)[rank]


@pytest.mark.parametrize("name, answer", [("bubble", share), ("weight_shard", rows)])
def test_the_solution_is_accepted_and_an_open_cell_is_not(name, answer):
    assert last_of(name, answer) == []
    assert last_of(name, lambda *arguments: ...)[0].hint.startswith("first, ")


@pytest.mark.parametrize("name, answer, said", [
    ("bubble", lambda stages, microbatches: stages - 1, "a share"),
    ("bubble", lambda stages, microbatches: stages / (microbatches + stages), "one stage alone"),
    ("bubble", lambda stages, microbatches: (stages - 1) / (microbatches + stages), "without micro-batches"),
    ("bubble", lambda stages, microbatches: (stages - 1) / stages, "it shrinks"),
    ("weight_shard", lambda weight, rank, world_size: 3, "a matrix"),
    ("weight_shard", lambda weight, rank, world_size: weight.chunk(world_size, 1)[rank], "all inputs"),
    ("weight_shard", lambda weight, rank, world_size: weight, "half of the outputs"),
    ("weight_shard", lambda weight, rank, world_size: weight[rank::world_size], "side by side"),
])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, said):
    assert said in last_of(name, answer)[0].says
