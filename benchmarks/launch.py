"""Seconds from asking for two workers to the end of rank 0's first DDP step, in a program that lives on, as a kernel.

Each way has a program of its own, which is asked in turn with the others. "First" is asked as soon as the program has
imported torch and the launcher; after that it is what re-running a cell costs.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .report import Measured

WAYS = ["cpump", "cpump, spawn", "mp.spawn", "torchrun", "accelerate notebook_launcher", "loky (kept pool)", "fork"]


def train(rank: int, world_size: int, port: int, out: str) -> None:
    """The job: the end of rank 0's first step, in seconds of the monotonic clock, goes into the file `out`."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world_size))
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(784, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(64, 784)).sum().backward()
    optimizer.step()
    if rank == 0:
        Path(out).write_text(str(time.monotonic()))
    dist.barrier()
    dist.destroy_process_group()


def _by_cpump(port: int, out: str) -> None:
    import cpump_kit as cp

    cp.launch(train, nprocs=2, port=port, out=out).wait()


def _by_mp_spawn(port: int, out: str) -> None:
    import torch.multiprocessing as mp

    mp.spawn(train, args=(2, port, out), nprocs=2)


def _by_fork(port: int, out: str) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=train, args=(rank, 2, port, out)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _by_torchrun(port: int, out: str) -> None:
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port),
                    "-m", "benchmarks.launch", "rank", out], check=True)


def _as_rank(out: str) -> None:
    train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["MASTER_PORT"]), out)


def _by_accelerate(port: int, out: str) -> None:
    from accelerate import notebook_launcher

    notebook_launcher(_as_rank, args=(out,), num_processes=2, use_port=str(port))


def _by_loky(port: int, out: str) -> None:
    from loky import get_reusable_executor

    pool = get_reusable_executor(max_workers=2, timeout=600)
    for done in [pool.submit(train, rank, 2, port, out) for rank in range(2)]:
        done.result()


CALLS = dict(zip(WAYS, [_by_cpump, _by_cpump, _by_mp_spawn, _by_torchrun, _by_accelerate, _by_loky, _by_fork]))


def measure(rounds: int) -> Measured:
    found = Measured("launch", "From launch to the end of the first DDP step of two workers", "seconds", "mp.spawn",
                     lower=True, note=__doc__)
    hosts: dict[str, subprocess.Popen] = {}
    try:
        for number in range(rounds + 1):
            for way in WAYS:
                host = hosts.setdefault(way, hosts.get(way) or _host(way))
                print("go", file=host.stdin, flush=True)
                found.add("re-run" if number else "first", way, float(host.stdout.readline()))
                time.sleep(3)  # what is started ahead for the next time is done by then, as it is when a reader reads
    finally:
        for host in hosts.values():
            host.stdin.close()
            host.wait()
            host.stdout.close()
    return found


def _host(way: str) -> subprocess.Popen:
    spawn = {"CPUMP_START_METHOD": "spawn"} if way == "cpump, spawn" else {}
    return subprocess.Popen([sys.executable, "-m", "benchmarks.launch", "host", way], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **spawn})


def _answer(way: str) -> None:
    """As the host of one way: for each line on stdin, launch once and print the seconds."""
    import torch  # noqa: F401  (imported in an earlier cell)

    if way.startswith("cpump"):
        import cpump_kit.running.processes

        cpump_kit.running.processes.warm()  # `import cpump_kit` does it in a notebook
    print_to = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the ways print is not the answer
    for _ in sys.stdin:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "end"
            start = time.monotonic()
            CALLS[way](port, str(out))
            print(float(out.read_text()) - start, file=print_to, flush=True)


if __name__ == "__main__":
    _as_rank(sys.argv[2]) if sys.argv[1] == "rank" else _answer(sys.argv[2])
