"""The scripts of lesson 09 by their numbers: a network in stages trains as it does in one process."""

from pathlib import Path

import pytest
import torch

import cpump_kit as cp

SCRIPTS = Path(__file__).parents[2] / "notebooks" / "scripts"


def launch(name, nprocs, **arguments):
    return cp.launch(SCRIPTS / name, nprocs, threads=1, show=False, **arguments)


def whole(run):
    """The weights of all stages, one after the other."""
    return torch.cat([result["weights"] for result in run.results])


def test_two_stages_by_hand_train_the_network_of_one_process():
    small = dict(epochs=1, lr=0.01, samples=600)
    single, stages = launch("single.py", 1, **small), launch("stages.py", 2, **small)
    assert torch.allclose(whole(single), whole(stages), atol=1e-6)
    assert [result["accuracy"] for result in stages.results] == [single.results[0]["accuracy"]] * 2
    assert stages.samples == 600 and stages.throughput() > 0


def test_two_stages_want_two_ranks():
    run = launch("stages.py", 3)
    run.wait()
    assert run.state == "failed" and "for 2 ranks, and there are 3" in run.error


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
@pytest.mark.parametrize("nprocs", [2, 3])
def test_a_pipeline_trains_the_network_of_one_process(nprocs, schedule):
    small = dict(samples=1_024, width=64, microbatches=4)
    one, pipeline = launch("pipeline.py", 1, **small), launch("pipeline.py", nprocs, schedule=schedule, **small)
    assert torch.allclose(whole(one), whole(pipeline), atol=1e-5)
    assert pipeline.samples == 1_024


def test_micro_batches_change_nothing_but_the_order_of_the_work():
    one, eight = (launch("pipeline.py", 2, samples=1_024, width=64, microbatches=count) for count in (1, 8))
    assert torch.allclose(whole(one), whole(eight), atol=1e-5)
    other = launch("pipeline.py", 2, samples=1_024, width=64, batch_size=128)
    assert not torch.allclose(whole(one), whole(other), atol=1e-5)  # so that the line above can fail
