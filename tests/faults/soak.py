"""Inject random faults into random ranks, and see that each is named in time and that nothing is left behind.

    python tests/faults/soak.py --rounds 500 [--seed 0] [--start-method spawn]

Each round launches faulty.py with one fault, or kills the launching program. Prints a line for each kind at the end:
rounds, and the seconds from the fault to the verdict.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import psutil

import cpump_kit as cp

SCRIPT = Path(__file__).with_name("faulty.py")
TIME_LIMIT = 4.0  # for the faults that end only by it: a second of training, and then a standstill
IN_TIME = 10.0  # a verdict later than this is a failure; the kit promises 2 s, the rest is for a loaded machine
LINE = r"faulty\.py, line \d+, in "

# What the sentence (or, for those ended by the time limit, the picture of where the ranks are) must say.
EXPECTED = {
    "exception": r"^Rank {rank} failed at " + LINE + "fail: ValueError: injected",
    "sys.exit": r"^Rank {rank} left the training with sys.exit",
    "os._exit": r"^Rank {rank} of faulty.py ended by itself with exit code 0",
    "SIGKILL": r"^Rank {rank} of faulty.py was ended by SIGKILL.*memory",
    "SIGINT": r"^Rank {rank} was interrupted",
    "segmentation fault": r"^Rank {rank} of faulty.py was ended by SIGSEGV at " + LINE,
    "SIGSTOP": r"rank {rank}: gives no answer",
    "hang": r"rank {rank}: " + LINE,
    "endless printing": r"rank {rank}: " + LINE + "print_without_end",
    "unequal batches": r"rank {rank}: .*\(waiting in all_reduce\)",
}
BY_TIME_LIMIT = {"SIGSTOP", "hang", "endless printing", "unequal batches"}


def one_round(fault: str, at_rank: int, at_step: int, nprocs: int, method: str | None) -> float:
    """Inject one fault; returns the seconds from the last report to the verdict. AssertionError if it is not named."""
    limit = TIME_LIMIT + (10.0 if method == "spawn" else 0.0)
    run = cp.launch(SCRIPT, nprocs=nprocs, threads=1, start_method=method, show=False, fault=fault, at_rank=at_rank,
                    at_step=at_step, timeout=limit if fault in BY_TIME_LIMIT else 60.0)
    assert run.wait(120), f"{fault}: the run has not ended"
    said = f"{run.error}\n{run.traceback or ''}"
    assert run.state == "failed", f"{fault} in rank {at_rank}: {run.state}"
    expected = EXPECTED[fault].format(rank=at_rank)
    assert re.search(expected, said, re.MULTILINE), f"{fault} in rank {at_rank}, expected {expected!r}:\n{said}"
    last = max((record["time"] for record in run.history), default=run.seconds)
    late = 0.0 if fault in BY_TIME_LIMIT else run.seconds - last
    assert late < IN_TIME, f"{fault} in rank {at_rank}: the verdict came {late:.1f} s later"
    return late


def killed_launcher(nprocs: int, method: str | None) -> float:
    """SIGKILL the launching program in the middle of a run; returns the seconds until all its workers are gone."""
    code = (f"import cpump_kit as cp\nrun = cp.launch({str(SCRIPT)!r}, nprocs={nprocs}, start_method={method!r}, "
            "fault='hang', show=False)\nwhile not run.history: run.wait(0.05)\n"
            "print(run.folder, flush=True)\nrun.wait()")
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        folder = Path(program.stdout.readline().strip())
        family = psutil.Process(program.pid).children(recursive=True)
        program.kill()
        killed = time.monotonic()
        left = psutil.wait_procs(family, timeout=IN_TIME)[1]
        assert len(family) >= nprocs and not left, f"a killed launcher leaves {left}"
        took = time.monotonic() - killed
        while folder.exists():
            assert time.monotonic() < killed + IN_TIME, f"a killed launcher leaves {folder}"
            time.sleep(0.02)
        return took
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def leftovers() -> set[str]:
    """What a run could leave on this machine: processes of ours, shared-memory segments, folders."""
    places = [Path("/dev/shm"), Path(os.environ.get("TMPDIR", "/tmp"))]
    names = {str(path) for place in places if place.is_dir() for path in place.iterdir()
             if path.name.startswith(("cpump-", "torch_", "sem.", "psm_"))}
    return names | {f"pid {child.pid}" for child in psutil.Process().children(recursive=True) if _is_worker(child)}


def _is_worker(process: psutil.Process) -> bool:
    try:  # a worker has the fork server for its parent, or was spawned
        return process.ppid() != os.getpid() or "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def soak(rounds: int, seed: int, method: str | None = None) -> dict[str, list[float]]:
    """Seconds by kind of fault. Every kind comes about equally often, in an order that `seed` decides."""
    assert cp.launch(SCRIPT, nprocs=2, show=False).results == [0, 1]  # the fork server has imported torch from here on
    chance, before, seconds = random.Random(seed), leftovers(), defaultdict(list)
    kinds = [*EXPECTED, "killed launcher"] * (rounds // len(EXPECTED) + 1)
    chance.shuffle(kinds)
    for number, fault in enumerate(kinds[:rounds]):
        nprocs, at_step = chance.choice([2, 2, 3]), chance.randrange(0, 30)
        at_rank = chance.randrange(nprocs)
        print(f"{number}: {fault}, rank {at_rank} of {nprocs}, step {at_step}", file=sys.stderr, flush=True)
        took = (killed_launcher(nprocs, method) if fault == "killed launcher"
                else one_round(fault, at_rank, at_step, nprocs, method))
        seconds[fault].append(took)
        left = leftovers() - before
        assert not {name for name in left if "cpump-" not in name}, f"round {number}, {fault}: left {left}"
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start-method")
    arguments = parser.parse_args()
    for fault, times in sorted(soak(arguments.rounds, arguments.seed, arguments.start_method).items()):
        print(f"{fault:20s} {len(times):4d} rounds, verdict after {statistics.median(times):.2f} s (median), "
              f"{max(times):.2f} s (most)")


if __name__ == "__main__":
    main()
