"""What the kit costs the training: steps per second of one loop, started in two ways.

"cpump, live view open": launched in a Jupyter kernel that shows the live view under the cell, the loop reports each
step. "torchrun, no report": the same loop as a plain program that reports nothing. The loop's steps are sized to
about 100 and about 5,000 a second; each rank runs on one thread and ranks do not wait for each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import torch

from .report import Measured

KIT, PLAIN = "cpump, live view open", "torchrun, no report"
SPEEDS = (100, 5000)  # steps per second, about
SECONDS = 6.0


def loop(speed: int, seconds: float, report=None) -> float:
    """Steps per second of a training loop whose steps take about 1 / speed seconds."""
    torch.set_num_threads(1)
    size = {100: 1400, 5000: 24}[speed]
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    samples = torch.randn(size, 256)

    def step() -> None:
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if report is not None:
            report(loss=loss.item(), samples=size)
        else:
            loss.item()

    for _ in range(20):
        step()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - start)


def train(rank: int, world_size: int, *, speed: int, seconds: float) -> float:
    from cpump_kit import report

    return loop(speed, seconds, report)


def _by_kit(client, speed: int) -> float:
    code = (f"import cpump_kit as cp\nfrom benchmarks.overhead import train\n"
            f"print('FIGURE', cp.launch(train, nprocs=2, threads=1, speed={speed}, seconds={SECONDS}).results[0])")
    said, content = [], {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                         "allow_stdin": False, "stop_on_error": True}
    message = client.session.msg("execute_request", content, metadata={"cellId": "a-cell"})  # as a page's request has
    client.shell_channel.send(message)
    while True:
        answer = client.get_iopub_msg(timeout=120)
        if answer["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if answer["msg_type"] == "stream":
            said.append(answer["content"]["text"])
        if answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
            return float("".join(said).partition("FIGURE")[2].split()[0])


def _by_torchrun(speed: int) -> float:
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m",
                           "benchmarks.overhead", str(speed)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[0])


def measure(rounds: int) -> Measured:
    from jupyter_client.manager import start_new_kernel

    found = Measured("overhead", "What the kit costs the training", "steps/s", PLAIN, lower=False, note=__doc__)
    manager, client = start_new_kernel()
    try:
        for number in range(rounds):
            for speed in SPEEDS:
                ways = {KIT: lambda speed=speed: _by_kit(client, speed), PLAIN: lambda speed=speed: _by_torchrun(speed)}
                for way in list(ways) if number % 2 == 0 else reversed(ways):
                    found.add(f"about {speed:,} steps/s", way, ways[way]())
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return found


if __name__ == "__main__":
    figure = loop(int(sys.argv[1]), SECONDS)
    if os.environ["RANK"] == "0":
        print(json.dumps(figure), flush=True)
