"""Memory of two workers after one training step: what each has of its own, and its share of what it has in common.

"private" is memory of one worker alone; "proportional" (PSS) divides each shared page among those who have it. The
second pair of columns passes 400 MB of data to both workers: what a worker has of its own must not grow by that.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from statistics import mean

import psutil
import torch

import cpump_kit as cp

from .report import Measured

MB = 1e6
WAYS = ["cpump", "mp.spawn", "forkserver, torch preloaded"]


def step(rank: int, world_size: int, data=None) -> dict[str, float]:
    """One training step, then this process's memory in MB."""
    torch.set_num_threads(1)
    model = torch.nn.Linear(784, 512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(64, 784)).sum().backward()
    optimizer.step()
    if data is not None:
        float(data.sum())  # every page is touched
    used = psutil.Process().memory_full_info()
    return {"private": used.uss / MB, "proportional": used.pss / MB}


def _into(queue, done, rank: int, data) -> None:
    queue.put(step(rank, 2, data))
    done.wait()  # shared pages count for both as long as both live


def _by_context(method: str, data) -> list[dict[str, float]]:
    context = multiprocessing.get_context(method)
    queue, done = context.Queue(), context.Event()
    workers = [context.Process(target=_into, args=(queue, done, rank, data)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = [queue.get() for _ in workers]
    done.set()
    for worker in workers:
        worker.join()
    return found


def _by(way: str, data) -> list[dict[str, float]]:
    if way == "cpump":
        return cp.launch(step, nprocs=2, data=data).results
    return _by_context("spawn" if way == "mp.spawn" else "forkserver", data)


def measure(rounds: int) -> Measured:
    import subprocess

    found = Measured("memory", "Memory of each of two workers", "MB", "mp.spawn", lower=True, note=__doc__)
    for _ in range(rounds):
        for way in WAYS:  # each in a program of its own: a program has one fork server
            done = subprocess.run([sys.executable, "-m", "benchmarks.memory", way], text=True, capture_output=True,
                                  check=True)
            for workload, figure in zip(["private", "proportional", "private, 400 MB passed",
                                         "proportional, 400 MB passed"], map(float, done.stdout.split())):
                found.add(workload, way, figure)
    return found


def main(way: str) -> None:
    multiprocessing.set_forkserver_preload(["torch", "torch.distributed"])
    for data in (None, torch.ones(100_000_000)):
        found = _by(way, data)
        print(*(mean(rank[kind] for rank in found) for kind in ("private", "proportional")), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("CPUMP_START_METHOD", "forkserver" if sys.platform == "linux" else "spawn")
    main(sys.argv[1])
