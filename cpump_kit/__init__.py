"""cpump: train PyTorch models on several CPU cores from a notebook, and see how your machine scales.

Importing this package needs the standard library alone; each public name brings its module when it is first used.
"""

import importlib
import importlib.util
import os
import sys

__version__ = "0.1.0"

_HOMES = {
    "machine": ["cores", "threads_per_worker"],
    "errors": ["CpumpError", "LaunchError", "WorkerError", "RunStopped"],
    "running.launch": ["launch"],
    "running.reporting": ["report"],
    "running.terminal": ["main"],
    "sharing.hook": ["shared_memory_hook"],
    "sharing.training": ["share_training"],
    "measuring.sweep": ["sweep", "load_sweep", "past_sweeps"],
    "measuring.projection": ["Network", "fit_network"],
    "choosing.comparison": ["compare_approaches"],
    "choosing.guide": ["guide"],
    "showing.compare": ["compare"],
    "showing.projection_chart": ["project_hosts"],
    "teaching.data": ["digits"],
    "teaching.text": ["text"],
    "teaching.predict": ["predict"],
    "teaching.show": ["show"],
    "teaching.checks": ["check", "hint"],
    "classroom.board": ["board"],
    "classroom.progress": ["progress"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError("module 'cpump_kit' has no attribute {!r}".format(name))
    value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_HOME))


def _launches_later():
    """True where a launch is likely: not on the kit's command line, not under torchrun, not in a child process."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    command_line = program == "-m" or program.partition(".")[0] == "cpump"
    # A child of multiprocessing says so in its command, and our fork server has a variable of its own besides: were
    # it to start another one, that one would too, without end.
    child = any("from multiprocessing." in word for word in getattr(sys, "orig_argv", []))
    child = child or "CPUMP_LEFTOVERS" in os.environ
    return not command_line and not child and "RANK" not in os.environ and importlib.util.find_spec("torch")


if _launches_later():
    from .running.processes import warm

    warm()
