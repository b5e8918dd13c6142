"""Sets up the packages: makes `.venv` beside pyproject.toml, installs the pinned ones, and starts again in it.

Standard library only. This file and `__main__` must load on every Python from 3.6 on, to be able to say that it
is too old: hence no `from __future__ import annotations`, no `X | Y`, no walrus.
"""

import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
PINS = PACKAGE / "pins.txt"
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").exists() else None  # None: installed with pip

OLDEST_PYTHON = (3, 10)
# The imports that tell whether an interpreter has everything; pyproject.toml lists the same packages.
NEEDED = ("torch", "numpy", "jupyterlab", "ipykernel", "ipywidgets", "matplotlib", "cloudpickle", "psutil", "rich",
          "platformdirs", "pygments", "nbformat", "nbconvert")
NEEDED_FOR_TESTS = ("pytest", "nbval", "nbclient", "playwright", "axe_playwright_python", "hatchling")

# PyTorch's own index of builds without CUDA, which are a tenth of the size. (Other systems' builds have no CUDA.)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Free space that an installation takes, download and unpacked, in GB.
SPACE_CPU, SPACE_CUDA, SPACE_WITHOUT_TORCH = 2.5, 9.0, 0.8

RESTARTS = "CPUMP_RESTARTS"  # how often this command has started itself again, in the environment
AGAIN = "run the same command again: it goes on where it stopped"

NO_SPACE = r"No space left on device|Disk quota exceeded|Errno 28\b|WinError 112\b"
NOT_ALLOWED = r"Permission denied|Errno 13\b|WinError 5\b|Read-only file system"
NO_NETWORK = (
    r"connection error|NewConnectionError|NameResolutionError|Max retries exceeded|Failed to establish a new connection"
    r"|Read timed out|ReadTimeout|ConnectTimeout|Connection broken|Connection aborted|IncompleteRead|ProxyError"
    r"|No matching distribution found for hatchling"  # the first that is asked for, by a pip inside pip
)


class SetupError(Exception):
    """The set-up cannot go on; the text is the one sentence for the user."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code


def ensure(arguments, tests=False):
    """Return if this interpreter has every package; else install them in `.venv` and go on there, without return.

    `arguments` are those of the command line, which the new interpreter gets again. Raises SetupError.
    """
    restarts = int(os.environ.pop(RESTARTS, "0"))
    missing = [name for name in NEEDED + (NEEDED_FOR_TESTS if tests else ()) if not importlib.util.find_spec(name)]
    if CHECKOUT is None:
        if missing:
            raise SetupError(_without_checkout(missing, tests))
        return
    venv = CHECKOUT / ".venv"
    inside = os.path.realpath(sys.prefix) == os.path.realpath(str(venv))
    # An import that is found proves nothing in a `.venv` whose installation was interrupted: there the marker counts.
    if not missing and not (inside and _marker(venv).exists() and not complete(venv, tests)):
        return
    if restarts > 1:
        raise SetupError("{} still cannot be imported after the installation: delete {} and run the same command "
                         "again".format(", ".join(missing) or "A package", venv))
    if inside or not complete(venv, tests):
        try:
            install(venv, tests)
        except KeyboardInterrupt:
            raise SetupError("Stopped. To finish the set-up, " + AGAIN + ".", code=130) from None
        except OSError as error:
            raise SetupError(explain("ERROR: {}: {}".format(type(error).__name__, error))) from None
    os.environ[RESTARTS] = str(restarts + 1)
    become([venv_python(venv), "-m", "cpump_kit"] + list(arguments))


def complete(venv, tests):
    """Whether an installation of exactly these pins, from exactly this folder, came to its end in `venv`."""
    try:
        found = _marker(venv).read_text().strip()
    except OSError:
        return False
    return os.path.exists(venv_python(venv)) and found in (_state(True), _state(tests))


def install(venv, tests):
    """Make or mend `venv` and install the packages there, with pip's own progress on the terminal."""
    torch = _pinned("torch")
    cpu_build = sys.platform == "linux" and not glob.glob("/dev/nvidia[0-9]*")
    _check_folder(venv)
    _check_space(venv, torch, cpu_build)
    _say("Setting up cpump in {} (once, a few minutes; Ctrl-C stops it, and it can go on later).".format(venv))
    _make_venv(venv)
    _marker(venv).write_text("installing\n")
    _drop_half_installed(venv)
    if cpu_build and not _installed(venv, torch):
        _install_cpu_torch(venv, torch)
    target = str(CHECKOUT) + ("[test]" if tests else "")
    log = _pip(venv, "-c", str(PINS), "-e", target)
    if log:
        raise SetupError(explain(log))
    _marker(venv).write_text(_state(tests) + "\n")
    _say("Set up.\n")


def explain(log):
    """The sentence for the log of a pip that failed."""
    errors = re.findall(r"ERROR: ([^\[\n].*)", log)
    said = " (pip: {})".format(errors[-1].strip()[:200]) if errors else ""
    if re.search(NO_SPACE, log):
        return ("The disk is full: free about {} GB in {} (and in {}, where pip unpacks), and {}."
                .format(SPACE_CPU, CHECKOUT, tempfile.gettempdir(), AGAIN))
    if re.search(NOT_ALLOWED, log):
        return "A folder cannot be written to{}: mend its permissions, and {}.".format(said, AGAIN)
    if re.search(NO_NETWORK, log):
        return ("The package index cannot be reached, or the connection broke off{}: check the network (or the "
                "proxy, or PIP_INDEX_URL), and {}.".format(said, AGAIN))
    return "The packages could not be installed{}; all that pip said is in {}.".format(said, CHECKOUT / ".venv/pip.log")


def become(command):
    """Replace this process by `command`, so that Ctrl-C and the exit code are the command's own. Does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    child = subprocess.Popen(command)
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:
            pass  # the child got it too, and decides


def venv_python(venv):
    return str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def _without_checkout(missing, tests):
    return ("Missing here: {}. Install with: {} -m pip install {}"
            .format(", ".join(missing), sys.executable, '"cpump[test]"' if tests else "cpump"))


def _marker(venv):
    return venv / "cpump-setup.txt"


def _state(tests):
    """What the marker of a complete installation says. The folder counts: `-e` points there, and folders are moved."""
    parts = [PINS.read_text(), (CHECKOUT / "pyproject.toml").read_text(), str(CHECKOUT), "test" if tests else ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _pinned(name):
    return re.search(r"^{}==(\S+?);?(\s|$)".format(name), PINS.read_text(), re.M).group(1)


def _packages(venv, pattern):
    """Metadata folders of the packages in `venv`."""
    roots = [venv / "Lib"] if os.name == "nt" else list(venv.glob("lib/python*"))
    return [found for root in roots for found in root.glob("site-packages/" + pattern)]


def _installed(venv, torch):
    return bool(_packages(venv, "torch-{}*.dist-info".format(torch)))


def _drop_half_installed(venv):
    """Make pip install again what it was writing when it was killed: it writes a package's RECORD last."""
    for folder in _packages(venv, "*.dist-info"):
        if not (folder / "RECORD").exists():
            shutil.rmtree(str(folder))


def _check_folder(venv):
    for folder in (CHECKOUT, venv):
        if folder.exists() and not os.access(str(folder), os.W_OK):
            raise SetupError("{} cannot be written to: copy the checkout to a folder of your own and run the "
                             "command there.".format(folder))


def _check_space(venv, torch, cpu_build):
    free = shutil.disk_usage(str(CHECKOUT)).free / 1e9
    if _installed(venv, torch):
        needed = SPACE_WITHOUT_TORCH
    else:
        needed = SPACE_CPU if cpu_build or sys.platform != "linux" else SPACE_CUDA
    if free < needed:
        raise SetupError("The packages need about {} GB of disk space and {} has {:.1f} GB free: make room, or move "
                         "the checkout, and run the same command again.".format(needed, CHECKOUT, free))


def _make_venv(venv):
    """Make `venv`, or mend it where it has no working pip; only one whose Python does not run is made anew."""
    if _runs(venv, "-m", "pip", "--version"):
        return
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise SetupError("This Python cannot make virtual environments: install its venv module (Debian, Ubuntu: "
                         "sudo apt install python{}.{}-venv) and run the same command again."
                         .format(*sys.version_info[:2]))
    # From inside a virtual environment `_base_executable` is the Python under it, which outlives it.
    python = getattr(sys, "_base_executable", None) or sys.executable
    command = [python, "-m", "venv"] + ([] if _runs(venv, "-c", "") else ["--clear"]) + [str(venv)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    output = process.communicate()[0]
    if _runs(venv, "-m", "pip", "--version"):
        return
    if re.search(NO_SPACE + "|" + NOT_ALLOWED, output):
        raise SetupError(explain(output))
    last = (output.strip().splitlines() or ["it said nothing"])[-1]
    raise SetupError("{} could not make the virtual environment {} ({}): delete that folder and run the same command "
                     "again.".format(python, venv, last))


def _runs(venv, *arguments):
    try:
        command = [venv_python(venv)] + list(arguments)
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def _install_cpu_torch(venv, torch):
    """Get torch without CUDA, if PyTorch's own index can be reached; the ordinary index serves otherwise."""
    log = _pip(venv, "--no-deps", "--timeout", "15", "--retries", "1", "--index-url", CPU_INDEX, "torch==" + torch)
    if not log:
        return
    if "No matching distribution found" not in log and not re.search(NO_NETWORK, log):
        raise SetupError(explain(log))
    _say("That is no harm: {} did not serve torch {}, so the ordinary package index does (its build for Linux "
         "may bring CUDA along, a download of some 3 GB).".format(CPU_INDEX, torch))


def _say(text):
    """To stderr, as pip's progress: what the command itself prints, such as `doctor --json`, stays clean."""
    print(text, file=sys.stderr, flush=True)


def _pip(venv, *arguments):
    """Run `pip install`; "" if it succeeded, else its log."""
    log = venv / "pip.log"
    if log.exists():
        log.unlink()
    # PIP_USER=1, common on shared servers, would have pip refuse a virtual environment.
    environment = dict(os.environ, PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = [venv_python(venv), "-m", "pip", "install", "--log", str(log)] + list(arguments)
    process = subprocess.Popen(command, env=environment, cwd=str(venv), stdout=sys.__stderr__)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        # pip got the same Ctrl-C and removes its temporary files, which may be gigabytes.
        try:
            process.wait(timeout=10)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            process.kill()
        raise
    return "" if code == 0 else (log.read_text(errors="replace") if log.exists() else "") or "pip failed"
