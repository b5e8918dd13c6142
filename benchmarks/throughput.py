"""Images per second of two processes that train together, every way in turn inside the same two processes.

One thread a process unless said. "Batch" is that of one process, so that DDP's steps have twice as many images. MLP:
784-512-512-10; CNN: two convolutions of 16 and 32 channels with pooling, one linear layer. Plain SGD, data in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

import cpump_kit as cp

from .report import Measured

WORKLOADS = {"MLP, batch 64": ("mlp", 64), "MLP, batch 512": ("mlp", 512),
             "CNN, batch 64": ("cnn", 64), "CNN, batch 256": ("cnn", 256)}
SECONDS = 0.8  # that one way is measured for, once it is warm
LR = 0.01


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                             nn.Linear(512, 10))
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def _plain(model, images, labels, forward=None, optimizer=None, windows: int = 1) -> Callable[[], int]:
    """A step of an ordinary loop; the number of images in it is returned. `windows` batches are accumulated."""
    forward = forward or model
    optimizer = optimizer or torch.optim.SGD(model.parameters(), LR)

    def step() -> int:
        optimizer.zero_grad()
        for i in range(windows):
            with forward.no_sync() if i < windows - 1 else nullcontext():
                cross_entropy(forward(images), labels).backward()
        optimizer.step()
        return windows * len(images)

    return step


def _ddp(model, images, labels, windows: int = 1, hook=None, **options) -> Callable[[], int]:
    replica = DDP(model, **options)
    if hook is not None:
        replica.register_comm_hook(*hook())
    return _plain(model, images, labels, replica, windows=windows)


def _channels_last(model, images, labels) -> Callable[[], int]:
    model.to(memory_format=torch.channels_last)
    return _ddp(model, images.contiguous(memory_format=torch.channels_last), labels)


def _averaged(model, images, labels, period: int) -> Callable[[], int]:
    train, averager = _plain(model, images, labels), PeriodicModelAverager(period, warmup_steps=0)

    def step() -> int:
        done = train()
        averager.average_parameters(model.parameters())
        return done

    return step


def _shared(model, images, labels) -> Callable[[], int]:
    optimizer = torch.optim.SGD(model.parameters(), LR)
    return _plain(model, images, labels, optimizer=cp.share_training(model, optimizer))


# The way's name, the threads of each process, and what makes its step. Those of one process leave rank 1 idle.
ONE = {"one process, 1 thread": (1, _plain), "one process, 2 threads": (2, _plain)}
TWO = {
    "DDP over gloo": (1, _ddp),
    "DDP, 2 threads each (the default of mp.spawn)": (2, _ddp),
    "DDP, gradient_as_bucket_view": (1, partial(_ddp, gradient_as_bucket_view=True)),
    "DDP, static_graph": (1, partial(_ddp, static_graph=True)),
    "DDP, buckets of 1 MB": (1, partial(_ddp, bucket_cap_mb=1)),
    "DDP, buckets of 100 MB": (1, partial(_ddp, bucket_cap_mb=100)),
    "DDP, no_sync over 4 batches": (1, partial(_ddp, windows=4)),
    "DDP, channels_last": (1, _channels_last),
    "model averaging every 4 steps": (1, partial(_averaged, period=4)),
    "Hogwild (not synchronous)": (1, _plain),
    "DDP, cpump shared_memory_hook": (1, partial(_ddp, hook=lambda: cp.shared_memory_hook())),
    "cpump share_training": (1, _shared),
}


def train(rank: int, world_size: int, *, shared: dict[str, nn.Module], rounds: int) -> list[tuple[str, str, float]]:
    dist.init_process_group("gloo")
    found, kept = [], []
    for turn in range(rounds):
        for workload, (kind, batch) in WORKLOADS.items():
            torch.manual_seed(rank)
            images, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
            ways = {**ONE, **TWO}
            for way in list(ways) if turn % 2 == 0 else reversed(ways):
                threads, make = ways[way]
                torch.set_num_threads(threads)
                dist.barrier()
                if way in TWO:
                    model = shared[kind] if way.startswith("Hogwild") else network(kind)
                    step = make(model, images, labels)
                    found.append((workload, way, world_size * _speed(step, together=True)))
                    kept.append(step)
                elif rank == 0:
                    found.append((workload, way, _speed(make(network(kind), images, labels), together=False)))
    return found


def _speed(step: Callable[[], int], together: bool) -> float:
    """Images per second of this rank. `together`: all ranks make equally many steps."""
    for _ in range(3):
        step()
    start = time.perf_counter()
    for _ in range(5):
        step()
    steps = torch.tensor(max(3, round(SECONDS * 5 / (time.perf_counter() - start))))
    if together:
        dist.broadcast(steps, 0)
        dist.barrier()
    start = time.perf_counter()
    images = sum(step() for _ in range(int(steps)))
    if together:
        dist.barrier()
    return images / (time.perf_counter() - start)


def measure(rounds: int) -> Measured:
    found = Measured("throughput", "Training on two processes", "images/s", "one process, 1 thread", lower=False,
                     note=__doc__)
    shared = {kind: network(kind).share_memory() for kind in ("mlp", "cnn")}
    for workload, way, figure in cp.launch(train, nprocs=2, threads=1, shared=shared, rounds=rounds).results[0]:
        found.add(workload, way, figure)
    return found
