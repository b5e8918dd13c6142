"""Checks of this machine for training on several cores: what it gives, what is wrong, and the cure for that."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from . import __version__, bootstrap, fixes, machine
from .style import count

MIB, GIB = 2**20, 2**30
HELP_PAGE = "notebooks/TROUBLESHOOTING.md"
GLOO_SECONDS = 60  # both ranks import torch, which takes tens of seconds on a slow disk

# One rank of the smallest training run there is: the sum over the ranks, through loopback alone.
GLOO_RANK = """
import os, sys, torch, torch.distributed as dist
path, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print(total.item(), flush=True)
os._exit(0)  # not through gloo's destructor, which can deadlock
"""


@dataclass(frozen=True)
class Check:
    """One line of the report. `state` is "ok", "note" (worth knowing) or "problem"; the last two have a `cure`."""

    name: str
    value: str
    state: str = "ok"
    cure: str | None = None


def main(arguments: list[str]) -> int:
    """`cpump doctor [--json | --fix]`: print the checks; the exit code is 1 if one of them is a problem."""
    if arguments not in ([], ["--json"], ["--fix"]):
        print("usage: cpump doctor [--json | --fix]")
        return 0 if set(arguments) & {"-h", "--help"} else 2
    checks = []
    for check in examine(mend=arguments == ["--fix"]):
        checks.append(check)
        if arguments != ["--json"]:
            print(as_text(check), flush=True)  # at once: gloo's check takes some seconds
    problems = sum(check.state == "problem" for check in checks)
    if arguments == ["--json"]:
        report = {"checks": [asdict(check) for check in checks], "ok": problems == 0, "short": in_short(checks)}
        print(json.dumps(report, indent=1))
        return 1 if problems else 0
    if problems:
        print(f"\n{problems} problem{'s' * (problems > 1)} found; the cure is below each, and {HELP_PAGE} tells more.")
    else:
        print("\nNo problem found: this machine is ready.")
    print(f"\nTo send to your teacher, or with a question:\n{in_short(checks)}")
    return 1 if problems else 0


def examine(mend: bool = False) -> Iterator[Check]:
    """Do every check, one after the other. One that fails unexpectedly is itself reported as a problem.

    mend   where a check finds a problem that can be mended safely, mend it and check again
    """
    for check in CHECKS:
        found = _examine(check)
        if mend and found.state != "ok" and found.name in fixes.FIXES:
            done = fixes.FIXES[found.name]()
            found = _examine(check) if done else found
            if done:
                found = replace(found, value=f"{found.value} ({done})")
        yield found


def _examine(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:
        return Check(check.__name__.replace("_", " "), f"{type(error).__name__}: {error}", "problem",
                     "Send this line to the person who looks after the machine.")


def in_short(checks: list[Check]) -> str:
    """All that a teacher has to know, in one line without names: the home folder, if it comes up, stands as ~."""
    found = _cores()
    shm = "none needed" if found.shm_free_bytes is None else _size(found.shm_free_bytes)
    facts = [f"cpump {__version__}", f"{platform.system()} {platform.machine()}", found.model,
             f"Python {platform.python_version()}", f"torch {_version('torch')}",
             f"{found.usable} usable of {count(found.logical, 'core')}",
             f"memory {_size(found.memory_available_bytes)} of {_size(found.memory_bytes)}", f"shm {shm}"]
    for state in ("problem", "note"):
        seen = [f"{check.name}: {check.value[:120]}" for check in checks if check.state == state]
        facts.append(f"{state}s: {'; '.join(seen) or 'none'}")
    return " | ".join(facts).replace(str(Path.home()), "~")


def as_text(check: Check) -> str:
    """The check in one line, and its cure in a second."""
    line = f"{check.state:<7}  {check.name:<15}  {check.value}"
    return f"{line}\n{'':<26}-> {check.cure}" if check.cure else line


def system() -> Check:
    return Check("system", f"{platform.system()} {platform.release()}, {platform.machine()}, {_cores().model}")


def cores() -> Check:
    found = _cores()
    quota = "none" if found.quota is None else f"{found.quota:g}"
    value = (f"{found.usable} usable ({found.logical} logical, {found.physical or 'unknown'} physical, "
             f"affinity mask {found.affinity}, control-group quota {quota})")
    if found.usable > 1:
        return Check("cores", value)
    if found.physical == 1:
        cure = "Everything runs, but nothing gets faster with more processes: use a machine with two cores or more."
    else:
        cure = "Ask for more CPUs (docker run --cpus=4, the size of your JupyterHub server, taskset)."
    return Check("cores", value, "note", cure)


def memory() -> Check:
    found = _cores()
    value = f"{_size(found.memory_available_bytes)} free of {_size(found.memory_bytes)}"
    if found.memory_available_bytes < GIB:
        return Check("memory", value, "problem", "Close other programs and notebooks: two workers need about 1 GiB.")
    if found.memory_available_bytes < 2 * GIB:
        return Check("memory", value, "note", "Enough for two workers; close other programs before you start more.")
    return Check("memory", value)


def shared_memory() -> Check:
    found = _cores()
    if found.shm_free_bytes is None:
        return Check("shared memory", f"no /dev/shm on {platform.system()}, and none needed")
    value = f"{_size(found.shm_free_bytes)} free of {_size(found.shm_bytes)} in /dev/shm"
    if found.shm_free_bytes < 256 * MIB:
        return Check("shared memory", value, "problem",
                     "Start the container with more, e.g. docker run --shm-size=2g; or delete old files in /dev/shm.")
    return Check("shared memory", value)


def python() -> Check:
    return Check("Python", f"{platform.python_version()}, {sys.executable}")


def packages() -> Check:
    others = [f"{name} {found} (not {pin})" for name, pin in pins().items()
              if name in bootstrap.NEEDED and (found := _version(name)) != pin]
    if not others:
        return Check("packages", "the classroom's versions")
    return Check("packages", ", ".join(others), "note",
                 "Other versions mostly work; for the classroom's, use the .venv that cpump makes, or environment.yml.")


def torch() -> Check:
    import torch

    build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
    threads, usable = torch.get_num_threads(), _cores().usable
    value = f"{torch.__version__} ({build}), {threads} intra-op thread{'s' * (threads > 1)} by default"
    if threads > usable:
        return Check("torch", value, "note", f"More threads than the {usable} usable cores slow each other down "
                     f"outside the kit, which sets them itself: torch.set_num_threads({usable}).")
    return Check("torch", value)


def omp_num_threads() -> Check:
    value = os.environ.get("OMP_NUM_THREADS")
    if value is None:
        return Check("OMP_NUM_THREADS", "not set")
    return Check("OMP_NUM_THREADS", f"set to {value}", "note",
                 "It limits the threads of each process and so changes what you measure: unset OMP_NUM_THREADS.")


def start_methods() -> Check:
    return Check("start methods", ", ".join(multiprocessing.get_all_start_methods()))


def gloo() -> Check:
    """A real all-reduce of two processes. They meet in a file, and gloo is kept on loopback."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    interface = machine.loopback_interface()
    if interface and sys.platform != "win32":
        environment["GLOO_SOCKET_IFNAME"] = interface
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ranks = [subprocess.Popen([sys.executable, "-c", GLOO_RANK, str(Path(folder) / "store"), str(rank)],
                                  env=environment, cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        try:
            outputs = [rank.communicate(timeout=GLOO_SECONDS) for rank in ranks]
        except subprocess.TimeoutExpired:
            return Check("gloo", f"no answer within {GLOO_SECONDS} s", "problem",
                         "Let Python talk to itself on 127.0.0.1: a firewall or a container may forbid it.")
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    if all(said.strip() == "3.0" for said, _ in outputs):
        return Check("gloo", "two processes agreed on a sum through loopback")
    errors = [error.strip().splitlines()[-1] for _, error in outputs if error.strip()]
    return Check("gloo", (errors or ["a process ended without a word"])[0][:300], "problem",
                 "Bring the loopback interface up (ip link set lo up), or reinstall torch if the import failed.")


def widgets() -> Check:
    from jupyter_core.paths import jupyter_path

    for folder in jupyter_path("labextensions"):
        package = Path(folder) / "@jupyter-widgets" / "jupyterlab-manager" / "package.json"
        if package.is_file():
            return Check("widgets", f"front end (jupyterlab_widgets {_version('jupyterlab_widgets')}) installed")
    return Check("widgets", "JupyterLab has no front end for widgets: live views would not show", "problem",
                 f"{sys.executable} -m pip install --force-reinstall jupyterlab_widgets, then start JupyterLab again.")


def kernel() -> Check:
    """The spec "python3" starts this interpreter: as "python" (Jupyter puts its own there) or by its full path."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return Check("kernel", "there is no kernel named python3", "problem",
                     f"{sys.executable} -m ipykernel install --sys-prefix")
    command = spec.argv[0]
    own = command in ("python", "python3", f"python3.{sys.version_info[1]}")
    # A venv's python is a link to its base: compare the names, not where the links lead.
    if own or os.path.abspath(command) == os.path.abspath(sys.executable):
        return Check("kernel", "python3 starts this Python")
    return Check("kernel", f"python3 starts {command}", "problem",
                 f"jupyter kernelspec remove python3 (it is in {spec.resource_dir} and hides this Python's kernel)")


def disk() -> Check:
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    value = f"{_size(free)} free in {folder}"
    if free < GIB / 2:
        return Check("disk", value, "problem", "Make room: notebooks cannot be saved on a full disk.")
    return Check("disk", value)


def pins() -> dict[str, str]:
    """The exact versions in pins.txt that hold for this Python, by package."""
    lines = bootstrap.PINS.read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in found if not pin.marker or pin.marker.evaluate()}


@cache
def _cores() -> machine.Cores:
    return machine.cores()


def _version(name: str) -> str:
    try:
        return metadata.version(name).partition("+")[0]  # 2.13.0+cpu is 2.13.0
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _size(number: int) -> str:
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / MIB:.0f} MiB"


CHECKS = (system, cores, memory, shared_memory, disk, python, packages, torch, omp_num_threads, start_methods, gloo,
          widgets, kernel)
