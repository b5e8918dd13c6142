"""Lessons 01 to 06: every check accepts the solution, and says of each wrong answer what is wrong with it."""

import copy
import pickle
import time

import pytest
import torch

from cpump_kit.teaching.checks import check
from cpump_kit.teaching.exercises import synchronise


def findings(name, answer):
    return list(getattr(check, name)(answer).findings)


def accept(name, answer):
    found = findings(name, answer)
    assert found and all(finding.holds for finding in found), found


def refuse(name, answer, said):
    last = [finding for finding in findings(name, answer) if not finding.holds]
    assert last, f"{name} accepted a wrong answer"
    assert said in last[0].says + " " + last[0].seen, last[0]


def average(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


def speed(ends, size, skip):
    return (len(ends) - skip) * size / (ends[-1] - ends[skip - 1])


def law(n, serial):
    return 1 / (serial + (1 - serial) / n)


def fewest(speeds):
    return min(n for n, rate in speeds.items() if rate >= 0.95 * max(speeds.values()))


def picklable(value):
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def stretch(jobs, rank, size):
    return jobs[rank * len(jobs) // size:(rank + 1) * len(jobs) // size]


def same_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def in_place(model, lr):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=lr)


def anew(model, lr):
    for parameter in model.parameters():
        parameter.data = parameter.data - lr * parameter.grad


def uphill(model, lr):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=lr)


def twice(model, lr):
    in_place(model, lr)
    in_place(model, lr)


def locked(counter, lock, times):
    for _ in range(times):
        with lock:
            counter += 1


def once(counter, lock, times):
    with lock:
        counter += times - 1


def twice_locked(counter, lock, times):
    with lock:
        lock.acquire()


def mean_of_rows(mine, table, rank, barrier):
    table[rank] = mine
    barrier.wait()
    mean = table.mean(0)
    barrier.wait()
    return mean


def without_first(mine, table, rank, barrier):
    table[rank] = mine
    mean = table.mean(0)
    barrier.wait()
    return mean


def without_second(mine, table, rank, barrier):
    table[rank] = mine
    barrier.wait()
    time.sleep(0.001 * rank)
    return table.mean(0)


def a_sum(mine, table, rank, barrier):
    return 3 * mean_of_rows(mine, table, rank, barrier)


def rank_0_only(mine, table, rank, barrier):
    return mean_of_rows(mine, table, rank, barrier) if rank == 0 else mine


def numbered(seed, rank, worker, workers):
    return seed + rank * workers + worker


def divided(items, rank, size, worker, workers):
    return [item for i, item in enumerate(items) if i % (size * workers) == rank * workers + worker]


@pytest.mark.parametrize("name, answer", [
    ("accuracy", average), ("throughput", speed), ("amdahl", law), ("threads_that_pay", fewest),
    ("can_travel", picklable), ("block", stretch), ("shares_memory", same_storage), ("hogwild_step", in_place),
    ("count_up", locked), ("all_reduce", mean_of_rows), ("worker_seed", numbered), ("read_shard", divided)])
def test_the_solution_is_accepted_and_an_open_cell_is_not(name, answer):
    accept(name, answer)
    refuse(name, lambda *arguments: ..., "")
    assert all(hint for hint in (check.__getattr__(name).__doc__,))


@pytest.mark.parametrize("name, answer, said", [
    ("accuracy", lambda logits, labels: 100 * average(logits, labels), "from 0 to 1"),
    ("accuracy", lambda logits, labels: (logits.argmax(1) == labels).float().mean(), "a Python number"),
    ("accuracy", lambda logits, labels: float(logits.argmax(0)[0] == labels[0]), "the share of rows"),
    ("throughput", lambda ends, size, skip: len(ends) * size / ends[-1], "the warm-up"),
    ("throughput", lambda ends, size, skip: (len(ends) - skip) * size / ends[-1], "samples per second"),
    ("amdahl", lambda n, serial: n, "nothing is gained"),
    ("amdahl", lambda n, serial: 1 / (serial + (1 - serial) * n), "n threads are n times"),
    ("amdahl", lambda n, serial: n * (1 - serial) + serial, "in between"),
    ("threads_that_pay", lambda speeds: max(speeds, key=speeds.get), "no thread more"),
    ("threads_that_pay", min, "nearly as fast"),
    ("threads_that_pay", lambda speeds: max(speeds.values()), "one of the measured counts"),
    ("can_travel", lambda value: True, "False for what does not"),
    ("can_travel", lambda value: not callable(value), "True for what travels"),
    ("block", lambda jobs, rank, size: jobs[rank::size], "one after another"),
    ("block", lambda jobs, rank, size: jobs[rank * (len(jobs) // size):(rank + 1) * (len(jobs) // size)],
     "one after another"),
    ("block", lambda jobs, rank, size: jobs if rank == 0 else [], "two jobs more"),
    ("shares_memory", lambda a, b: a.data_ptr() == b.data_ptr(), "a slice"),
    ("shares_memory", lambda a, b: a.shape == b.shape and torch.equal(a, b), "True where they share memory"),
    ("shares_memory", lambda a, b: True, "True for a clone, a deep copy"),
    ("hogwild_step", anew, "stay where they were"), ("hogwild_step", uphill, "downhill"),
    ("hogwild_step", twice, "another size"), ("hogwild_step", lambda model, lr: copy.deepcopy(model), "as they were"),
    ("count_up", once, "39,998 are left"), ("count_up", lambda counter, lock, times: None, "still 0"),
    ("all_reduce", without_second, "the mean over all ranks"), ("all_reduce", without_first, "the mean over all ranks"),
    ("all_reduce", a_sum, "the mean over all ranks"), ("all_reduce", lambda *arguments: 3, "a tensor"),
    ("worker_seed", lambda seed, rank, worker, workers: seed + rank + worker, "no two workers"),
    ("worker_seed", lambda seed, rank, worker, workers: rank * workers + worker, "another training seed"),
    ("read_shard", lambda items, *numbers: list(items), "no item twice"),
    ("read_shard", lambda items, rank, size, worker, workers: [
        item for i, item in enumerate(items) if i % size == rank and i % workers == worker], "about equally much"),
    ("read_shard", lambda items, rank, size, worker, workers: [
        item for i, item in enumerate(items) if i % (size + workers) == rank + worker], "no item twice"),
    ("read_shard", lambda items, rank, size, worker, workers: [
        item for i, item in enumerate(items) if i % (size * workers) == rank], "no item twice"),
])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, said):
    refuse(name, answer, said)


@pytest.mark.parametrize("name, answer", [("count_up", twice_locked), ("all_reduce", rank_0_only)])
def test_an_answer_that_waits_for_ever_ends(monkeypatch, name, answer):
    monkeypatch.setattr(synchronise, "PATIENCE", 4)
    refuse(name, answer, "it ends in")
