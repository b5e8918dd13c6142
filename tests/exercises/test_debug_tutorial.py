"""The tutorial with eight mistakes: each of them is told apart by what the listing does."""

import copy
import os
from pathlib import Path

import nbformat
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler

import cpump_kit as cp
from cpump_kit.machine import cores
from cpump_kit.running.run import runs_in_progress
from cpump_kit.teaching.checks import check

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "solutions" / "04_shared_memory.ipynb"
FAULTY, REPAIRED = (cell.source for cell in nbformat.read(LESSON, 4).cells if "def tutorial(" in cell.source)

SET_UP = "    optimizer = torch.optim"
# For each mistake, what it makes of the repaired listing: (a line, what stands there instead).
MISTAKES = {
    1: (SET_UP, "    model = copy.deepcopy(model)\n" + SET_UP),
    2: ("DistributedSampler(train_set, world_size, rank)", "DistributedSampler(train_set, 1, 0)"),
    3: ("        sampler.set_epoch(epoch)\n", ""),
    4: ("            optimizer.zero_grad()\n", ""),
    5: ("manual_seed(rank)", "manual_seed(0)"),
    6: ("set_num_threads(1)", "set_num_threads(os.cpu_count())"),
    7: ("    run.results ", "    run.state "),
    8: ("DataLoader(test_set, batch_size=16)",
        "DataLoader(test_set, batch_size=16, sampler=DistributedSampler(test_set, 2, 0, shuffle=False))"),
}
ONE_CORE = pytest.mark.skipif((os.cpu_count() or 1) == 1, reason="all cores are one")


def listing(text):
    """Its `tutorial`, as if its cell had been run in a notebook."""
    names = {"__name__": "__main__", "copy": copy, "os": os, "torch": torch, "F": F, "cp": cp,
             "DataLoader": DataLoader, "DistributedSampler": DistributedSampler}
    exec(text, names)
    return names["tutorial"]


def changed(number):
    old, new = MISTAKES[number]
    assert REPAIRED.count(old) == 1, old
    return REPAIRED.replace(old, new)


def findings(answer):
    found = check.debug_tutorial(answer).findings
    assert not runs_in_progress()
    return found


def failing(answer):
    """The numbers of the findings that do not hold, in order, and none other may be there."""
    found = findings(answer)
    assert [finding.says.partition(" ")[0] for finding in found] == [str(number) for number in MISTAKES], found
    return [number for number, finding in zip(MISTAKES, found) if not finding.holds]


@pytest.mark.parametrize("name, answer", [("debug_tutorial", listing(REPAIRED))])
def test_the_repaired_listing_is_accepted(name, answer):
    assert failing(answer) == []
    assert getattr(check, name)(answer)


@ONE_CORE
def test_the_unchanged_listing_has_all_eight():
    assert failing(listing(FAULTY)) == list(MISTAKES)


@pytest.mark.parametrize("number", [pytest.param(number, marks=ONE_CORE if number == 6 else ()) for number in MISTAKES])
def test_one_mistake_alone_is_told_by_its_number(number):
    assert failing(listing(changed(number))) == [number]


@pytest.mark.parametrize("number, old, new", [
    (2, "    sampler = DistributedSampler(train_set, world_size, rank)",
     "    train_set = torch.utils.data.Subset(train_set, range(40))\n"
     "    sampler = DistributedSampler(train_set, world_size, rank)"),  # some samples come to nobody
    (3, "DistributedSampler(train_set, world_size, rank)",
     "DistributedSampler(train_set, world_size, rank, shuffle=False)"),
    (5, "    torch.manual_seed(rank)\n", ""),  # every process starts with torch's own seed
    (7, "    run.results ", "    run.wait(0.05)"),
    (8, "DataLoader(test_set, batch_size=16)", "DataLoader(test_set, batch_size=16, drop_last=True)"),
])
def test_half_a_cure_is_none(number, old, new):
    assert REPAIRED.count(old) == 1
    assert failing(listing(REPAIRED.replace(old, new))) == [number]


@pytest.mark.parametrize("old, new", [
    ("            optimizer.zero_grad()\n            loss.backward()\n            optimizer.step()",
     "            loss.backward()\n            optimizer.step()\n            optimizer.zero_grad()"),
    ("set_num_threads(1)", f"set_num_threads({max(1, cores().usable // 2)})"),
    ("    torch.set_num_threads(1)\n", ""),  # the kit divides the cores itself
    ("manual_seed(rank)", "manual_seed(1000 * rank + 7)"),
    ("    sampler = DistributedSampler(train_set, world_size, rank)\n"
     "    loader = DataLoader(train_set, batch_size=16, sampler=sampler)\n",
     "    mine = torch.utils.data.Subset(train_set, range(rank, len(train_set), world_size))\n"
     "    loader = DataLoader(mine, batch_size=16, shuffle=True)\n"),
])
def test_another_cure_is_as_good(old, new):
    assert old in REPAIRED
    text = REPAIRED.replace(old, new)
    if "sampler" not in new and "sampler" in old:
        text = text.replace("        sampler.set_epoch(epoch)\n", "")
    if os.environ.get("OMP_NUM_THREADS") and not new:
        pytest.skip("OMP_NUM_THREADS gives the number of threads")
    assert failing(listing(text)) == []


def test_a_symptom_is_named_and_never_the_cure():
    words = " ".join(finding.says + finding.seen + finding.hint for finding in findings(listing(FAULTY)))
    cures = ["deepcopy", "DistributedSampler", "set_epoch", "zero_grad", "manual_seed", "set_num_threads", "results"]
    assert not [cure for cure in cures if cure in words]


@pytest.mark.parametrize("name, answer, said", [
    ("debug_tutorial", lambda *given: ..., "no process has trained"),
    ("debug_tutorial", listing(REPAIRED.replace("nprocs=2, show", "nprocs=1, show")), "only one process"),
    ("debug_tutorial", listing(REPAIRED.replace("model.train()", "raise ValueError('on purpose')")), "on purpose"),
    # Here nobody asks for the run's results.
    ("debug_tutorial", listing(FAULTY.replace("model.train()", "raise ValueError('on purpose')")), "on purpose"),
])
def test_what_does_not_train_in_parallel_is_not_done(name, answer, said):
    (finding,) = getattr(check, name)(answer).findings
    assert said in finding.seen and finding.hint and not finding.holds


def test_an_open_cell_gets_the_first_step():
    (finding,) = findings(lambda *given: ...)
    assert finding.hint.startswith("first, ")
