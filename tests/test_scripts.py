"""The lesson scripts: DDP equals one process, replicas stay equal, and every start gives the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cpump_kit as cp

SCRIPTS = Path(__file__).parent.parent / "notebooks" / "scripts"
SMALL = {"epochs": 1, "lr": 0.01}


def results(script: str, nprocs: int, **arguments) -> list[dict]:
    return cp.launch(SCRIPTS / script, nprocs, threads=1, show=False, **arguments).results


@pytest.mark.parametrize("samples", [512, 600, 1000])  # a last batch that is full, short, and shorter for each rank
def test_ddp_equals_one_process_with_the_global_batch(samples):
    (single,) = results("single.py", 1, batch_size=128, samples=samples, **SMALL)
    first, second = results("ddp.py", 2, batch_size=64, samples=samples, **SMALL)
    assert torch.equal(first["weights"], second["weights"])
    assert torch.allclose(first["weights"], single["weights"], atol=1e-5)
    assert first["accuracy"] == second["accuracy"] == pytest.approx(single["accuracy"])


def test_three_ranks_equal_one_process():
    (single,) = results("single.py", 1, batch_size=96, samples=300, **SMALL)
    ranks = results("ddp.py", 3, batch_size=32, samples=300, **SMALL)
    for rank in ranks:
        assert torch.equal(rank["weights"], ranks[0]["weights"])
        assert torch.allclose(rank["weights"], single["weights"], atol=1e-5)
        assert rank["accuracy"] == pytest.approx(single["accuracy"])


def test_another_batch_gives_other_weights():
    """So that the tests above can fail."""
    (single,) = results("single.py", 1, batch_size=64, samples=512, **SMALL)
    ddp = results("ddp.py", 2, batch_size=64, samples=512, **SMALL)[0]
    assert not torch.allclose(ddp["weights"], single["weights"], atol=1e-5)


def test_the_reports_count_every_sample_once_an_epoch():
    run = cp.launch(SCRIPTS / "ddp.py", 2, threads=1, show=False, samples=500, epochs=2)
    run.wait()
    assert run.samples == 1000
    assert [(rank.samples, rank.total) for rank in run.ranks] == [(500, 500), (500, 500)]


def program(*command) -> str:
    """What a program prints that has the kit on its path, as in any installation."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment,
                          timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torchrun_gives_what_launch_gives():
    said = program("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 1, SCRIPTS / "single.py",
                   "--epochs", 1, "--lr", 0.01, "--samples", 300)
    accuracy = results("single.py", 1, samples=300, **SMALL)[0]["accuracy"]
    assert f"'accuracy': {accuracy}" in said


def test_plain_python_starts_the_ranks_itself(tmp_path):
    program(SCRIPTS / "ddp.py", "--nprocs", 2, "--epochs", 1, "--samples", 300, "--json", tmp_path / "run.json")
    summary = json.loads((tmp_path / "run.json").read_text())
    assert summary["nprocs"] == 2 and summary["samples"] == 300 and summary["state"] == "done"


def test_the_default_arguments_reach_95_percent():
    ranks = results("ddp.py", 2)
    assert all(rank["accuracy"] >= 0.95 for rank in ranks)


LESSON_SCRIPTS = [path.name for path in sorted(SCRIPTS.glob("*.py")) if "def train(" in path.read_text()]


@pytest.mark.parametrize("script", LESSON_SCRIPTS)
def test_a_script_has_the_five_steps_in_order_and_fits_a_page(script):
    lines = (SCRIPTS / script).read_text().splitlines()
    steps = [line.strip() for line in lines if line.strip().startswith(("# 1.", "# 2.", "# 3.", "# 4.", "# 5."))]
    assert steps == ["# 1. set up", "# 2. data", "# 3. model", "# 4. train", "# 5. report"]
    assert len(lines) < 80 and max(map(len, lines)) <= 110
