"""Training in shared memory is right: equal to DDP over gloo, on any number of ranks, and nothing is left of it."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import parameters_to_vector

import cpump_kit as cp
from cpump_kit.sharing import segment
from cpump_kit.sharing.meeting import Meeting
from cpump_kit.sharing.segment import share

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals, and no /dev/shm")


@pytest.fixture(autouse=True)
def nothing_is_left():
    if not Path("/dev/shm").is_dir():
        yield
        return
    before = set(os.listdir("/dev/shm"))
    yield
    left = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("cpump-")}
    assert not left, f"left in /dev/shm: {left}"


def network(dtype=torch.float32):
    torch.manual_seed(0)  # odd sizes, so that no part of a rank ends where a parameter does
    return nn.Sequential(nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def batch(rank, step, dtype=torch.float32):
    torch.manual_seed(100 * step + rank)
    return torch.randn(6, 7, dtype=dtype), torch.randint(3, (6,))


def groups(model):
    """Two parameter groups, one of them with weight decay."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    return [{"params": weights, "weight_decay": 0.01}, {"params": [p for p in model.parameters() if p.dim() == 1]}]


OPTIMIZERS = {
    "SGD": lambda model: torch.optim.SGD(groups(model), lr=0.1),
    "momentum": lambda model: torch.optim.SGD(groups(model), lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda model: torch.optim.Adam(groups(model), lr=0.01),
    "AdamW": lambda model: torch.optim.AdamW(groups(model), lr=0.01),
}


def train(rank, world_size, *, way, optimizer="SGD", dtype=torch.float32, steps=5, windows=1, max_norm=None, ddp=None):
    """The weights after some steps in one of three ways: "gloo", "hook", "shared"."""
    dist.init_process_group("gloo")
    model = network(dtype)
    if way == "shared":
        optimizer = cp.share_training(model, OPTIMIZERS[optimizer](model), max_norm)
    else:
        optimizer = OPTIMIZERS[optimizer](model)
        model = DDP(model, **(ddp or {}))
        if way == "hook":
            model.register_comm_hook(*cp.shared_memory_hook())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for step in range(steps):
        optimizer.zero_grad()
        for window in range(windows):
            quiet = window < windows - 1 and way != "shared"
            with model.no_sync() if quiet else nullcontext():
                samples, labels = batch(rank, step * windows + window, dtype)
                (nn.functional.cross_entropy(model(samples).float(), labels) / windows).backward()
        if max_norm is not None and way != "shared":
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        schedule.step()
    return parameters_to_vector(model.parameters()).detach().clone()


def close(one, other, dtype=torch.float32):
    return torch.allclose(one, other, **{torch.float32: dict(rtol=1e-5, atol=1e-6), torch.float64: dict(rtol=1e-12),
                                         torch.bfloat16: dict(rtol=0.05, atol=0.02)}[dtype])


def check_equal(nprocs, **options):
    gloo = cp.launch(train, nprocs, way="gloo", **options).results[0]
    for way in ("hook", "shared"):
        ranks = cp.launch(train, nprocs, way=way, **options).results
        assert all(torch.equal(ranks[0], weights) for weights in ranks), f"{way}: the ranks' weights differ"
        assert close(ranks[0], gloo, options.get("dtype", torch.float32)), f"{way} differs from gloo"
    assert not torch.equal(gloo, parameters_to_vector(network(options.get("dtype", torch.float32)).parameters()))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_it_trains_what_ddp_over_gloo_trains(optimizer):
    check_equal(2, optimizer=optimizer)


@pytest.mark.parametrize("nprocs", [1, 3, 4])
def test_on_any_number_of_ranks_also_more_than_cores(nprocs):
    check_equal(nprocs, optimizer="Adam")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_in_other_dtypes(dtype):
    check_equal(2, dtype=dtype)


def test_gradients_are_accumulated_without_exchange_and_clipped_by_the_norm_of_their_mean():
    check_equal(2, windows=3, max_norm=0.05)


@pytest.mark.parametrize("ddp", [{"bucket_cap_mb": 0.0001}, {"gradient_as_bucket_view": True}, {"static_graph": True}],
                         ids=lambda options: next(iter(options)))
def test_the_hook_serves_every_form_of_ddp(ddp):
    plain, hooked = (cp.launch(train, 2, way=way, ddp=ddp).results[0] for way in ("gloo", "hook"))
    assert close(plain, hooked)


def uneven(rank, world_size, *, way):
    dist.init_process_group("gloo")
    model = DDP(network())
    if way == "hook":
        model.register_comm_hook(*cp.shared_memory_hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(2 + 2 * rank):
            samples, labels = batch(rank, step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(samples), labels).backward()
            optimizer.step()
    return parameters_to_vector(model.parameters()).detach()


def test_the_hook_serves_uneven_inputs_under_join():
    gloo, hook = (cp.launch(uneven, 2, way=way).results for way in ("gloo", "hook"))
    assert torch.equal(*hook) and close(hook[0], gloo[0])


class Branches(nn.Module):
    """Which of two layers is used depends on the step."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(7, 3) for _ in range(2))

    def forward(self, samples, step):
        return self.layers[step % 2](samples)


def unused(rank, world_size, *, way):
    dist.init_process_group("gloo")
    model = Branches()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if way == "shared":
        optimizer = cp.share_training(model, optimizer)
    else:
        model = DDP(model, find_unused_parameters=True)
        if way == "hook":
            model.register_comm_hook(*cp.shared_memory_hook())
    for step in range(4):
        samples, labels = batch(rank, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(samples, step), labels).backward()
        optimizer.step()
    return parameters_to_vector(model.parameters()).detach().clone()


def test_parameters_that_a_step_does_not_use():
    gloo, hook, shared = (cp.launch(unused, 2, way=way).results[0] for way in ("gloo", "hook", "shared"))
    assert close(gloo, hook) and close(gloo, shared)


def resume(rank, world_size, *, state=None, steps=3, shared=True):
    """(the model's state, the optimizer's state) after some steps from `state` on."""
    if world_size > 1 or shared:
        dist.init_process_group("gloo")
    model = network()
    optimizer = OPTIMIZERS["Adam"](model)
    optimizer = cp.share_training(model, optimizer) if shared else optimizer
    if state is not None:
        model.load_state_dict(state[0])
        optimizer.load_state_dict(state[1])
    for _ in range(steps):
        samples, labels = batch(0, 0)  # the same in each rank, so that the number of ranks makes no difference
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(samples), labels).backward()
        optimizer.step()
    return model.state_dict(), optimizer.state_dict()


def test_a_training_is_saved_and_resumed_on_another_number_of_ranks_and_without_the_kit(tmp_path):
    def weights(state):
        return torch.cat([value.flatten() for value in state[0].values()])

    whole = cp.launch(resume, 1, shared=False, steps=6).results[0]
    half = cp.launch(resume, 2, steps=3).results[0]
    torch.save(half, tmp_path / "saved.pt")
    half = torch.load(tmp_path / "saved.pt")
    for nprocs, shared in [(2, True), (3, True), (1, False)]:
        after = cp.launch(resume, nprocs, state=half, shared=shared, steps=3).results[0]
        assert torch.allclose(weights(after), weights(whole), atol=1e-6), (nprocs, shared)
    assert half[1]["param_groups"] == cp.launch(resume, 1, shared=False).results[0][1]["param_groups"]


def with_buffers(rank, world_size):
    dist.init_process_group("gloo")
    torch.manual_seed(rank)  # other weights in each rank: rank 0's count
    model = nn.Sequential(nn.Linear(7, 4), nn.BatchNorm1d(4))
    model[1].running_mean.fill_(rank + 1.0)
    optimizer = cp.share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))
    begun = model[1].running_mean.clone()
    model(batch(rank, 0)[0]).square().sum().backward()
    optimizer.step()
    return begun, model[1].running_mean, parameters_to_vector(model.parameters()).detach().clone()


def test_buffers_begin_as_rank_0s_and_are_each_ranks_own_after_that():
    (begun0, mean0, weights0), (begun1, mean1, weights1) = cp.launch(with_buffers, 2).results
    assert begun0.tolist() == begun1.tolist() == [1.0] * 4
    assert not torch.equal(mean0, mean1) and torch.equal(weights0, weights1)


def stress(rank, world_size, *, rounds):
    """Ranks come to the meetings after random delays; what each wrote before must be seen by all after."""
    dist.init_process_group("gloo")
    meet, chance, wrong = Meeting(), random.Random(rank), 0
    rows = share(8 * world_size * 1000).view(torch.int64).view(world_size, 1000)
    for turn in range(rounds):
        rows[rank].fill_(turn)
        if chance.random() < 0.1:
            time.sleep(chance.random() / 500)
        meet()
        wrong += int((rows != turn).sum())
        if chance.random() < 0.1:
            time.sleep(chance.random() / 500)
        meet()
    return wrong


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_what_was_written_before_a_meeting_is_seen_after_it(nprocs):
    assert cp.launch(stress, nprocs, rounds=1000).results == [0] * nprocs


def average_buckets(rank, world_size, *, rounds):
    """As DDP's buckets come: of other sizes each time, and with ranks that are ahead of one another."""
    dist.init_process_group("gloo")
    buckets, _ = cp.shared_memory_hook()
    chance, wrong = random.Random(rank), 0
    for turn in range(rounds):
        gradients = torch.full((200_000 if turn % 2 else 7,), float(turn + rank))
        mean = buckets.average(gradients).value()
        wrong += int(not torch.allclose(mean, torch.tensor(turn + (world_size - 1) / 2)))
        if chance.random() < 0.1:
            time.sleep(chance.random() / 1000)
    return wrong


@pytest.mark.parametrize("nprocs", [2, 3])
def test_buckets_of_different_sizes_do_not_disturb_each_other(nprocs):
    assert cp.launch(average_buckets, nprocs, rounds=600).results == [0] * nprocs


def bad_hook_twice(rank, world_size):
    dist.init_process_group("gloo")
    model = DDP(network())
    for _ in range(2):
        model.register_comm_hook(*cp.shared_memory_hook())


def bad_optimizer(rank, world_size):
    dist.init_process_group("gloo")
    model = network()
    cp.share_training(model, torch.optim.LBFGS(model.parameters()))


def bad_models(rank, world_size):
    dist.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2 + rank))
    cp.share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))


def bad_size(rank, world_size):
    dist.init_process_group("gloo")
    share(2**50)


def bad_machine(rank, world_size):
    dist.init_process_group("gloo")
    if rank == 1:
        segment.FOLDER = Path("/nowhere")  # as on another machine: what rank 0 made is not there
    share(100)


def bad_ddp(rank, world_size):
    dist.init_process_group("gloo")
    model = DDP(network())
    cp.share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("function, said", [
    (bad_hook_twice, "has a communication hook already"),
    (bad_optimizer, "LBFGS cannot be trusted to allow; it works with SGD, Adam"),
    (bad_models, "models differ: rank 0 has 1.weight (2 x 3, torch.float32) where rank 1 has 1.weight (3 x 3"),
    (bad_ddp, "give it the model inside, model.module"),
    pytest.param(bad_size, "the ranks want to share 1048576.0 GiB, and ", marks=posix),
    pytest.param(bad_machine, "rank 1 is on another machine than rank 0", marks=posix),
])
def test_what_cannot_work_is_said_in_one_sentence(function, said):
    run = cp.launch(function, 2)
    run.wait()
    assert run.state == "failed" and said in run.error, run.error


def dies(rank, world_size, *, way):
    dist.init_process_group("gloo")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if way == "shared":
        optimizer = cp.share_training(model, optimizer)
    else:
        model = DDP(model)
        model.register_comm_hook(*cp.shared_memory_hook())
    for step in range(1000):
        samples, labels = batch(rank, step)
        nn.functional.cross_entropy(model(samples), labels).backward()
        if rank == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()


@posix
@pytest.mark.parametrize("way", ["hook", "shared"])
def test_a_killed_rank_is_named_and_nothing_is_left(way):
    run = cp.launch(dies, 2, way=way)
    run.wait()
    assert run.error.startswith("Rank 1 of dies was ended by SIGKILL")


def hangs(rank, world_size):
    dist.init_process_group("gloo")
    model = network()
    optimizer = cp.share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))
    cp.report(loss=1.0)
    if rank == 0:
        optimizer.step()
    time.sleep(600)


def test_a_rank_that_waits_for_another_is_explained():
    run = cp.launch(hangs, 2, timeout=8)
    run.wait()
    assert "waiting in step" in run.traceback and "rank 0 waits there for rank 1" in run.traceback


@posix
def test_under_torchrun_a_dead_peer_ends_the_training_and_nothing_is_left(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent("""
        import os, signal
        import torch, torch.distributed as dist
        import cpump_kit as cp

        dist.init_process_group("gloo")
        model = torch.nn.Linear(5, 3)
        optimizer = cp.share_training(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for step in range(20):
            model(torch.ones(2, 5)).sum().backward()
            optimizer.step()
        total = float(sum(p.sum() for p in model.parameters()))
        print(f"rank {dist.get_rank()} total {total:.6f}", flush=True)
        if dist.get_rank() == 1 and os.environ.get("DIE"):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        """))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    totals = {line.split()[-1] for line in done.stdout.splitlines() if " total " in line}
    assert done.returncode == 0 and len(totals) == 1, done.stderr
    assert "leaked" not in done.stderr and "Exception ignored" not in done.stderr
    died = subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, "DIE": "1"})
    assert died.returncode != 0 and "SIGKILL" in died.stderr
