"""Lesson 12: the checks accept the solution and say of a wrong answer what is wrong with it."""

import pytest
import torch

from cpump_kit.teaching.checks import check


def last_of(name, answer):
    return [finding for finding in getattr(check, name)(answer).findings if not finding.holds]


def windows(tokens, length, starts):
    places = starts[:, None] + torch.arange(length)
    return tokens[places], tokens[places + 1]


def cut(tokens, length, starts):
    """The same with a loop."""
    inputs = [tokens[start:start + length] for start in starts]
    targets = [tokens[start + 1:start + 1 + length] for start in starts]
    return torch.stack(inputs), torch.stack(targets)


def time_to_loss(history, goal, over=10, first=10):
    records = [(record["time"], record["loss"]) for record in history if "loss" in record]
    for end in range(first, len(records) + 1):
        last = records[max(0, end - over):end]
        if sum(loss for _, loss in last) / len(last) < goal:
            return records[end - 1][0]
    return float("inf")


def mean_so_far(history, goal):
    return time_to_loss(history, goal, over=10**6)



@pytest.mark.parametrize("name, answer", [("windows", windows), ("windows", cut), ("time_to_loss", time_to_loss)])
def test_the_solution_is_accepted(name, answer):
    assert last_of(name, answer) == []


@pytest.mark.parametrize("name", ["windows", "time_to_loss"])
@pytest.mark.parametrize("nothing", [lambda *arguments: ..., lambda *arguments: None])
def test_an_open_cell_is_told_where_to_begin(name, nothing):
    assert last_of(name, nothing)[0].hint.startswith("first, ")


@pytest.mark.parametrize("name, answer, said", [
    ("windows", lambda tokens, length, starts: windows(tokens, length, starts)[0], "two tensors"),
    ("windows", lambda tokens, length, starts: (windows(tokens, length, starts)[0],) * 2, "the letter after its input"),
    ("windows", lambda tokens, length, starts: windows(tokens, length, starts)[::-1], "begin at the starts"),
    ("windows", lambda tokens, length, starts: windows(tokens, length - 1, starts), "with `length` letters"),
    ("windows", lambda tokens, length, starts: windows(tokens, length, starts[:1]), "a row for each start"),
    ("windows", lambda tokens, length, starts: (windows(tokens, length, starts)[0], tokens[starts]), "in both"),
    ("windows", lambda tokens, length, starts: windows(tokens, length, torch.zeros_like(starts)), "begin at"),
    ("time_to_loss", lambda history, goal: time_to_loss(history, goal, over=1), "lucky batch"),
    ("time_to_loss", lambda history, goal: time_to_loss(history, goal, first=1), "nine losses"),
    ("time_to_loss", mean_so_far, "lucky batch"),
    ("time_to_loss", lambda history, goal: time_to_loss(history, goal) - 2, "lucky batch"),
    ("time_to_loss", lambda history, goal: min(1e9, time_to_loss(history, goal)), "never reached"),
    ("time_to_loss", lambda history, goal: time_to_loss(history, goal, first=11), "also if the loss rises again"),
    ("time_to_loss", lambda history, goal: sum(record["loss"] for record in history), "never reached"),
])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, said):
    assert said in last_of(name, answer)[0].says


def test_a_record_without_a_loss_is_an_error_that_is_named():
    def careless(history, goal):
        return time_to_loss([{"loss": record["loss"], **record} for record in history], goal)

    assert "KeyError" in last_of("time_to_loss", careless)[-1].seen
