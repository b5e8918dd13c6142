"""The set-up: which interpreter is used, what is installed, and the one sentence for each thing that can go wrong."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

from cpump_kit import __main__ as commands
from cpump_kit import bootstrap

CHECKOUT = Path(__file__).parents[1]
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.[6-9].*/bin/python"))
CLOSED = "http://127.0.0.1:1"  # nothing listens there


def pyproject() -> dict:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10, where pytest brings tomli
        import tomli as tomllib
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def pins(python: str) -> dict[str, str]:
    lines = bootstrap.PINS.read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in found
            if not pin.marker or pin.marker.evaluate({"python_version": python})}


def names(requirements: list[str]) -> list[str]:
    return [Requirement(each).name for each in requirements]


# What is needed, in one voice

def test_the_imports_that_are_looked_for_are_the_dependencies():
    project = pyproject()["project"]
    assert list(bootstrap.NEEDED) == names(project["dependencies"])
    assert list(bootstrap.NEEDED_FOR_TESTS) == names(project["optional-dependencies"]["test"])


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.14"])
def test_every_direct_dependency_is_pinned_within_its_bounds(python):
    project = pyproject()["project"]
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    pinned = pins(python)
    assert set(pinned) == set(names(wanted))
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pinned[requirement.name])


def test_the_conda_environment_has_the_same_versions():
    environment = yaml.safe_load((CHECKOUT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    versions = dict(package.split("=") for package in conda if "=" in package)
    python = versions.pop("python")
    conda_names = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base"}
    pinned = pins(python)
    assert versions == {conda_names.get(name, name): pinned[name] for name in bootstrap.NEEDED}
    assert pip == {"pip": ["-c cpump_kit/pins.txt", "-e .[test]"]}  # so that `test` installs nothing either


def test_continuous_integration_runs_the_command_of_the_readme():
    command = "python3 -m cpump_kit test"
    assert (CHECKOUT / ".ci/run").read_text().splitlines()[-1] == "exec " + command
    assert command in (CHECKOUT / "README.md").read_text(encoding="utf-8")


# Pythons that are too old

@pytest.mark.parametrize("file", ["__init__.py", "__main__.py", "bootstrap.py"])
def test_what_runs_first_parses_on_python_3_6(file):
    tree = ast.parse((bootstrap.PACKAGE / file).read_text(), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "annotations" not in imported  # a syntax error before 3.7


@pytest.mark.skipif(not OLD_PYTHONS, reason="no Python 3.6 to 3.9 under ~/.pyenv")
@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: path.parts[-3])
def test_an_old_python_is_told_in_one_sentence(python):
    done = subprocess.run([python, "-B", "-m", "cpump_kit", "lab"], cwd=CHECKOUT, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cpump: Python 3.10 or newer is needed, and this is Python 3.")
    assert done.stderr.count("\n") == 1


# Commands

def test_an_unknown_command_names_the_nearest(capsys):
    assert commands.main(["docter"]) == 2
    assert "did you mean doctor?" in capsys.readouterr().err
    assert commands.main(["xyz"]) == 2
    assert "lab, test, doctor, run" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["lab", "--help"]])
def test_help_sets_nothing_up(arguments, capsys, monkeypatch):
    monkeypatch.setattr(bootstrap, "ensure", None)
    assert commands.main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in commands.COMMANDS)


def test_a_failed_set_up_is_one_sentence_and_its_exit_code(capsys, monkeypatch):
    def ensure(arguments, tests):
        raise bootstrap.SetupError("No disk.", code=130)

    monkeypatch.setattr(bootstrap, "ensure", ensure)
    assert commands.main(["doctor"]) == 130
    assert capsys.readouterr().err == "cpump: No disk.\n"


def test_kernels_find_a_kit_that_is_not_installed(monkeypatch):
    def distribution(name):
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    monkeypatch.setenv("PYTHONPATH", "before")
    commands._make_importable()
    assert os.environ["PYTHONPATH"] == f"{CHECKOUT}{os.pathsep}before"


# Which interpreter goes on

class Restarted(Exception):
    pass


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in which torch seems to be missing, installing is pretended and a restart raises."""
    made = {"installs": 0, "missing": {"torch"}}
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    found = bootstrap.importlib.util.find_spec
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec",
                        lambda name: None if name in made["missing"] else found(name))

    def install(venv, tests):
        made["installs"] += 1
        python = Path(bootstrap.venv_python(venv))
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        bootstrap._marker(venv).write_text(bootstrap._state(tests))

    def become(command):
        made["command"] = command
        raise Restarted

    monkeypatch.setattr(bootstrap, "install", install)
    monkeypatch.setattr(bootstrap, "become", become)
    monkeypatch.delenv(bootstrap.RESTARTS, raising=False)
    made["venv"] = tmp_path / ".venv"
    yield made
    os.environ.pop(bootstrap.RESTARTS, None)


def test_an_interpreter_that_has_everything_is_used(checkout):
    checkout["missing"] = set()
    bootstrap.ensure(["doctor"], tests=True)
    assert checkout["installs"] == 0


def test_missing_packages_are_installed_and_the_command_starts_again(checkout):
    with pytest.raises(Restarted):
        bootstrap.ensure(["run", "a b.py"])
    assert checkout["command"] == [bootstrap.venv_python(checkout["venv"]), "-m", "cpump_kit", "run", "a b.py"]
    assert checkout["installs"] == 1
    os.environ.pop(bootstrap.RESTARTS)
    with pytest.raises(Restarted):
        bootstrap.ensure(["doctor"])
    assert checkout["installs"] == 1, "a complete .venv is used at once"


@pytest.mark.parametrize("change", ["pins", "folder", "tests", "marker", "python"])
def test_an_environment_that_is_not_this_one_is_brought_up_to_date(checkout, change, monkeypatch, tmp_path):
    with pytest.raises(Restarted):
        bootstrap.ensure(["doctor"])
    os.environ.pop(bootstrap.RESTARTS)
    venv = checkout["venv"]
    if change == "pins":
        (tmp_path / "pyproject.toml").write_text("# new")
    elif change == "folder":
        tmp_path.rename(tmp_path.with_name("moved"))
        monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path.with_name("moved"))
    elif change == "marker":
        bootstrap._marker(venv).write_text("installing")
    elif change == "python":
        os.remove(bootstrap.venv_python(venv))
    with pytest.raises(Restarted):
        bootstrap.ensure(["test"], tests=change == "tests")
    assert checkout["installs"] == 2


def test_an_environment_for_tests_serves_the_other_commands(checkout):
    for arguments, tests in (["test"], True), (["lab"], False):
        with pytest.raises(Restarted):
            bootstrap.ensure(arguments, tests=tests)
        os.environ.pop(bootstrap.RESTARTS)
    assert checkout["installs"] == 1


def test_starting_again_has_an_end(checkout, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(checkout["venv"]))
    for _ in range(2):
        with pytest.raises(Restarted):
            bootstrap.ensure(["doctor"])
    with pytest.raises(bootstrap.SetupError, match="torch still cannot be imported"):
        bootstrap.ensure(["doctor"])
    assert bootstrap.RESTARTS not in os.environ, "what the command starts must not inherit the count"


def test_an_interrupted_environment_is_finished_though_its_imports_are_found(checkout, monkeypatch):
    checkout["missing"] = set()
    monkeypatch.setattr(sys, "prefix", str(checkout["venv"]))
    bootstrap.ensure(["doctor"])  # no marker: made by hand, and complete
    assert checkout["installs"] == 0
    checkout["venv"].mkdir()
    bootstrap._marker(checkout["venv"]).write_text("installing")
    with pytest.raises(Restarted):
        bootstrap.ensure(["doctor"])
    assert checkout["installs"] == 1


def test_ctrl_c_says_that_the_same_command_goes_on(checkout, monkeypatch):
    def install(venv, tests):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "install", install)
    with pytest.raises(bootstrap.SetupError, match="run the same command again") as stopped:
        bootstrap.ensure(["doctor"])
    assert stopped.value.code == 130


def test_a_disk_that_fills_up_under_us_is_one_sentence_too(checkout, monkeypatch):
    def install(venv, tests):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bootstrap, "install", install)
    with pytest.raises(bootstrap.SetupError, match="The disk is full"):
        bootstrap.ensure(["doctor"])


def test_without_a_checkout_there_is_one_pip_command(checkout, monkeypatch):
    monkeypatch.setattr(bootstrap, "CHECKOUT", None)
    with pytest.raises(bootstrap.SetupError, match=r"Missing here: torch\. Install with: .* -m pip install cpump$"):
        bootstrap.ensure(["doctor"])


# What pip is asked for

@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Records the calls of pip in a new checkout; `answers` are the logs they leave, the rest succeed."""
    calls, answers = [], []
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    monkeypatch.setattr(bootstrap, "_make_venv", lambda venv: venv.mkdir(exist_ok=True))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bootstrap.glob, "glob", lambda pattern: [])

    def call(venv, *arguments):
        calls.append(arguments)
        return answers.pop(0) if answers else ""

    monkeypatch.setattr(bootstrap, "_pip", call)
    return calls, answers, tmp_path / ".venv"


def test_linux_without_a_gpu_gets_torch_without_cuda_first(pip):
    calls, _, venv = pip
    bootstrap.install(venv, tests=True)
    first, second = calls
    assert {"--no-deps", bootstrap.CPU_INDEX, "torch==" + pins("3.12")["torch"]} <= set(first)
    assert second == ("-c", str(bootstrap.PINS), "-e", f"{venv.parent}[test]")
    assert bootstrap._marker(venv).read_text().strip() == bootstrap._state(True)


@pytest.mark.parametrize("platform, gpus", [("linux", ["/dev/nvidia0"]), ("darwin", []), ("win32", [])])
def test_elsewhere_the_ordinary_index_serves(pip, platform, gpus, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(bootstrap.glob, "glob", lambda pattern: gpus)
    calls, _, venv = pip
    bootstrap.install(venv, tests=False)
    assert calls == [("-c", str(bootstrap.PINS), "-e", str(venv.parent))]


def test_torch_that_is_there_is_kept_and_what_is_half_written_is_dropped(pip):
    calls, _, venv = pip
    packages = venv / ("Lib" if os.name == "nt" else "lib/python3.12") / "site-packages"
    whole, half = packages / f"torch-{pins('3.12')['torch']}+cpu.dist-info", packages / "rich-1.dist-info"
    for folder in whole, half:
        folder.mkdir(parents=True)
    (whole / "RECORD").touch()
    bootstrap.install(venv, tests=False)
    assert whole.exists() and not half.exists()
    assert len(calls) == 1


def test_an_unreachable_cpu_index_does_no_harm(pip, capsys):
    calls, answers, venv = pip
    answers.append("connection error: ... ERROR: No matching distribution found for torch==2.13.0")
    bootstrap.install(venv, tests=False)
    assert len(calls) == 2 and "the ordinary package index does" in capsys.readouterr().err


@pytest.mark.parametrize("log, sentence", [
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "The disk is full"),
    ("ERROR: [Errno 122] Disk quota exceeded: '/home/me'", "The disk is full"),
    ("ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: 'x'", "cannot be written to"),
    ("Could not fetch URL: connection error: Max retries exceeded\n2026 ERROR: No matching distribution found for x",
     "package index cannot be reached, or the connection broke off (pip: No matching distribution found for x)"),
    ("ERROR: ReadTimeoutError: Read timed out.", "connection broke off"),
    ("ERROR: Failed to build installable wheels for x", "The packages could not be installed (pip: Failed to build"),
])
def test_what_pip_says_becomes_one_sentence(pip, log, sentence):
    _, answers, venv = pip
    answers += ["ERROR: No matching distribution found for torch==2.13.0", log]
    with pytest.raises(bootstrap.SetupError) as failed:
        bootstrap.install(venv, tests=False)
    assert sentence in str(failed.value) and "\n" not in str(failed.value)
    assert not bootstrap.complete(venv, tests=False)


def test_a_full_disk_is_said_before_anything_is_made(pip, monkeypatch):
    calls, _, venv = pip
    usage = shutil.disk_usage(CHECKOUT)._replace(free=10**9)
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(bootstrap.SetupError, match=r"need about 2\.5 GB .* has 1\.0 GB free"):
        bootstrap.install(venv, tests=False)
    assert not venv.exists() and not calls


def test_a_folder_of_someone_else_is_said_before_anything_is_made(pip, monkeypatch):
    _, _, venv = pip
    monkeypatch.setattr(bootstrap.os, "access", lambda path, mode: False)
    with pytest.raises(bootstrap.SetupError, match="cannot be written to: copy the checkout"):
        bootstrap.install(venv, tests=False)
    assert not venv.exists()


# Virtual environments, made for real

def test_a_python_without_the_venv_module_names_the_debian_package(tmp_path, monkeypatch):
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: name != "ensurepip" or None)
    version = f"python3.{sys.version_info[1]}-venv"
    with pytest.raises(bootstrap.SetupError, match=f"sudo apt install {version}"):
        bootstrap._make_venv(tmp_path / ".venv")


def test_a_broken_environment_is_made_anew(tmp_path):
    venv = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    os.remove(bootstrap.venv_python(venv))
    os.symlink("/nowhere/python", bootstrap.venv_python(venv))  # its Python was removed from the machine
    bootstrap._make_venv(venv)
    assert bootstrap._runs(venv, "-m", "pip", "--version")


@pytest.fixture
def bare(tmp_path):
    """A checkout, and a Python without packages whose pip reaches no index."""
    folder = tmp_path / "check out"
    shutil.copytree(bootstrap.PACKAGE, folder / "cpump_kit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    environment.update(PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=CLOSED + "/simple", PIP_RETRIES="0",
                       HTTPS_PROXY=CLOSED, https_proxy=CLOSED, NO_PROXY="")
    return {"args": [bootstrap.venv_python(tmp_path / "bare"), "-m", "cpump_kit", "doctor"], "cwd": folder,
            "env": environment, "text": True}


def test_offline_the_command_ends_with_one_sentence(bare):
    venv = bare["cwd"] / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)  # as if interrupted
    (venv / "kept").touch()
    done = subprocess.run(**bare, capture_output=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the ordinary package index does" in done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cpump: The package index cannot be reached"), done.stderr
    assert (venv / "cpump-setup.txt").read_text() == "installing\n"
    assert (venv / "kept").exists(), "an environment that lacks only pip is mended, not made anew"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process group")
def test_ctrl_c_while_the_environment_is_made(bare):
    process = subprocess.Popen(**bare, start_new_session=True, stderr=subprocess.PIPE)
    assert "Setting up" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("cpump: Stopped."), errors


# Lessons for people without a checkout

@pytest.fixture
def lessons(tmp_path):
    source = tmp_path / "source"
    for name in "README.md", "00_machine.ipynb", "scripts/ddp.py", ".ipynb_checkpoints/x.ipynb":
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    return source


def test_lessons_are_copied_and_never_overwritten(lessons, tmp_path):
    mine = tmp_path / "deep" / "mine"
    assert commands.copy_lessons(lessons, mine) == []
    assert commands.copy_lessons(lessons, mine) == []
    (mine / "scripts/ddp.py").write_text("my work")
    (mine / "README.md").unlink()
    (lessons / "00_machine.ipynb").write_text("a newer edition")
    assert commands.copy_lessons(lessons, mine) == ["00_machine.ipynb", "scripts/ddp.py"]
    assert (mine / "scripts/ddp.py").read_text() == "my work"
    assert (mine / "00_machine.ipynb").read_text() == "00_machine.ipynb"
    assert sorted(path.name for path in mine.rglob("*")) == ["00_machine.ipynb", "README.md", "ddp.py", "scripts"]


def test_lessons_that_cannot_be_copied(lessons, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bootstrap, "CHECKOUT", lessons)
    (lessons / "notebooks").mkdir()
    (lessons / "notebooks" / "x.ipynb").touch()
    (tmp_path / "file").touch()
    assert commands.lab([str(tmp_path / "file")]) == 1
    assert "cannot copy the lessons to" in capsys.readouterr().err


def test_the_wheel_has_the_lessons_and_the_data(tmp_path):
    [wheel] = WheelBuilder(str(CHECKOUT)).build(directory=str(tmp_path), versions=["standard"])
    inside = zipfile.ZipFile(wheel).namelist()
    wanted = ["pins.txt", "teaching/digits.npz", "notebooks/scripts/ddp.py", "jupyter/jupyter_lab_config.json"]
    assert {f"cpump_kit/{name}" for name in wanted} <= set(inside)


# JupyterLab, for real

def test_lab_opens_on_the_map_of_lessons_for_this_machine_only(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.md").write_text("# My map")
    command = [sys.executable, "-m", "cpump_kit", "lab", str(mine), "--no-browser", "--port=0",
               "--IdentityProvider.token=abc"]
    environment = dict(os.environ, JUPYTER_RUNTIME_DIR=str(tmp_path / "run"), HOME=str(tmp_path))
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=log, stderr=log)
    try:
        server = _server(tmp_path / "run", process)
        with urllib.request.urlopen(f"{server['url']}?token=abc", timeout=30) as answer:
            landed = answer.url
        with urllib.request.urlopen(f"{server['url']}lab/api/settings?token=abc", timeout=60) as answer:
            schemas = {each["id"]: each["schema"].get("properties") for each in json.load(answer)["settings"]}
    finally:
        process.terminate()
        process.wait(30)
    assert server["pid"] == process.pid or os.name == "nt", "Ctrl-C must reach JupyterLab itself"
    assert server["hostname"] == "127.0.0.1"
    assert Path(server["root_dir"]) == mine
    assert landed.startswith(f"{server['url']}lab/tree/README.md")
    viewers = schemas["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]
    assert viewers["default"] == {"markdown": "Markdown Preview"}
    notification = schemas["@jupyterlab/apputils-extension:notification"]
    assert notification["fetchNews"]["default"] == "false" and notification["checkForUpdates"]["default"] is False


def _server(folder: Path, process: subprocess.Popen) -> dict:
    """What the server says of itself in its runtime folder, as soon as it answers."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        for file in folder.glob("jpserver-*.json"):
            try:
                server = json.loads(file.read_text())
                urllib.request.urlopen(server["url"] + "api?token=abc", timeout=5).close()
                return server
            except (OSError, ValueError):
                pass
        time.sleep(0.1)
    raise AssertionError((folder.parent / "log").read_text())
