"""The class board: which files are on it, what it says of them, what it leaves out."""

import json

import pytest

import cpump_kit as cp
from cpump_kit.classroom import board as board_module
from cpump_kit.classroom import board_chart
from cpump_kit.classroom.board import BoardError, board
from cpump_kit.measuring.sweep_data import Setting, SweepData, save


def sweep(model="AMD EPYC 7B13", usable=4, one=1000.0, speedups=None, script="ddp.py", **arguments) -> SweepData:
    speedups = {1: 1.0, 2: 1.8, 4: 3.0} if speedups is None else speedups
    settings = [Setting(script, n, 1, [one * s * f for f in (0.9, 1.0, 1.2)]) for n, s in speedups.items()]
    return SweepData(script, Setting("single.py", 1, 1, [one]), Setting("single.py", 1, usable, [one * 2]), settings, 3,
                     {name: repr(value) for name, value in arguments.items()}, {"model": model, "usable": usable},
                     "2030-01-01", state="done")


def test_the_best_comes_first_with_what_was_measured(tmp_path):
    laptop = sweep("Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz", one=800.0, speedups={1: 1.0, 2: 1.5})
    save(laptop, tmp_path / "seat 1.json")
    (tmp_path / "by mail").mkdir()
    save(sweep(), tmp_path / "by mail" / "server.json")
    found = cp.board(tmp_path)
    assert found.rows() == [
        ("by mail/server", "AMD EPYC 7B13, 4 cores", "ddp.py", "", "1,000", "2,000", "3,000", "4 cores", "3.00×"),
        ("seat 1", "Intel Core i5-8250U, 4 cores", "ddp.py", "", "800", "1,600", "1,200", "2 cores", "1.50×")]
    assert found.picture.alt.startswith("ddp.py on 2 kinds of machine: 2 sweeps.")
    assert "AMD EPYC 7B13, 4 cores: at best 3.00× on 4 cores, 3,000 samples/s." in found.picture.alt


def test_a_file_that_is_no_sweep_is_skipped_by_name(tmp_path, monkeypatch):
    save(sweep(), tmp_path / "good.json")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "photo.jpg").write_bytes(bytes(range(256)))
    (tmp_path / "huge.json").write_text(" " * 5000)
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / ".hidden").write_text("x")
    save(SweepData("ddp.py", Setting("ddp.py", 1, 1), None, [Setting("ddp.py", 1, 1)], 3), tmp_path / "early.json")
    monkeypatch.setattr(board_module, "LARGEST", 4000)
    found = board(tmp_path)
    assert [curve.file for curve in found.curves] == ["good"]
    assert set(found.skipped) == {"notes.txt", "photo.jpg", "huge.json", "list.json", "early.json"}
    assert "Skipped: huge.json (is too large for a saved sweep)" in repr(found)
    assert "Skipped: early.json (was stopped before its baseline was measured)" in repr(found)


def test_a_folder_without_sweeps_is_refused_with_the_files_names(tmp_path):
    with pytest.raises(BoardError, match="there is no folder"):
        board(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BoardError, match="no saved sweep in .*; skipped: notes.txt"):
        board(tmp_path)


def test_names_from_a_file_are_escaped(tmp_path):
    save(sweep(model="<script>alert(1)</script>"), tmp_path / "x.json")
    html = board(tmp_path).table().html
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_a_saved_sweep_holds_nothing_about_a_person(tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "anna-the-learner")
    monkeypatch.setenv("LOGNAME", "anna-the-learner")
    done = cp.sweep(__file__.replace("test_board.py", "tiny.py"), nprocs=1, repeats=1, show=False)
    done.wait()
    done.save(tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text()
    import getpass
    import socket

    for private in (socket.gethostname(), getpass.getuser(), str(tmp_path.home())):
        assert json.dumps(private)[1:-1] not in text
    assert board(tmp_path).curves[0].script == "tiny.py"


def test_only_equal_tasks_are_compared_in_samples_per_second():
    def curves(*sweeps):
        return [board_module._curve(data, str(i)) for i, data in enumerate(sweeps)]

    same, other = curves(sweep(epochs=1), sweep(epochs=1)), curves(sweep(epochs=1), sweep(epochs=2))
    assert len(board_chart.board_figure(same).axes) == 2
    assert len(board_chart.board_figure(other).axes) == 1


def test_arguments_that_differ_are_in_the_key():
    curves = [board_module._curve(sweep(epochs=1, batch_size=size), str(size)) for size in (16, 64, 16)]
    assert list(board_chart.groups(curves)) == ["AMD EPYC 7B13, 4 cores: batch_size=16",
                                                "AMD EPYC 7B13, 4 cores: batch_size=64"]
    assert len(board_chart.groups(curves)["AMD EPYC 7B13, 4 cores: batch_size=16"]) == 2


def test_of_several_ways_to_use_the_same_cores_the_fastest_counts():
    data = sweep(speedups={1: 1.0, 2: 1.2})
    data.settings.append(Setting("ddp.py", 1, 2, [1700.0]))
    curve = board_module._curve(data, "x")
    assert curve.cores == (1, 2) and curve.best == (2, 1.7)


def test_many_equal_machines_are_one_entry_of_the_key_and_many_kinds_stay_readable():
    curves = [board_module._curve(sweep(model=f"Kind {i % 9}"), str(i)) for i in range(27)]
    names = [text.get_text() for text in board_chart.board_figure(curves).legends[0].get_texts()]
    assert len(names) == 1 + 6 + 1
    assert names[1] == "Kind 0, 4 cores (3 sweeps)" and names[-1] == "other machines"


def test_the_ideal_line_is_straight_on_both_kinds_of_axes():
    for most in (4, 32):
        data = sweep(usable=most, speedups={1: 1.0, most: most / 2})
        axes = board_chart.board_figure([board_module._curve(data, "x")]).axes[0]
        scales = {axes.get_xscale(), axes.get_yscale()}
        assert len(scales) == 1, "on mixed axes the ideal would be a curve"
