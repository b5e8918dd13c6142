"""A new lesson runs and passes its own tests as it is made, and overwrites nothing."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from cpump_kit import bootstrap
from cpump_kit.classroom import new_lesson as module
from cpump_kit.classroom.new_lesson import NewLessonError, new_lesson


@pytest.fixture
def checkout(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__", "exercises")
    shutil.copytree(bootstrap.PACKAGE, tmp_path / "cpump_kit", ignore=ignored)
    (tmp_path / "cpump_kit" / "teaching" / "exercises").mkdir()
    shutil.copy(bootstrap.PACKAGE / "teaching" / "exercises" / "__init__.py", tmp_path / "cpump_kit/teaching/exercises")
    (tmp_path / "notebooks" / "scripts").mkdir(parents=True)
    shutil.copy(bootstrap.CHECKOUT / "notebooks" / "scripts" / "single.py", tmp_path / "notebooks" / "scripts")
    solutions = tmp_path / "notebooks" / "solutions"
    solutions.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), solutions / "07_ddp.ipynb")
    return tmp_path


def test_its_own_tests_pass_and_its_copy_is_up_to_date(checkout):
    made = new_lesson("weight_pruning", checkout)
    assert [path.as_posix() for path in made] == [
        "notebooks/solutions/08_weight_pruning.ipynb", "notebooks/08_weight_pruning.ipynb",
        "notebooks/scripts/weight_pruning.py", "cpump_kit/teaching/exercises/weight_pruning.py",
        "tests/exercises/test_weight_pruning_exercises.py", "tests/scripts/test_weight_pruning_script.py"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"], cwd=checkout,
                         env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
    assert ran.returncode == 0, ran.stdout[-3000:]
    source, learners = (nbformat.read(path, as_version=4) for path in (checkout / made[0], checkout / made[1]))
    assert source.cells[0].source.startswith("# 08 · Weight pruning")
    assert source.cells[1].metadata.tags == ["solved-copy"]
    assert learners.cells[1].source == "import cpump_kit as cp"
    assert "# your turn" in learners.cells[-4].source + learners.cells[-3].source
    left = [path for path in made if set((checkout / path).read_text().split()) & {"NAME", "NUMBER", "TITLE"}]
    assert not left


@pytest.mark.parametrize("name, why", [
    ("07_again", "there is a lesson 07 already; the next free number is 08"),
    ("Bad Name", "small letters"), ("../x", "small letters"), ("single", "single.py is there already")])
def test_what_cannot_be_made_changes_nothing(checkout, name, why):
    before = sorted(checkout.rglob("*"))
    with pytest.raises(NewLessonError, match=why):
        new_lesson(name, checkout)
    assert sorted(checkout.rglob("*")) == before


def test_the_command(checkout, monkeypatch, capsys):
    monkeypatch.setattr(module.bootstrap, "CHECKOUT", checkout)
    assert module.main(["12_pruning"]) == 0
    assert "notebooks/12_pruning.ipynb" in capsys.readouterr().out
    assert module.main([]) == 2
    monkeypatch.setattr(module.bootstrap, "CHECKOUT", None)
    assert module.main(["pruning"]) == 1
    assert "clone the repository" in capsys.readouterr().err
