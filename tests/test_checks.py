"""Every check accepts the right answer, rejects the unsolved one and plausible wrong ones, and never raises."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import cpump_kit as cp
from cpump_kit.teaching import checks
from cpump_kit.teaching.exercises import EXERCISES, ddp


@pytest.fixture
def shown(monkeypatch):
    """The (text, html) of each display."""
    displayed = []
    monkeypatch.setattr(checks, "show_both", lambda text, page: displayed.append((text, page)))
    monkeypatch.setattr(checks, "_hints_given", {})
    return displayed


def per_rank(global_batch, world_size):
    if global_batch % world_size:
        raise ValueError(f"{global_batch} samples cannot be divided among {world_size} ranks")
    return global_batch // world_size


def asserting(global_batch, world_size):
    assert global_batch % world_size == 0
    return global_batch // world_size


def rounded_up(order, rank, world_size):
    size = -(-len(order) // world_size)
    return order[rank * size:(rank + 1) * size]


def padded(order, rank, world_size):
    order = order + order[:-len(order) % world_size]
    return order[rank::world_size]


def without_the_rest(order, rank, world_size):
    size = len(order) // world_size
    return order[rank * size:(rank + 1) * size]


def balanced_blocks(order, rank, world_size):
    return order[rank * len(order) // world_size:(rank + 1) * len(order) // world_size]


# Functions that workers get: nested, so that they travel by value as a notebook's functions do.
def averaging():
    def average(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    def average_at_once(model):
        gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(gradients, op=dist.ReduceOp.SUM)
        torch.nn.utils.vector_to_parameters(gradients / dist.get_world_size(),
                                            [parameter.grad for parameter in model.parameters()])

    return average, average_at_once


def not_averaging():
    def only_sum(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    def only_divide(model):
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()

    def only_first(model):
        parameter = next(model.parameters())
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    def weights_instead(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data += 1

    def rank_0_gives_its_own(model):
        for parameter in model.parameters():
            dist.broadcast(parameter.grad, src=0)

    def raises(model):
        model.no_such_thing()

    def new_tensor(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad / dist.get_world_size())

    def removes(model):
        model.zero_grad()

    return only_sum, only_divide, only_first, weights_instead, rank_0_gives_its_own, raises, new_tensor, removes


RIGHT = [
    ("threads_per_worker", lambda cores, nprocs: max(1, cores // nprocs)),
    ("threads_per_worker", lambda cores, nprocs: cores // nprocs or 1),
    ("global_batch", per_rank),
    ("shard", lambda order, rank, world_size: order[rank::world_size]),
    ("shard", lambda order, rank, world_size: [order[i] for i in range(rank, len(order), world_size)]),
    ("shard", lambda order, rank, world_size: torch.tensor(order)[rank::world_size]),
    ("shard", balanced_blocks),
    *(("average_gradients", answer) for answer in averaging())]

WRONG = [
    *(("threads_per_worker", answer) for answer in (
        lambda cores, nprocs: cores // nprocs, lambda cores, nprocs: cores / nprocs, lambda cores, nprocs: cores,
        lambda cores, nprocs: 1, lambda cores, nprocs: max(1, round(cores / nprocs)),
        lambda cores, nprocs: max(1, -(-cores // nprocs)), lambda cores, nprocs: min(cores, nprocs),
        lambda cores: 1, lambda cores, nprocs: "1", lambda cores, nprocs: True, lambda cores, nprocs: 1 / 0)),
    *(("global_batch", answer) for answer in (
        lambda batch, size: batch // size, lambda batch, size: batch / size, lambda batch, size: batch,
        lambda batch, size: batch * size, asserting, lambda batch, size: max(1, batch // size),
        lambda batch, size: [batch], lambda: 1)),
    *(("shard", answer) for answer in (
        lambda order, rank, size: order[:len(order) // size], lambda order, rank, size: order,
        lambda order, rank, size: list(range(rank, len(order), size)), lambda order, rank, size: [],
        lambda order, rank, size: sorted(order)[rank::size], lambda order, rank, size: order[size::rank + 1],
        padded, without_the_rest, rounded_up, lambda order, rank, size: rank, lambda order, rank, size: "abc",
        lambda order, rank, size: [None], lambda order, rank, size: [[1]])),
    *(("average_gradients", answer) for answer in not_averaging())]

UNSOLVED = [lambda *arguments: None, lambda *arguments: ...]


def name_of(value):
    return value if isinstance(value, str) else None


@pytest.mark.parametrize("name, answer", RIGHT, ids=name_of)
def test_a_right_answer_is_accepted(name, answer, shown):
    result = getattr(cp.check, name)(answer)
    assert result, shown[0][0]
    assert "all right" in shown[0][0] and "not yet" not in shown[0][0]


@pytest.mark.parametrize("name, answer", WRONG, ids=name_of)
def test_a_wrong_answer_is_rejected_with_what_was_seen_and_a_hint(name, answer, shown):
    result = getattr(cp.check, name)(answer)
    assert not result
    assert "seen: " in shown[0][0] and "hint: " in shown[0][0] and "not yet" in shown[0][0]


@pytest.mark.parametrize("name", sorted(EXERCISES))
def test_every_exercise_has_a_right_and_two_wrong_answers_in_some_test(name):
    elsewhere = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("exercises/*.py"))
    assert sum(name == other for other, _ in [*RIGHT, *WRONG]) + elsewhere.count(f'("{name}", ') >= 3


@pytest.mark.parametrize("name", sorted(EXERCISES))
@pytest.mark.parametrize("answer", [None, ..., *UNSOLVED])
def test_the_unsolved_exercise_is_not_done_and_gets_the_first_step(name, answer, shown):
    result = getattr(cp.check, name)(answer)
    assert not result
    assert "not yet done" in shown[0][0] and f"first, {EXERCISES[name].first_step}" in shown[0][0]


def test_not_implemented_is_unsolved(shown):
    def share(usable_cores, nprocs):
        raise NotImplementedError

    assert not cp.check.threads_per_worker(share)
    assert "share(2, 1) is not implemented" in shown[0][0]


@pytest.mark.parametrize("answer", [3, "text", [1], object()])
def test_an_answer_that_is_no_function_is_explained(answer, shown):
    assert not cp.check.shard(answer)
    assert "the function itself: cp.check.shard(your_function)" in shown[0][0]


def test_a_rank_left_alone_is_explained(shown, monkeypatch):
    def only_rank_0(model):
        if dist.get_rank() == 0:
            dist.all_reduce(next(model.parameters()).grad)

    monkeypatch.setattr(ddp, "PATIENCE", 3)
    assert not cp.check.average_gradients(only_rank_0)
    assert "waited 3 s for the other in vain" in shown[0][0] and "take part in every all_reduce" in shown[0][0]


def test_a_sum_is_named_as_one(shown):
    only_sum = not_averaging()[0]
    assert not cp.check.average_gradients(only_sum)
    assert "2 times as large" in shown[0][0]


def test_a_check_never_raises(shown, monkeypatch):
    class Strange(int):
        __mul__ = __rmul__ = property(lambda self: 1 / 0)

    for name in EXERCISES:
        if name != "average_gradients":
            assert not getattr(cp.check, name)(lambda *arguments: Strange(1))


def test_the_answer_may_change_the_list_it_gets(shown):
    def shard(order, rank, world_size):
        mine = order[rank::world_size]
        order.clear()
        return mine

    assert cp.check.shard(shard)


def test_text_is_escaped(shown):
    def share(usable_cores, nprocs):
        return "<script>alert(1)</script>"

    cp.check.threads_per_worker(share)
    assert "<script>" not in shown[0][1] and "&lt;script&gt;" in shown[0][1]


def test_signs_and_words_accompany_the_colours(shown):
    cp.check.threads_per_worker(lambda cores, nprocs: cores // nprocs)
    assert "✓ right" in shown[0][1] and "✗ not yet" in shown[0][1] and "dashed" in shown[0][1]


def test_on_a_terminal_it_prints_plain_text(capsys):
    cp.check.threads_per_worker(None)
    said = capsys.readouterr().out
    assert "threads_per_worker: not yet done" in said and "<" not in said and said.isascii()


def test_hints_come_one_by_one_and_the_last_stays(shown):
    for _ in range(4):
        cp.hint("shard")
    cp.hint("global_batch")
    texts = [text for text, _ in shown]
    assert [text[:11] for text in texts] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "Hint 3 of 3", "Hint 1 of 3"]
    assert all(any(hint in text for text in texts) for hint in EXERCISES["shard"].hints)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=list(EXERCISES))
def test_every_exercise_is_complete(exercise):
    assert len(exercise.hints) == 3 and all(exercise.hints) and exercise.first_step and exercise.task
    assert getattr(cp.check, exercise.name).__doc__.startswith("Check your ")


def test_an_unknown_name_is_one_sentence_with_the_nearest():
    with pytest.raises(AttributeError, match="there is no exercise 'shrad'; did you mean 'shard'?"):
        cp.check.shrad(None)
    with pytest.raises(AttributeError, match="there is no exercise 'qqq'; there are accuracy, "):
        cp.hint("qqq")
    assert "shard" in dir(cp.check) and "shard" in repr(cp.check)
