"""A lesson brought back: as it was at first, and nothing of the learner's lost."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from cpump_kit.classroom import reset as reset_module
from cpump_kit.classroom.reset import ResetError, reset


@pytest.fixture
def kit(tmp_path):
    folder = tmp_path / "checkout" / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "ddp.py").write_text("print('as it was')\n")
    (folder / "scripts" / "single.py").write_text("print('of another lesson')\n")
    for name, code in {"00_machine": "1", "07_ddp": "run = cp.launch('scripts/ddp.py')"}.items():
        nbformat.write(new_notebook(cells=[new_code_cell(code)]), folder / "solutions" / f"{name}.ipynb")
    return folder


@pytest.fixture
def mine(kit, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    reset("07", folder, kit)
    return folder


def test_the_learners_copies_are_kept(kit, mine):
    fresh = (mine / "07_ddp.ipynb").read_text()
    (mine / "07_ddp.ipynb").write_text("changed")
    (mine / "scripts" / "ddp.py").write_text("also changed")
    assert reset("ddp", mine, kit) == {"07_ddp.ipynb": "07_ddp-mine.ipynb", "scripts/ddp.py": "scripts/ddp-mine.py"}
    assert (mine / "07_ddp.ipynb").read_text() == fresh
    assert (mine / "07_ddp-mine.ipynb").read_text() == "changed"
    assert (mine / "scripts" / "ddp.py").read_text() == "print('as it was')\n"
    assert (mine / "scripts" / "ddp-mine.py").read_text() == "also changed"
    (mine / "07_ddp.ipynb").write_text("changed again")
    assert reset("7", mine, kit) == {"07_ddp.ipynb": "07_ddp-mine-2.ipynb"}
    assert (mine / "07_ddp-mine.ipynb").read_text() == "changed"


def test_nothing_to_do_and_only_this_lessons_files(kit, mine):
    assert reset("07_ddp.ipynb", mine, kit) == {}
    assert not (mine / "scripts" / "single.py").exists()


def test_what_is_missing_comes_back(kit, mine):
    (mine / "scripts" / "ddp.py").unlink()
    assert reset("07", mine, kit) == {}
    assert (mine / "scripts" / "ddp.py").exists()


def test_in_the_kits_own_folder_the_notebook_alone_comes_back(kit):
    (kit / "07_ddp.ipynb").write_text("changed")
    (kit / "scripts" / "ddp.py").write_text("changed")
    assert reset("07", kit, kit) == {"07_ddp.ipynb": "07_ddp-mine.ipynb"}
    assert (kit / "scripts" / "ddp.py").read_text() == "changed"


@pytest.mark.parametrize("name, hint", [("dpd", "did you mean ddp?"), ("99", "there are 00_machine, 07_ddp")])
def test_a_lesson_that_there_is_not(kit, mine, name, hint):
    with pytest.raises(ResetError, match=hint.replace("?", r"\?")):
        reset(name, mine, kit)


def test_the_command(kit, mine, capsys, monkeypatch):
    (mine / "07_ddp.ipynb").write_text("changed")
    monkeypatch.setattr(reset_module.bootstrap, "CHECKOUT", kit.parent)
    assert reset_module.main(["07", str(mine)]) == 0
    assert capsys.readouterr().out == "07_ddp.ipynb is as it was at first; your copy of it is 07_ddp-mine.ipynb.\n"
    assert reset_module.main(["07", str(mine)]) == 0
    assert "nothing had to be done" in capsys.readouterr().out
    assert reset_module.main([]) == 2
    assert reset_module.main(["nothing", str(mine)]) == 1
