"""How a run ended, in one clear sentence: which rank failed first, why, and at which line of the script."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from ..machine import Cores
from ..style import memory
from .events import Done, Failed

# What gloo and torch's store say in a rank whose peer has gone.
LOST_PEER = re.compile(
    r"connection (closed|reset|was likely closed|refused)|broken pipe|remote peer|DistNetworkError|DistStoreError"
    r"|lost contact with rank|timed out waiting|wait timeout|recvValue failed|sendBytes failed|socketpair",
    re.IGNORECASE)
ORDER = {"exception": 0, "exit": 1, "signal": 2, "silent exit": 3, "interrupt": 4, "lost peer": 5}


@dataclass
class Outcome:
    """What is known of one rank's end: its last event if one came, its exit code if it has ended by itself."""

    rank: int
    event: Done | Failed | None = None
    exitcode: int | None = None
    ended_ns: int | None = None
    ended_by_us: bool = False
    peak_memory: int | None = None  # bytes
    machine: Cores | None = None  # as it was when a signal ended the rank
    where: str = ""  # of a fault in compiled code, with Python's stack there
    stack: str = ""

    @property
    def over(self) -> bool:
        """True once nothing more is to come from this rank."""
        return self.event is not None or self.exitcode is not None

    @property
    def kind(self) -> str | None:
        """The class of this rank's failure, or None if it has not failed of itself."""
        if isinstance(self.event, Failed):
            if self.event.kind == "exception" and LOST_PEER.search(self.event.error):
                return "lost peer"
            return self.event.kind
        if self.event is not None or self.exitcode is None or self.ended_by_us:
            return None
        return "signal" if self.exitcode < 0 else "silent exit"


@dataclass(frozen=True)
class Verdict:
    rank: int
    sentence: str
    traceback: str | None


def decide(outcomes: list[Outcome], script: str) -> Verdict | None:
    """The verdict on a run, or None while no rank has failed.

    A user's exception outranks a signal, a signal outranks a lost peer, then the earlier one counts: a rank whose
    peer dies often notices before the launcher has heard why.
    """
    failed = [outcome for outcome in outcomes if outcome.kind is not None]
    if not failed:
        return None
    first = min(failed, key=lambda outcome: (ORDER[outcome.kind], _time(outcome)))
    sentence = _sentence(first, script)
    for said, ranks in _others(first, failed).items():
        sentence += f" ({_ranks(ranks)} {said}.)"
    traceback = first.event.traceback if isinstance(first.event, Failed) else first.stack or None
    return Verdict(first.rank, sentence, traceback)


def _others(first: Outcome, failed: list[Outcome]) -> dict[str, list[int]]:
    """The other failed ranks by what is to be said of them."""
    groups: dict[str, list[int]] = {}
    for outcome in failed:
        if outcome is first:
            continue
        if outcome.kind == "lost peer":
            said = "lost contact, as a consequence"
        elif isinstance(outcome.event, Failed) and isinstance(first.event, Failed):
            said = "failed too, " + ("in the same way" if outcome.event.error == first.event.error
                                     else f"with {outcome.event.error}")
        else:
            said = "ended too"
        groups.setdefault(said, []).append(outcome.rank)
    return groups


def _time(outcome: Outcome) -> int:
    return outcome.event.monotonic_ns if isinstance(outcome.event, Failed) else outcome.ended_ns or 0


def _sentence(outcome: Outcome, script: str) -> str:
    who = f"Rank {outcome.rank}"
    if isinstance(outcome.event, Failed):
        where = f" at {outcome.event.where}" if outcome.event.where else f" in {script}"
        if outcome.kind == "exit":
            return f"{who} left the training with sys.exit{where}: {outcome.event.error}."
        if outcome.kind == "interrupt":
            return f"{who} was interrupted{where}."
        if outcome.kind == "lost peer":
            return f"{who} lost contact with another rank{where}: {outcome.event.error}"
        return f"{who} failed{where}: {outcome.event.error}"
    if outcome.kind == "signal":
        return f"{who} of {script} was ended by {_signal(outcome)}."
    return f"{who} of {script} ended by itself with exit code {outcome.exitcode} before {script} had returned."


def _signal(outcome: Outcome) -> str:
    """The signal, the script's line if it is known, and the usual cause."""
    try:
        name = signal.Signals(-outcome.exitcode).name
    except ValueError:
        name = f"signal {-outcome.exitcode}"
    at = f" at {outcome.where}" if outcome.where else ""
    if name == "SIGKILL":
        return name + _out_of_memory(outcome)
    if name == "SIGBUS":
        return name + at + _shared_memory_full(outcome)
    why = {"SIGSEGV": ", a fault in compiled code", "SIGABRT": ", by which compiled code gives up"}
    return name + at + why.get(name, "")


def _out_of_memory(outcome: Outcome) -> str:
    peak = f"it had used up to {memory(outcome.peak_memory)}" if outcome.peak_memory else "its use is not known"
    free = f", and {memory(outcome.machine.memory_available_bytes)} were free after that" if outcome.machine else ""
    return f", most often by the system because memory ran out: {peak}{free}"


def _shared_memory_full(outcome: Outcome) -> str:
    if outcome.machine is None or outcome.machine.shm_bytes is None:
        return ", a fault in memory that processes share"
    return (f", most often because shared memory ran out: /dev/shm holds {memory(outcome.machine.shm_bytes)}, of which "
            f"{memory(outcome.machine.shm_free_bytes)} are free; a container gets more with --shm-size=1g")


def _ranks(ranks: list[int]) -> str:
    return f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {', '.join(map(str, ranks))}"
