"""The doctor: every check on this machine, and each problem with its cure."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from cpump_kit import doctor, fixes, machine


@pytest.fixture
def found(monkeypatch):
    """Lets a test set what the machine gives: found(usable=1)."""
    def pretend(**values):
        pretended = dataclasses.replace(machine.cores(), **values)
        monkeypatch.setattr(doctor, "_cores", lambda: pretended)

    return pretend


def assert_cure(check: doctor.Check, state: str, cure: str) -> None:
    assert check.state == state
    assert cure in check.cure


def test_the_command_says_everything_in_json():
    command = [sys.executable, "-m", "cpump_kit", "doctor", "--json"]
    done = subprocess.run(command, text=True, capture_output=True, cwd=doctor.bootstrap.PACKAGE.parent)
    report = json.loads(done.stdout)
    names = [check["name"] for check in report["checks"]]
    assert names == ["system", "cores", "memory", "shared memory", "disk", "Python", "packages", "torch",
                     "OMP_NUM_THREADS", "start methods", "gloo", "widgets", "kernel"]
    assert all(set(check) == {"name", "value", "state", "cure"} for check in report["checks"])
    assert all(bool(check["cure"]) == (check["state"] != "ok") for check in report["checks"])
    assert report["ok"] == all(check["state"] != "problem" for check in report["checks"])
    assert done.returncode == (0 if report["ok"] else 1)
    assert report["short"].startswith("cpump ") and "\n" not in report["short"]
    by_name = {check["name"]: check for check in report["checks"]}
    assert by_name["gloo"]["state"] == "ok", by_name["gloo"]
    assert by_name["widgets"]["state"] == "ok", by_name["widgets"]


def test_text_and_exit_code(capsys, monkeypatch):
    bad = doctor.Check("disk", "0 MiB free", "problem", "Make room.")
    monkeypatch.setattr(doctor, "CHECKS", [lambda: doctor.Check("torch", "2.13.0"), lambda: bad])
    assert doctor.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ok", "torch", "2.13.0"]
    assert lines[1].split() == ["problem", "disk", "0", "MiB", "free"]
    assert lines[2].strip() == "-> Make room."
    assert lines[4] == "1 problem found; the cure is below each, and notebooks/TROUBLESHOOTING.md tells more."
    assert lines[-1].endswith("| problems: disk: 0 MiB free | notes: none")
    monkeypatch.setattr(doctor, "CHECKS", [lambda: doctor.Check("torch", "2.13.0")])
    assert doctor.main([]) == 0
    assert "No problem found" in capsys.readouterr().out


def test_an_unknown_option_is_refused(capsys):
    assert doctor.main(["--jsn"]) == 2
    assert "usage: cpump doctor [--json | --fix]" in capsys.readouterr().out


def test_a_check_that_fails_is_itself_a_problem(monkeypatch):
    def shared_memory():
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "CHECKS", [shared_memory])
    [check] = doctor.examine()
    assert (check.name, check.value, check.state) == ("shared memory", "OSError: no such device", "problem")


def test_cores(found):
    found(usable=4)
    assert doctor.cores().state == "ok"
    found(usable=1, physical=1)
    assert_cure(doctor.cores(), "note", "use a machine with two cores")
    found(usable=1, physical=8, quota=1.0)
    assert_cure(doctor.cores(), "note", "--cpus=4")


def test_memory(found):
    found(memory_available_bytes=8 * 2**30)
    assert doctor.memory().state == "ok"
    found(memory_available_bytes=int(1.5 * 2**30))
    assert_cure(doctor.memory(), "note", "close other programs")
    found(memory_available_bytes=2**29)
    assert_cure(doctor.memory(), "problem", "Close other programs")
    assert doctor.memory().value.startswith("512 MiB free of ")


def test_shared_memory(found):
    found(shm_bytes=64 * 2**20, shm_free_bytes=60 * 2**20)  # what Docker gives unless told otherwise
    assert_cure(doctor.shared_memory(), "problem", "--shm-size=2g")
    found(shm_bytes=None, shm_free_bytes=None)
    assert doctor.shared_memory().state == "ok"


def test_torch_threads(found):
    import torch

    found(usable=torch.get_num_threads())
    assert doctor.torch().state == "ok"
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        found(usable=2)
        assert_cure(doctor.torch(), "note", "torch.set_num_threads(2)")
    finally:
        torch.set_num_threads(threads)


def test_packages(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == "rich" else doctor.pins()[name])
    assert_cure(doctor.packages(), "note", "classroom's")
    assert doctor.packages().value == f"rich 1.0 (not {doctor.pins()['rich']})"


def test_omp_num_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert doctor.omp_num_threads().state == "ok"
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert_cure(doctor.omp_num_threads(), "note", "unset OMP_NUM_THREADS")


@pytest.mark.parametrize("program, value", [
    ("raise SystemExit('RuntimeError: no interface')", "RuntimeError: no interface"),
    ("import os; os._exit(3)", "a process ended without a word"),
    ("import time; time.sleep(60)", "no answer within 0.2 s"),
])
def test_gloo_that_does_not_work(program, value, monkeypatch):
    monkeypatch.setattr(doctor, "GLOO_RANK", program)
    if "no answer" in value:
        monkeypatch.setattr(doctor, "GLOO_SECONDS", 0.2)
    else:
        monkeypatch.setattr(doctor, "GLOO_SECONDS", 60)
    check = doctor.gloo()
    assert check.value == value
    assert_cure(check, "problem", "loopback" if "no answer" not in value else "127.0.0.1")


def test_widgets_that_are_not_installed(monkeypatch):
    import jupyter_core.paths

    monkeypatch.setattr(jupyter_core.paths, "jupyter_path", lambda *names: ["/nowhere"])
    assert_cure(doctor.widgets(), "problem", "--force-reinstall jupyterlab_widgets")


@pytest.mark.parametrize("command, state", [
    ("python", "ok"), (sys.executable, "ok"), ("/usr/bin/another-python", "problem")])
def test_the_kernel_is_this_python(command, state, tmp_path, monkeypatch):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": [command, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python 3"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    check = doctor.kernel()
    assert check.state == state
    if state == "problem":
        assert check.value == f"python3 starts {command}"
        assert_cure(check, "problem", "jupyter kernelspec remove python3")


def test_a_full_disk(monkeypatch):
    usage = doctor.shutil.disk_usage(os.getcwd())._replace(free=2**20)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert_cure(doctor.disk(), "problem", "Make room")


def test_the_short_text_names_neither_the_user_nor_the_home_folder():
    home = str(doctor.Path.home())
    short = doctor.in_short([doctor.Check("kernel", f"python3 starts {home}/bin/python", "problem", "Remove it.")])
    assert "problems: kernel: python3 starts ~/bin/python | notes: none" in short
    assert home not in short


def test_fix_mends_checks_again_and_says_what_it_did(monkeypatch, capsys):
    state = ["problem"]

    def widgets():
        return doctor.Check("widgets", "missing" if state[0] == "problem" else "installed", state[0], "Install them.")

    monkeypatch.setattr(doctor, "CHECKS", [widgets])
    monkeypatch.setitem(fixes.FIXES, "widgets", lambda: state.__setitem__(0, "ok") or "ran pip")
    assert doctor.main([]) == 1
    assert doctor.main(["--fix"]) == 0
    assert "installed (ran pip)" in capsys.readouterr().out


def test_fix_leaves_alone_what_is_not_safe(monkeypatch):
    problem = doctor.Check("gloo", "no answer", "problem", "Look at the firewall.")
    monkeypatch.setattr(doctor, "CHECKS", [lambda: problem])
    assert list(doctor.examine(mend=True)) == [problem]


def test_no_package_is_installed_into_the_systems_python(monkeypatch):
    monkeypatch.setattr(fixes, "_run", lambda command: pytest.fail("it ran " + " ".join(command)))
    monkeypatch.setattr(fixes.sys, "base_prefix", fixes.sys.prefix)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert fixes.widgets() is None
    assert fixes.kernel() is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there is no /dev/shm here")
def test_only_old_segments_of_ended_processes_are_deleted(tmp_path, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old, young, living, other = (tmp_path / name for name in (
        f"torch_{ended.pid}_1_0", f"torch_{ended.pid}_2_0", f"torch_{os.getpid()}_3_0", "sem.mp-abc"))
    for path in (old, young, living, other):
        path.write_bytes(bytes(2**20))
        if path is not young:
            os.utime(path, (1, 1))
    monkeypatch.setattr(fixes, "SHARED_MEMORY", tmp_path)
    assert fixes.shared_memory() == "deleted 1 segment of ended processes, 1 MiB"
    assert not old.exists() and young.exists() and living.exists() and other.exists()
    assert fixes.shared_memory() is None
