"""A training that goes wrong in a chosen rank, at a chosen step, in a chosen way."""

import ctypes
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from cpump_kit import main, report


def train(rank, world_size, *, fault="none", at_rank=1, at_step=5, steps=40):
    dist.init_process_group("gloo")
    for step in range(steps + (fault == "unequal batches" and rank == at_rank)):
        if rank == at_rank and step == at_step and fault in FAULTS:
            FAULTS[fault]()
        dist.all_reduce(torch.ones(1))
        report(loss=1.0 / (step + 1), samples=1, total=steps)
    return rank


def fail():
    raise ValueError("injected")


def print_without_end():
    while True:
        print("x" * 200)


FAULTS = {
    "exception": fail,
    "sys.exit": lambda: sys.exit(3),
    "os._exit": lambda: os._exit(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGINT": lambda: os.kill(os.getpid(), signal.SIGINT),
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "segmentation fault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(3600),
    "endless printing": print_without_end,
}

if __name__ == "__main__":
    main(train)
