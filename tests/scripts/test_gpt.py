"""The capstone's GPT: it looks at no later letter, and trains the same model however its work is divided."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"
SMALL = dict(steps=4, every=2, batch_size=4, length=16)


def trained(nprocs=2, **arguments):
    return cp.launch(SCRIPTS / "gpt.py", nprocs, threads=1, show=False, **{**SMALL, **arguments}).results


@pytest.fixture
def tiny_gpt(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    import tiny_gpt

    yield tiny_gpt
    del sys.modules["tiny_gpt"]


def test_the_book_is_a_text_of_its_size():
    book = cp.text()
    assert book.startswith("CHAPTER I\n") and 140_000 < len(book) < 150_000 and book.isascii()


def test_a_letter_changes_no_logits_before_it(tiny_gpt):
    torch.manual_seed(0)
    model = tiny_gpt.GPT(list("abc"), length=8)
    one, other = torch.tensor([[0, 1, 2, 0, 1]]), torch.tensor([[0, 1, 2, 2, 1]])
    differ = (model(one) - model(other)).abs().amax(-1)[0] > 0
    assert differ.tolist() == [False, False, False, True, True]


def test_it_has_about_a_million_parameters_and_begins_with_a_guess(tiny_gpt):
    letters = sorted(set(cp.text()))
    model = tiny_gpt.GPT(letters, length=64)
    assert 0.9e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.1e6
    pieces = torch.randint(len(letters), (4, 65))
    assert tiny_gpt.loss_of(model, pieces).item() == pytest.approx(math.log(len(letters)), rel=0.1)
    assert tiny_gpt.write(model, "Alice", 10).startswith("Alice") and len(tiny_gpt.write(model, "Alice", 10)) == 15


def test_the_replicas_stay_equal_and_learn():
    first, second = trained(steps=40, every=40)
    assert torch.equal(first["weights"], second["weights"])
    assert first["held_out"] == second["held_out"] < 3.6  # log(65), a mere guess, is 4.17


OTHERWISE = [dict(batch_size=2, window=2), dict(shared_memory=True), dict(nprocs=1, batch_size=8)]


@pytest.mark.parametrize("other", OTHERWISE)
def test_divided_otherwise_it_is_the_same_training(other):
    usual, divided = trained()[0], trained(**other)[0]
    assert divided["held_out"] == pytest.approx(usual["held_out"], abs=1e-3)
    assert usual["held_out"] != pytest.approx(trained(batch_size=2)[0]["held_out"], abs=1e-3)  # it could fail


def test_resumed_it_goes_on_as_if_nothing_had_been(tmp_path):
    path = str(tmp_path / "gpt.pt")
    assert trained(steps=2, checkpoint=path)[0]["steps"] == 2
    resumed, whole = trained(checkpoint=path)[0], trained()[0]
    assert resumed["steps"] == 4
    assert torch.allclose(resumed["weights"], whole["weights"], atol=1e-5)


def test_it_stops_at_the_goal():
    assert trained(goal=4.5)[0]["steps"] == 2


def test_torchrun_gives_what_launch_gives():
    options = [str(part) for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPTS / "gpt.py",
         *options], capture_output=True, text=True, timeout=200,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1]), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    said = float(re.search(r"'held_out': ([\d.]+)", done.stdout)[1])
    assert said == pytest.approx(trained()[0]["held_out"], abs=1e-6)
