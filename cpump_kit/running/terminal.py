"""A run from the command line: `python ddp.py --nprocs 2`, `cpump run ddp.py --nprocs 2`, and under torchrun."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..errors import CpumpError
from ..style import count
from . import process_group, reporting, script, worker
from .launch import launch
from .record import RankStatus
from .run import Run

REFRESH = 4  # pictures a second on a terminal
EVERY = 3.0  # seconds between two lines where the output is no terminal


def main(train: Callable) -> None:
    """Run `train` of a script as a program. Write it last: `if __name__ == "__main__": main(train)`.

    Under torchrun this process is one rank, and `train(rank, world_size, ...)` is called in it. Otherwise
    `--nprocs N` workers are launched. Both take train's keyword arguments as options (`--epochs 3`).
    In a worker, which loads the script to find `train`, nothing happens.
    """
    if worker.inside:
        return
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _as_one_rank(train)
        return
    options = _parser(Path(sys.argv[0]).name, inspect.signature(train)).parse_args()
    function = "" if train.__name__ == "train" else f":{train.__name__}"
    sys.exit(_launch_and_follow(f"{sys.argv[0]}{function}", vars(options)))


def run_command(arguments: list[str]) -> int:
    """`cpump run SCRIPT [options]`: the exit code, 0 if the run was done, 1 if it failed, 130 if it was stopped."""
    from .processes import warm

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: cpump run SCRIPT.py [--nprocs N] [--threads T] [--json FILE] [the script's own options]")
        return 0 if arguments else 2
    path = arguments[0]
    try:
        target = script.find(path)
    except CpumpError as error:
        return _refuse(error)
    warm()
    options = _parser(f"cpump run {path}", target.signature or inspect.Signature()).parse_args(arguments[1:])
    return _launch_and_follow(path, vars(options))


def _as_one_rank(train: Callable) -> None:
    parser = argparse.ArgumentParser(prog=Path(sys.argv[0]).name)
    _add_arguments_of(inspect.signature(train), parser)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = vars(parser.parse_args())
    reporting.listen(reporting.print_reports(rank))
    process_group.never_destruct()  # it can abort the process: "terminate called without an active exception"
    result = train(rank, world_size, **options)
    if rank == 0:
        print(f"[rank 0] {result}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _parser(program: str, signature: inspect.Signature) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--nprocs", type=int, default=1, help="worker processes, which is the world size")
    parser.add_argument("--threads", type=int, help="intra-op threads of each (None: usable cores / nprocs)")
    parser.add_argument("--start-method", help="forkserver, spawn or fork (None: the system's best)")
    parser.add_argument("--json", metavar="FILE", help="write what was measured to FILE")
    _add_arguments_of(signature, parser)
    return parser


def _add_arguments_of(signature: inspect.Signature, parser: argparse.ArgumentParser) -> None:
    """An option for each keyword of `train` whose default is a number, a string or a bool."""
    for parameter in list(signature.parameters.values())[2:]:
        if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            continue
        name, default = "--" + parameter.name.replace("_", "-"), parameter.default
        if isinstance(default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, help=" ")
        elif isinstance(default, (int, float, str)):
            parser.add_argument(name, type=type(default), default=default, help=" ")
        elif default is parameter.empty:
            parser.add_argument(name, required=True, help=" ")


def _launch_and_follow(what: str, options: dict) -> int:
    file = options.pop("json")
    try:
        run = launch(what, show=False, **options)
    except CpumpError as error:
        return _refuse(error)
    follow(run)
    if file:
        Path(file).write_text(json.dumps(summary(run, what), indent=1, default=_plain) + "\n", encoding="utf-8")
    return {"done": 0, "stopped": 130}.get(run.state, 1)


def _refuse(error: Exception) -> int:
    print(f"cpump: {error}", file=sys.stderr)
    return 2


def summary(run: Run, what: str) -> dict:
    """What `--json` writes: a dict of plain values."""
    return {
        "script": what, "nprocs": run.nprocs, "threads": run.threads, "state": run.state, "error": run.error,
        "seconds": run.seconds, "samples": run.samples, "samples_per_second": run.samples_per_second,
        "results": run.results if run.state == "done" else None}


def _plain(value):
    """What json cannot write: small tensors and arrays as lists, large ones by shape, the rest by name."""
    if not hasattr(value, "tolist"):
        return repr(value)
    return value.tolist() if math.prod(value.shape) <= 100 else f"{type(value).__name__} of shape {tuple(value.shape)}"


def follow(run: Run) -> None:
    """Show a run on the terminal until it has ended: a live table, or a line every few seconds into a pipe or file."""
    console = Console(stderr=True, highlight=False)
    for note in run.notes:
        console.print(Text(f"Note: {note}"), soft_wrap=True)
    try:
        if console.is_terminal:
            with Live(_table(run), console=console, refresh_per_second=REFRESH, transient=True) as live:
                _wait(run, console, 1 / REFRESH, lambda: live.update(_table(run)))
        else:
            _wait(run, console, EVERY, lambda: console.print(_line(run), soft_wrap=True))
    except KeyboardInterrupt:
        run.stop()
        run.wait()
    console.print(_line(run), soft_wrap=True)
    if run.state == "done":
        for rank, result in enumerate(run.results):
            print(f"[rank {rank}] {result}", flush=True)
    else:
        console.print(Text(run.error + (f"\n\n{run.traceback}" if run.traceback else "")), soft_wrap=True)


def _wait(run: Run, console: Console, every: float, draw: Callable[[], None]) -> None:
    printed, ended, standstill = 0, False, ""
    while not ended:
        ended = run.wait(every)
        printed, lines = run.output_since(printed)
        for rank, line in lines:
            console.print(Text(f"[rank {rank}] {line}"), soft_wrap=True)
        if not ended:
            draw()
            if run.standstill and run.standstill.partition("\n")[2] != standstill:
                standstill = run.standstill.partition("\n")[2]
                console.print(Text(run.standstill), soft_wrap=True)


def _line(run: Run) -> Text:
    what = f"{run.script} on {count(run.nprocs, 'process')}, {count(run.threads, 'thread')} each"
    parts = [what, run.state, f"{run.seconds:.1f} s"]
    share, left = run.progress
    if share is not None:
        parts.insert(2, f"{share:.0%}")
    if left is not None and run.state == "training":
        parts.append(f"{left:.0f} s left")
    if run.samples_per_second is not None:
        parts.append(f"{run.samples_per_second:,.0f} samples/s")
    losses = [status.loss for status in run.ranks if status.loss is not None]
    if losses:
        parts.append(f"loss {sum(losses) / len(losses):.3f}")
    return Text("  ".join(parts))


def _table(run: Run) -> Table:
    table = Table.grid(padding=(0, 2))
    for status in run.ranks:
        table.add_row(*_row(status))
    outer = Table.grid()
    outer.add_row(_line(run))
    outer.add_row(table)
    return outer


def _row(status: RankStatus) -> list:
    rate, loss = status.samples_per_second, status.loss
    bar = ProgressBar(total=status.total or 1, completed=status.samples if status.total else 0, width=30)
    return [f"rank {status.rank}", bar, status.state, f"{rate:,.0f} samples/s" if rate is not None else "",
            f"loss {loss:.3f}" if loss is not None else ""]
