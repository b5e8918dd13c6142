"""Several runs in one picture: what it draws, what it is called, and what it refuses."""

import multiprocessing
from statistics import median
from types import SimpleNamespace

import pytest

import cpump_kit as cp
from cpump_kit.showing.compare import CompareError, _rates


def train(rank, world_size, *, steps=60, slower=1, fail=False, quiet=False, begin=None):
    import time

    if begin is not None:
        begin.wait(60)  # ranks that trained one after the other would have no time in common
    for step in range(steps):
        time.sleep(0.002 * slower)
        if not quiet:
            cp.report(loss=1.0 / (step + 1), samples=8)
        if fail and step == 40:
            raise ValueError("boom")


def axes_of(picture):
    return picture.figure.axes


def test_the_losses_are_drawn_over_samples_of_all_ranks_and_over_seconds():
    begin = multiprocessing.get_context("spawn").Barrier(2)
    one, two = cp.launch(train), cp.launch(train, 2, slower=2, begin=begin)
    samples, seconds, rates = axes_of(cp.compare(one, two))
    lines = [line for line in samples.lines if len(line.get_xdata())]
    assert [line.get_xdata()[-1] for line in lines] == [60 * 8, 2 * 60 * 8]
    assert all(line.get_ydata()[0] == 1.0 and line.get_ydata()[-1] == pytest.approx(1 / 60) for line in lines)
    assert len({(line.get_color(), str(line.get_linestyle())) for line in lines}) == 2
    assert seconds.lines[0].get_xdata()[-1] <= one.seconds
    bars = [bar.get_width() for bar in rates.patches]
    assert bars == [median(_rates(run)) for run in (one, two)]


def test_the_speed_is_that_of_all_ranks_together_without_the_warm_up():
    times = [0.1 * step for step in range(101)]  # 10 s; 8 samples a step, but twice as slow in the first second
    so_far = [4.0 * min(step, 10) + 8.0 * max(0, step - 10) for step in range(101)]
    run = SimpleNamespace(series=lambda name, points, over: {0: (times, so_far), 1: (times, so_far)})
    assert _rates(run) == pytest.approx([160.0] * 8)


def test_runs_are_told_apart_by_name():
    run = cp.launch(train, steps=10)
    assert [label.get_text() for label in axes_of(cp.compare(run, run))[2].get_yticklabels()] == [
        "train, 1 process (1)", "train, 1 process (2)"]
    picture = cp.compare(one_thread=run, other=run)
    assert "one thread: the loss went from 1 to 0.1 over 80 samples" in picture.alt and "other:" in picture.alt


def test_a_failed_run_is_drawn_as_far_as_it_came_and_a_silent_one_is_named():
    failed, quiet = cp.launch(train, fail=True), cp.launch(train, quiet=True, steps=3)
    alt = cp.compare(failed, quiet=quiet).alt
    assert "train, 1 process (failed): the loss went from 1 to" in alt and "quiet: nothing was reported." in alt
    assert "no loss was reported" in [text.get_text() for text in axes_of(cp.compare(quiet))[0].texts]


@pytest.mark.parametrize("runs, named, said", [
    ((), {}, "compare takes 1 to 6 runs"), ((3,), {}, "is of type int"), ((), {"mine": "a"}, "mine is of type str")])
def test_what_cannot_be_compared_is_refused(runs, named, said):
    with pytest.raises(CompareError, match=said):
        cp.compare(*runs, **named)
