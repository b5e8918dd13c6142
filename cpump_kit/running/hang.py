"""Where the ranks are, line by line, and what it usually means when they get no further."""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
from dataclasses import dataclass

from .events import Place
from .tracebacks import KIT, in_library, short_name

# The functions of torch.distributed that wait for other ranks.
COLLECTIVES = {
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "gather", "monitored_barrier", "recv", "reduce", "reduce_scatter", "scatter", "send",
    "init_process_group", "new_group", "_sync_buffers", "_verify_param_shape_across_processes"}
WAITS = {("threading", "wait"), ("threading", "acquire"), ("synchronize", "wait"), ("synchronize", "__enter__"),
         ("queues", "get"), ("queues", "put"), ("queue", "get"), ("connection", "recv"), ("connection", "_recv"),
         ("connection", "recv_bytes"), ("process", "join"), ("popen_fork", "wait")}


SHARING = KIT + "sharing" + os.sep  # where ranks wait for each other in shared memory
BLOCKING = re.compile(r"\.(acquire|wait|get|join|recv)\(")


def place(rank: int, script: str | None, cells: set[str]) -> Place:
    """Where this process's main thread is now: the deepest line of the reader's own code, and what it waits for."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    line, waits_in, kind = "", "", ""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file == script or file in cells or (script is None and not file.startswith(KIT) and not in_library(file)):
            text = linecache.getline(file, frame.f_lineno).strip()
            line = f"{short_name(file)}, line {frame.f_lineno}, in {name}: {text}"
            if not kind and BLOCKING.search(text):  # a wait in C, which has no frame
                waits_in, kind = BLOCKING.search(text)[1], "lock"
            break
        found = _wait(file, name)
        if found and (not kind or found == "collective"):  # a collective's own waiting is the collective
            waits_in, kind = name, found
        frame = frame.f_back
    return Place(rank, line, waits_in, kind)


def _wait(file: str, name: str) -> str:
    if file.startswith(SHARING) and name in ("average", "step"):
        return "collective"
    module = os.path.basename(file).removesuffix(".py")
    if os.sep + "distributed" + os.sep in file and name in COLLECTIVES:
        return "collective"
    if name == "_engine_run_backward":
        return "backward"
    return "lock" if (module, name) in WAITS else ""


@dataclass(frozen=True)
class Where:
    """Where each rank is; `str()` gives a line a rank and, if it can be told, what that means."""

    lines: tuple[str, ...]
    meaning: str

    def __str__(self) -> str:
        return "\n".join([*self.lines, *([self.meaning] if self.meaning else [])])

    __repr__ = __str__


def where(states: list[str], places: list[Place | None]) -> Where:
    """`states[r]` is rank r's state; `places[r]` is where it said it is, or None if it gave no answer."""
    lines = tuple(f"rank {rank}: {_line(state, found)}" for rank, (state, found) in enumerate(zip(states, places)))
    return Where(lines, meaning(states, places))


def _line(state: str, found: Place | None) -> str:
    if state != "training":
        return state
    if found is None:
        return "gives no answer: it is stopped, or busy in compiled code"
    at = found.line or "before the script's first line"
    return at + (f" (waiting in {found.waits_in})" if found.kind in ("collective", "lock") else
                 " (in backward)" if found.kind == "backward" else "")


def meaning(states: list[str], places: list[Place | None]) -> str:
    """The usual cause of a standstill with the ranks in these places; empty if none is known."""
    here = [found for state, found in zip(states, places) if state == "training" and found is not None]
    meeting = [found for found in here if found.kind in ("collective", "backward")]
    away = [rank for rank, (state, found) in enumerate(zip(states, places))
            if state != "training" or found is None or found not in meeting]
    if meeting and away:
        ranks = "rank " + ", ".join(map(str, away))
        waits = "rank " + ", ".join(str(found.rank) for found in meeting)
        return (f"In a collective all ranks must take part: {waits} waits there for {ranks}. "
                "The usual cause is an unequal number of batches, or a branch that only some ranks take.")
    if len(here) > 1 and len(meeting) == len(here) and len({(found.waits_in, found.line) for found in here}) > 1:
        return "The ranks wait in different collectives: each rank must call the same ones in the same order."
    if here and len(here) == len(states) and all(found.kind == "lock" for found in here):
        return "Every rank waits for a lock, a barrier or a queue: nobody is left who could release it."
    return ""
