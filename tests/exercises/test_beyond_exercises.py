"""Lesson 11: the checks accept the solution and say of a wrong answer what is wrong with it."""

from pathlib import Path

import pytest
import torch

from cpump_kit.teaching.checks import check


def last_of(name, answer):
    return [finding for finding in getattr(check, name)(answer).findings if not finding.holds]


def ring(size, hosts):
    return 2 * (hosts - 1) / hosts * size


def go_on(path, model, optimizer, parts=("model", "optimizer"), plus=0):
    if not Path(path).exists():
        return 0
    kept = torch.load(path)
    for part, target in (("model", model), ("optimizer", optimizer)):
        if part in parts:
            target.load_state_dict(kept[part])
    return kept["epoch"] + plus


@pytest.mark.parametrize("name, answer", [("ring_bytes", ring), ("resume", go_on)])
def test_the_solution_is_accepted_and_an_open_cell_is_not(name, answer):
    assert last_of(name, answer) == []
    assert last_of(name, lambda *arguments: ...)[0].hint.startswith("first, ")


@pytest.mark.parametrize("name, answer, said", [
    ("ring_bytes", lambda size, hosts: "much", "a number of bytes"),
    ("ring_bytes", lambda size, hosts: size, "one host alone"),
    ("ring_bytes", lambda size, hosts: 2 * (hosts - 1) * size, "two hosts send"),
    ("ring_bytes", lambda size, hosts: (hosts - 1) / hosts * size, "two hosts send"),
    ("ring_bytes", lambda size, hosts: (hosts - 1) * size, "never twice"),
    ("resume", lambda path, model, optimizer: torch.load(path)["epoch"], "without an error"),
    ("resume", lambda path, model, optimizer: 1, "begins with epoch 0"),
    ("resume", lambda path, *rest: go_on(path, *rest, parts=("optimizer",)), "the weights that were kept"),
    ("resume", lambda path, *rest: go_on(path, *rest, parts=("model",)), "its momentum"),
    ("resume", lambda path, *rest: go_on(path, *rest, plus=1), "not yet done"),
    ("resume", lambda path, *rest: go_on(path, *rest, plus=-1), "not yet done"),
])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, said):
    assert said in last_of(name, answer)[0].says
