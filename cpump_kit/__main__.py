"""The command line, `python3 -m cpump_kit` or `cpump`: sets up first, then lab, test, doctor, run and the rest.

Like bootstrap.py it needs only the standard library at first, and loads on a Python that is too old, to say so.
"""

import difflib
import os
import shutil
import sys
from pathlib import Path

from . import bootstrap

HELP = """usage: python3 -m cpump_kit COMMAND [...]     (or: cpump COMMAND [...])

  lab [DIR] [...]   open JupyterLab on the map of lessons; DIR: a folder for your own copy of them, which is made
                    if needed and in which no file is ever overwritten; the rest goes to `jupyter lab`
  test [...]        run the tests; the rest goes to pytest
  doctor [--json]   check this machine; every problem comes with its cure; --fix mends what can be mended safely
  progress [DIR]    which lessons are run, which exercises passed, what comes next
  reset LESSON      bring a lesson back as it was at first; your copy of it is kept beside it
  slides LESSON     run a lesson and write it as a slide show, one HTML file that needs no network
  book [DIR]        run all lessons and write them as a site to read, with every picture and result
  new-lesson NAME   begin a lesson: its notebook, script, exercise and tests from a template
  run SCRIPT [...]  train with a script, e.g. run notebooks/scripts/ddp.py --nprocs 2 --epochs 1

Where packages are missing, every command first installs them in .venv, beside pyproject.toml.
"""


def main(argv=None) -> int:
    """Run the command line; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if sys.version_info < bootstrap.OLDEST_PYTHON:
        return fail("Python {}.{} or newer is needed, and this is Python {}: run the same command with a newer one, "
                    "for example python3.12".format(*bootstrap.OLDEST_PYTHON, sys.version.split()[0]))
    if not argv or argv[0] in ("-h", "--help", "help") or argv[:2] in (["lab", "-h"], ["lab", "--help"]):
        print(HELP)
        return 0
    command, arguments = argv[0], argv[1:]
    if command not in COMMANDS:
        nearest = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = "did you mean {}?".format(nearest[0]) if nearest else "choose one of {}".format(", ".join(COMMANDS))
        return fail("there is no command {!r}: {} (--help tells more)".format(command, hint), code=2)
    try:
        bootstrap.ensure(argv, tests=command == "test")
    except bootstrap.SetupError as error:
        return fail(error, error.code)
    _make_importable()
    try:
        return COMMANDS[command](arguments)
    except KeyboardInterrupt:
        return 130


def lab(arguments) -> int:
    """Open JupyterLab on the lessons: the checkout's own, or the user's copy in the folder that is named first."""
    named = bool(arguments) and not arguments[0].startswith("-")
    checkout = bootstrap.CHECKOUT
    lessons = checkout / "notebooks" if checkout else bootstrap.PACKAGE / "notebooks"
    if named or not checkout:
        folder = Path(arguments[0] if named else "cpump-lessons").resolve()
        try:
            kept = copy_lessons(lessons, folder)
        except OSError as error:
            return fail("cannot copy the lessons to {}: {}".format(folder, error))
        print("Your lessons are in {}.".format(folder))
        if kept:
            print("Kept as you left them: {}.".format(", ".join(kept)))
        lessons = folder
    settings = [str(bootstrap.PACKAGE / "jupyter"), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, settings))
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.root_dir=" + str(lessons)]
    if (lessons / "README.md").exists():
        command.append("--LabApp.default_url=/lab/tree/README.md")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container root is often the only user
    return bootstrap.become(command + arguments[named:])


def copy_lessons(source, target):
    """Copy the files that `target` lacks; returns the names of those there that differ, which are kept."""
    kept = []
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.is_dir() or {"__pycache__", ".ipynb_checkpoints"} & set(name.parts):
            continue
        copy = target / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            part = copy.with_name(copy.name + ".part")  # a copy that is broken off must not look like one that is kept
            shutil.copyfile(path, part)
            os.replace(part, copy)
        elif copy.read_bytes() != path.read_bytes():
            kept.append(name.as_posix())
    return kept


def test(arguments) -> int:
    """Run pytest in the checkout; without arguments everything that pyproject.toml names."""
    if not bootstrap.CHECKOUT:
        return fail("the tests are in the checkout: clone the repository and run the command there")
    os.chdir(bootstrap.CHECKOUT)
    return bootstrap.become([sys.executable, "-m", "pytest"] + arguments)


def doctor(arguments) -> int:
    from .doctor import main as examine

    return examine(arguments)


def run(arguments) -> int:
    from .running.terminal import run_command

    return run_command(arguments)


def progress(arguments) -> int:
    from .classroom.progress import main as show_progress

    return show_progress(arguments)


def reset(arguments) -> int:
    from .classroom.reset import main as bring_back

    return bring_back(arguments)


def slides(arguments) -> int:
    from .classroom.slides import main as write_slides

    return write_slides(arguments)


def book(arguments) -> int:
    from .classroom.book import main as write_book

    return write_book(arguments)


def new_lesson(arguments) -> int:
    from .classroom.new_lesson import main as begin_lesson

    return begin_lesson(arguments)


def fail(message, code=1) -> int:
    print("cpump: {}".format(message), file=sys.stderr)
    return code


def _make_importable():
    """Let kernels and workers import the checkout's kit also from an interpreter in which it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution("cpump")
    except PackageNotFoundError:
        paths = [str(bootstrap.PACKAGE.parent), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


COMMANDS = {"lab": lab, "test": test, "doctor": doctor, "run": run, "progress": progress, "reset": reset,
            "slides": slides, "book": book, "new-lesson": new_lesson}

if __name__ == "__main__":
    sys.exit(main())
