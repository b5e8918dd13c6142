"""The scripts of lessons 01 to 06 by their numbers: equal weights, shared weights, separate models."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"
SMALL = dict(epochs=1, samples=640)


def launch(name, nprocs=1, **arguments):
    return cp.launch(SCRIPTS / name, nprocs, threads=1, **{**SMALL, **arguments})


def test_the_stopwatch_changes_no_result_and_accounts_for_the_step():
    plain, timed = launch("single.py"), launch("timed.py")
    assert torch.equal(plain.results[0]["weights"], timed.results[0]["weights"])
    assert set(timed.ranks[0].parts) == {"data", "forward", "backward", "optimizer"}
    times = [record["time"] for record in timed.history]
    assert 0 < sum(timed.ranks[0].parts.values()) < 1.2 * (times[-1] - times[0]) + 1.0


def test_spawned_processes_train_models_that_never_meet():
    weights = [result["weights"] for result in launch("spawn.py", 3).results]
    assert not any(torch.equal(weights[0], other) for other in weights[1:])


def test_hogwild_trains_the_model_that_it_was_given_and_no_copy():
    sys.path.insert(0, str(SCRIPTS))
    from hogwild import network

    torch.manual_seed(0)
    model = network().share_memory()
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    run = launch("hogwild.py", 2, model=model, samples=4_000)
    accuracies = [result["accuracy"] for result in run.results]
    assert not torch.equal(before, nn.utils.parameters_to_vector(model.parameters()).detach())
    assert run.samples == 4_000 and max(accuracies) > 0.4  # chance is 0.1


def averaged(nprocs, batch_size):
    table = torch.zeros(4, 20_490).share_memory_()
    barriers = {nprocs: mp.get_context("spawn").Barrier(nprocs)}
    return launch("average.py", nprocs, table=table, barriers=barriers, batch_size=batch_size).results


@pytest.mark.parametrize("nprocs", [2, 4])
def test_averaging_by_hand_equals_ddp_with_the_same_batch(nprocs):
    ours, ddp = averaged(nprocs, 16), launch("ddp.py", nprocs, batch_size=16).results
    assert all(torch.equal(ours[0]["weights"], rank["weights"]) for rank in ours)
    assert torch.allclose(ours[0]["weights"], ddp[0]["weights"], atol=1e-5)


def test_ddp_with_the_shared_memory_hook_trains_the_same_model():
    plain, hook = (launch("mlp.py", 2, shared_memory=shared).results for shared in (False, True))
    assert torch.equal(hook[0]["weights"], hook[1]["weights"])
    assert torch.allclose(plain[0]["weights"], hook[0]["weights"], atol=1e-5)


@pytest.mark.parametrize("loaders", [0, 1])
def test_loader_processes_hand_out_every_sample_once(loaders):
    run = launch("loading.py", 2, loaders=loaders)
    assert run.results[0] == run.results[1] and run.samples == 640


@pytest.mark.parametrize("name", ["hogwild.py", "average.py"])
def test_with_plain_python(name, tmp_path):
    text = (SCRIPTS / name).read_text().replace("samples=20_000", "samples=640").replace("epochs=3", "epochs=1")
    (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=290,
                          env={**os.environ, "PYTHONPATH": str(SCRIPTS.parents[1])})
    assert done.returncode == 0, done.stderr
    # The processes share one output and nobody keeps their lines apart.
    assert sorted(re.findall(r"rank \d of 2: accuracy", done.stdout)) == [
        f"rank {rank} of 2: accuracy" for rank in range(2)]


def test_accumulation_equals_one_step_with_the_whole_window_also_the_short_last_one():
    windows = launch("accumulation.py", 2, samples=1_000, batch_size=16, window=4).results  # 500 a rank: 31.25 batches
    whole = launch("accumulation.py", 2, samples=1_000, batch_size=64, window=1).results
    assert torch.equal(windows[0]["weights"], windows[1]["weights"])
    assert torch.allclose(windows[0]["weights"], whole[0]["weights"], atol=1e-5)
