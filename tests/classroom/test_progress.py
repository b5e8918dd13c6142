"""How far the lessons are: read from the notebooks, and from what the learner has passed."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import cpump_kit as cp
from cpump_kit.classroom import progress
from cpump_kit.teaching import checks, passed


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(passed, "has_page", lambda: True)


@pytest.fixture
def lessons(tmp_path):
    folder = tmp_path / "lessons"
    folder.mkdir()
    write(folder, "00_your_machine.ipynb", "# 00 · Your machine", "1", "cp.check.threads_per_worker(share)")
    write(folder, "07_ddp.ipynb", "# 07 · DDP", "cp.check.shard(f)", "cp.check.global_batch(g)", "cp.check.shard(f)")
    return folder


def write(folder, name, title, *cells, run=0):
    made = [new_code_cell(text, execution_count=i + 1 if i < run else None) for i, text in enumerate(cells)]
    nbformat.write(new_notebook(cells=[new_markdown_cell(title), *made, new_code_cell("")]), folder / name)


def test_nothing_is_begun_at_first(lessons):
    first, second = progress.lessons_in(lessons)
    assert (first.title, first.cells_in_words, first.still_open) == (
        "00 · Your machine", "not begun", ("threads_per_worker",))
    assert second.still_open == ("shard", "global_batch")
    assert progress.what_next([first, second]) == "Next: 00 · Your machine"


def test_cells_and_exercises_count(lessons):
    write(lessons, "00_your_machine.ipynb", "# 00 · Your machine", "1", "cp.check.threads_per_worker(f)", run=1)
    found = progress.lessons_in(lessons)
    assert found[0].cells_in_words == "1 of 2"
    assert progress.what_next(found) == "Next: go on with 00 · Your machine"
    write(lessons, "00_your_machine.ipynb", "# 00 · Your machine", "1", "cp.check.threads_per_worker(f)", run=2)
    assert progress.what_next(progress.lessons_in(lessons)) == (
        "Next: the exercise threads_per_worker of 00 · Your machine")
    assert checks.check.threads_per_worker(lambda cores, nprocs: max(1, cores // nprocs))
    found = progress.lessons_in(lessons)
    assert found[0].done and found[0].exercises_in_words == "1 of 1 passed"
    assert progress.what_next(found) == "Next: 07 · DDP"


def test_a_wrong_answer_passes_nothing(lessons):
    assert not checks.check.threads_per_worker(lambda cores, nprocs: 0)
    assert passed.passed() == set()


def test_without_a_person_nothing_is_passed(monkeypatch):
    monkeypatch.setattr(passed, "has_page", lambda: False)
    assert checks.check.threads_per_worker(lambda cores, nprocs: max(1, cores // nprocs))
    assert passed.passed() == set()


def test_all_done(lessons):
    write(lessons, "00_your_machine.ipynb", "# 00", "1", run=1)
    (lessons / "07_ddp.ipynb").unlink()
    assert progress.what_next(progress.lessons_in(lessons)) == "Every lesson is run and every exercise passed."


def test_other_notebooks_are_left_out_and_a_damaged_one_is_named(lessons):
    (lessons / "07_ddp-mine.ipynb").write_text((lessons / "07_ddp.ipynb").read_text())
    (lessons / "00_your_machine.ipynb").write_text("{")
    first, second = progress.lessons_in(lessons)
    assert first.title == "00_your_machine (cannot be read)" and second.name == "07_ddp"


def test_the_command_and_the_table(lessons, capsys, monkeypatch):
    assert progress.main([str(lessons)]) == 0
    assert "07 · DDP" in capsys.readouterr().out
    monkeypatch.chdir(lessons)
    cp.progress()
    assert "Next: 00 · Your machine" in capsys.readouterr().out
    assert progress.main([str(lessons / "nowhere")]) == 1
    assert "there are no lessons in" in capsys.readouterr().out
    assert progress.main(["a", "b"]) == 2


def test_the_lessons_folder_is_found(lessons, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress.bootstrap, "CHECKOUT", None)
    (tmp_path / "lessons").rename(tmp_path / "cpump-lessons")
    assert progress.lessons_folder() == tmp_path / "cpump-lessons"
    monkeypatch.chdir(tmp_path / "cpump-lessons")
    assert progress.lessons_folder() == tmp_path / "cpump-lessons"
    assert progress.lessons_folder("there") == progress.Path("there")
