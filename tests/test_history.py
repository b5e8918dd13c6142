"""History is bounded in memory and exact in its totals; buffers send every report once, in order."""

from array import array

import pytest

from cpump_kit.running import history, reporting
from cpump_kit.running.events import Reports
from cpump_kit.running.history import History, RankHistory


def batch(first, losses, samples=8.0, total=None, start=100.0):
    times = array("d", [start + 0.01 * (first + i) for i in range(len(losses))])
    columns = (array("d", losses), array("d", [samples] * len(losses)))
    return Reports(first, ("loss", "samples"), times, columns, total)


def test_records_are_tidy():
    rank = RankHistory()
    rank.add(batch(0, [1.0, 0.5], total=64.0), launched=99.0)
    rank.add(Reports(2, ("accuracy",), array("d", [101.0]), (array("d", [0.9]),), 64.0), launched=99.0)
    records = list(History([rank]))
    assert records[0] == {"rank": 0, "step": 0, "time": 1.0, "loss": 1.0, "samples": 8}
    assert records[2] == {"rank": 0, "step": 2, "time": 2.0, "accuracy": 0.9}
    assert (rank.steps, rank.samples, rank.total) == (3, 16, 64)
    assert History([rank])[-1] == records[-1] and History([rank])[:2] == records[:2]
    with pytest.raises(IndexError):
        History([rank])[3]


def test_a_loss_that_is_not_a_number_is_kept_in_the_record():
    rank = RankHistory()
    rank.add(batch(0, [1.0, float("nan")]), launched=0.0)
    assert "loss" in History([rank])[1] and History([rank])[1]["loss"] != History([rank])[1]["loss"]
    assert rank.series("loss", 10) == ([8.0], [1.0])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_thinning_bounds_memory_and_keeps_totals_exact(monkeypatch, size):
    monkeypatch.setattr(history, "LIMIT", 64)
    rank, steps = RankHistory(), 0
    while steps < 3000:
        rank.add(batch(steps, [float(steps + i) for i in range(size)]), launched=0.0)
        steps += size
    assert len(rank) <= 64 and (rank.steps, rank.samples) == (steps, 8 * steps)
    kept = list(History([rank]))
    assert [record["step"] % rank.stride for record in kept] == [0] * len(kept)
    assert all(record["loss"] == record["step"] for record in kept)
    assert rank.rate(0.0) == pytest.approx(800.0)
    assert "kept" in repr(History([rank])) and History([rank]).thinned == rank.stride


def test_series_are_means_of_equal_stretches():
    rank = RankHistory()
    rank.add(batch(0, [float(i) for i in range(100)]), launched=0.0)
    samples, losses = rank.series("loss", 10)
    assert samples == [80.0 * (i + 1) for i in range(10)] and losses == [10 * i + 4.5 for i in range(10)]
    assert rank.series("nothing", 10) == ([], [])


def test_warm_up_is_left_out_of_the_rate():
    rank = RankHistory()
    slow = Reports(0, ("samples",), array("d", [0.0, 10.0]), (array("d", [8.0, 8.0]),), None)
    fast = Reports(2, ("samples",), array("d", [10.0 + i for i in range(1, 9)]), (array("d", [8.0] * 8),), None)
    rank.add(slow, launched=0.0)
    rank.add(fast, launched=0.0)
    assert rank.rate(0.2) == pytest.approx(8.0) and rank.rate(0.0) < 5
    assert RankHistory().rate(0.2) is None and RankHistory().samples_per_second is None


def test_the_buffer_sends_each_report_once_and_in_order():
    sent = []
    buffer = reporting.Buffer(sent.append, every=3600)
    for step in range(5):
        buffer.add({"loss": step, "samples": 8, "total": 40})
    buffer.add({"accuracy": 0.5})
    buffer.add({"total": 48})
    buffer.close()
    assert [(r.first_step, r.names, [list(c) for c in r.columns], r.total) for r in sent] == [
        (0, ("loss", "samples"), [[0, 1, 2, 3, 4], [8] * 5], 40.0),
        (5, ("accuracy",), [[0.5]], 40.0),
        (6, (), [], 48.0)]


def test_report_takes_numbers_only():
    seen = []
    reporting.report(loss=object())  # nobody listens: nothing happens
    reporting.listen(lambda numbers: seen.append(reporting.as_numbers(numbers)))
    try:
        import torch

        reporting.report(loss=torch.tensor(0.5, requires_grad=True), samples=8)
        assert seen == [{"loss": 0.5, "samples": 8.0}]
        for bad in ("high", None, torch.zeros(2)):
            with pytest.raises(TypeError, match="report\\(loss=...\\) takes a number"):
                reporting.report(loss=bad)
    finally:
        reporting.listen(None)
