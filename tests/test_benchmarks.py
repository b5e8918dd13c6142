"""The report of a benchmark says what was measured: ratios within a round, every raw figure, and a chart of them."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import report
from benchmarks.report import Measured


@pytest.fixture
def found():
    found = Measured("launch", "A title", "seconds", "peer", lower=True, note="How it was measured.")
    for ours, theirs in [(1.0, 4.0), (10.0, 30.0), (1.0, 2.0)]:  # the machine was ten times as slow in one round
        found.add("re-run", "cpump", ours)
        found.add("re-run", "peer", theirs)
    found.add("first", "peer", 5.0)
    return found


def test_ratios_are_taken_within_a_round(found):
    assert found.ratio("re-run", "cpump") == 3.0 and found.ratio("re-run", "peer") == 1.0
    assert found.ratio("first", "cpump") is None
    assert report.table(found).splitlines() == [
        "| seconds | re-run | first |",
        "| --- | ---: | ---: |",
        "| cpump | 1 (1–10) **3.00×** | – |",
        "| peer | 4 (2–30) **1.00×** | 5 **1.00×** |"]


def test_the_table_the_chart_and_every_raw_figure_are_written(found, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "HERE", tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- launch -->\nstale\n<!-- end of launch -->\nafter\n")
    for _ in range(2):  # a second time replaces the first
        report.write(found)
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "stale" not in text
    assert text.count(report.table(found)) == 1 and "python -m benchmarks launch --rounds 3" in text
    kept = json.loads((tmp_path / "launch.json").read_text())
    assert kept["raw"] == found.raw and kept["machine"] and kept["versions"]["torch"]
    assert (tmp_path / "launch.png").read_bytes().startswith(b"\x89PNG")


def test_the_chart_draws_medians_and_rounds(found):
    panels = report.chart(found).axes
    assert [axes.get_title(loc="left") for axes in panels] == ["re-run", "first"]
    assert [bar.get_width() for bar in panels[0].patches] == [1.0, 4.0]
    assert sorted(panels[0].lines[0].get_xdata()) == [1.0, 1.0, 10.0]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["cpump", "peer"]


def test_an_unknown_benchmark_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "lunch"])
    with pytest.raises(SystemExit):
        command.main()
    assert "there is no benchmark 'lunch'; there are launch" in capsys.readouterr().err
