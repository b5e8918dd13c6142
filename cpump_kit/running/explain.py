"""Known errors of torch and multiprocessing whose own words do not help: what happened, and what to do."""

from __future__ import annotations

import errno
import os
import re
import traceback

NO_MAIN_GUARD = ("a process was started at the script's top level, and as it reads the script too, it would start one "
                 'itself, without end; put these lines into a function, or under if __name__ == "__main__":')


def explain(error: BaseException, printed: str) -> str | None:
    """One sentence without its full stop, or None for an error that speaks for itself.

    printed   the end of what the rank has printed, in which a process that it started may have said why it failed
    """
    text = str(error)
    for words, sentence in _BY_WORDS.items():
        if words in text:
            return sentence(text)
    if isinstance(error, RuntimeError) and "bootstrapping phase" in text + printed:
        return NO_MAIN_GUARD
    if isinstance(error, OSError):
        return _of_system(error)
    return None


def _unused_parameters(text: str) -> str:
    found = re.search(r"Parameters which did not receive grad for rank \d+: (.+)", text)
    names = f": {found[1]}" if found else ""
    return (f"DDP waits for the gradient of every parameter, and some took no part in the last step's loss{names}. "
            "Leave them out of the model, or wrap it with DDP(model, find_unused_parameters=True)")


def _no_interface(text: str) -> str:
    name = text.rpartition(":")[2].strip()
    return (f"this machine has no network interface {name}, which the environment variable GLOO_SOCKET_IFNAME names; "
            "unset it, or name one that is there")


def _port_taken(text: str) -> str:
    found = re.search(r"port: (\d+)", text)
    return (f"port {found[1] if found else 'asked for'} is taken, most likely by another run that still goes on; "
            "ask for port 0, which takes a free one, or end that run")


def _second_hook(text: str) -> str:
    return "this DDP model has a communication hook already, and it can have one; register only one"


def _of_system(error: OSError) -> str | None:
    if error.errno == errno.EMFILE:
        return f"too many open files: {_file_limit()} tensors sent through queues and DataLoader workers hold files too"
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.name.startswith("rebuild_storage") or "resource_sharer" in frame.filename for frame in frames):
        return ("the process that sent this tensor has ended, and the tensor went with it; send tensor.numpy(), or "
                "keep that process until the tensor is received")
    return None


def _file_limit() -> str:
    if os.name == "nt":
        return ""
    import resource

    return f"this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} (ulimit -n shows and sets it);"


_BY_WORDS = {
    "Expected to have finished reduction in the prior iteration": _unused_parameters,
    "Unable to find address for": _no_interface,
    "EADDRINUSE": _port_taken,
    "can only be called once": _second_hook,
}
