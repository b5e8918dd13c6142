"""Milliseconds to average one DDP bucket of float32 gradients over two ranks, one thread each.

"Memory" is the time in which a rank copies as many bytes: no all-reduce can be faster than a part of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

import cpump_kit as cp

from .report import Measured

MEGABYTES = (0.1, 1, 10, 40)


def train(rank: int, world_size: int, *, rounds: int) -> list[tuple[str, str, float]]:
    dist.init_process_group("gloo")
    buckets = {megabytes: cp.shared_memory_hook()[0] for megabytes in MEGABYTES}
    found = []
    for _ in range(rounds):
        for megabytes in MEGABYTES:
            gradients = torch.ones(int(megabytes * 250_000))
            target = torch.empty_like(gradients)
            ways = {"gloo all_reduce": lambda tensor=gradients: dist.all_reduce(tensor),
                    "cpump shared_memory_hook": lambda tensor=gradients, size=megabytes: buckets[size].average(tensor),
                    "memory": lambda target=target, tensor=gradients: target.copy_(tensor)}
            for way, call in ways.items():
                found.append((f"{megabytes:g} MB", way, 1000 * _seconds(call, max(5, int(60 / (megabytes + 0.4))))))
                gradients.fill_(1.0)
    return found


def _seconds(call: Callable[[], object], times: int) -> float:
    for _ in range(3):
        call()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def measure(rounds: int) -> Measured:
    found = Measured("allreduce", "Averaging gradients over two ranks", "ms", "gloo all_reduce", lower=True,
                     note=__doc__)
    for workload, way, figure in cp.launch(train, nprocs=2, threads=1, rounds=rounds).results[0]:
        found.add(workload, way, figure)
    return found
