"""The charts by what they draw: lines, labels, data and words, not pixels."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from cpump_kit.measuring.laws import amdahl
from cpump_kit.showing import charts, scaling_chart
from cpump_kit.showing.charts import RunData, run_figure
from cpump_kit.showing.curves import mean_over_ranks
from cpump_kit.showing.picture import Picture
from cpump_kit.showing.scaling_chart import ScalingData, scaling_figure
from cpump_kit.style import COLORS, DASHES, ON_DARK, count, duration, number, percent, ticks

SPACE = "\u00a0"


def rank(i, rate=100.0):
    return SimpleNamespace(rank=i, state="done", core=None, parts={}, samples=640, samples_per_second=rate, loss=0.1)


def run(ranks=2, cores=2, **changes):
    x = np.arange(1, 11) * 64
    data = {"title": "ddp.py on 2 processes", "state": "done", "seconds": 8.3, "rate": 200.0 * ranks,
            "ranks": [rank(i, 100.0 + i) for i in range(ranks)],
            "losses": {i: (list(x), list(2 / x * 64 + 0.1 * i)) for i in range(ranks)},
            "cores": [(t / 2, [50.0] * cores) for t in range(20)]}
    return RunData(**{**data, **changes})


def texts(figure):
    """Every text of the figure that is shown."""
    figure.draw_without_rendering()
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
            if text.get_visible() and text.get_text()]


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


# -- the run ------------------------------------------------------------------------------------------------------


def test_each_rank_has_its_line_in_its_own_style_and_the_mean_is_drawn():
    loss, rates, cores = run_figure(run()).axes
    drawn = lines(loss)
    assert set(drawn) == {"rank 0", "rank 1", "mean"}
    assert drawn["rank 1"].get_ydata() == pytest.approx(run().losses[1][1])
    assert drawn["mean"].get_ydata() == pytest.approx(np.mean([y for _, y in run().losses.values()], axis=0))
    styles = {(line.get_color(), line.get_linestyle(), line._dash_pattern[1] and tuple(line._dash_pattern[1]))
              for line in drawn.values()}
    assert len({color for color, *_ in styles}) == len({dash for *_, dash in styles} | {"thick"}) == 3
    assert (loss.get_xlabel(), loss.get_ylabel(), rates.get_xlabel()) == ("samples of each rank", "loss", "samples/s")
    assert [bar.get_width() for bar in rates.patches] == [100, 101]
    assert cores.get_xlabel() == "seconds since the launch"


def test_the_headline_says_how_it_went():
    assert "ddp.py on 2 processes: done in 8.3 s, 400 samples/s" in texts(run_figure(run()))
    assert "ddp.py on 2 processes: failed after 1.0 s" in texts(run_figure(run(state="failed", seconds=1, rate=None)))


def test_one_rank_needs_no_mean():
    assert len(run_figure(run(1)).axes[0].get_lines()) == 1


def test_many_ranks_and_cores_are_drawn_together():
    loss, _, cores = run_figure(run(16, cores=64)).axes
    assert "mean of 16 ranks (thin: each)" in lines(loss)
    assert cores.get_ylabel() == "cores in use" and cores.get_ylim() == (0, 64)


def test_a_run_that_reported_nothing_still_has_a_picture():
    empty = RunData("ddp.py on 1 process", "stopped", 0.8, ranks=[rank(0, None)], losses={0: ([], [])})
    said = texts(run_figure(empty))
    assert "no loss was reported" in said and "no samples were reported" in said


@pytest.mark.parametrize("losses", [{0: ([64], [2.0])}, {0: ([64, 128], [1.0, 1.0]), 1: ([], [])},
                                    {0: ([1, 2], [1, 2]), 1: ([5, 6], [1, 2])}, {0: ([0.0], [0.0])},
                                    {0: ([1, 2], [-1, -2])}])
def test_unusual_losses_are_drawn(losses):
    assert Picture(run_figure(run(losses=losses)), "words").png()


def test_the_words_of_a_run():
    said = charts.alt_text(run())
    assert said.startswith("ddp.py on 2 processes: done in 8.3 s, 400 samples/s.")
    assert "The loss, the mean of 2 ranks, went from 2.05 to 0.25 over 640 samples of each rank." in said
    assert "100 to 101 samples/s each" in said and "Of 2 cores, 1.0 were in use on average." in said


def test_the_mean_covers_what_all_ranks_have_reached():
    x, y = mean_over_ranks({0: ([0, 10], [0, 10]), 1: ([5, 15], [5, 15])})
    assert (x[0], x[-1]) == (5, 10) and y == pytest.approx(x)
    assert len(mean_over_ranks({0: ([0, 1], [1, 1]), 1: ([5, 6], [1, 1])})[0]) == 0
    assert len(mean_over_ranks({})[0]) == len(mean_over_ranks({0: ([], [])})[0]) == 0


def test_of_a_split_model_only_the_last_stage_knows_the_loss():
    losses = {0: ([], []), 1: ([64, 128], [2.3, 1.1])}
    assert mean_over_ranks(losses)[1].tolist() == [2.3, 1.1]
    assert "The loss went from 2.3 to 1.1 over 128 samples." in charts.alt_text(run(losses=losses))
    assert [line.get_label() for line in run_figure(run(losses=losses)).axes[0].lines] == ["rank 1"]


# -- the scaling chart --------------------------------------------------------------------------------------------


def scaling(counts=(1, 2), **changes):
    data = {"script": "ddp.py",
            "speedups": {n: [share * amdahl(n, 0.1) for share in (0.99, 1, 1.01)] for n in counts},
            "all_threads": (2, [1.3, 1.4, 1.5]), "usable": 2, "caption": ["AMD EPYC, 2 usable cores, torch 2.13.0"]}
    return ScalingData(**{**data, **changes})


def labels(figure):
    """The entries of the key, on one line each."""
    legend = next(axes.get_legend() for axes in figure.axes if axes.get_legend())
    return [text.get_text().replace("\n", " ") for text in legend.get_texts()]


def speed_axes(figure):
    return next(axes for axes in figure.axes if axes.get_ylabel().startswith("speed-up"))


def test_medians_and_spread_are_drawn():
    axes = speed_axes(scaling_figure(scaling()))
    points, (_, _), (bars,) = axes.containers[0]
    assert list(points.get_xdata()) == [1, 2]
    assert points.get_ydata() == pytest.approx([1, amdahl(2, 0.1)])
    assert bars.get_segments()[1][:, 1] == pytest.approx([0.99 * amdahl(2, 0.1), 1.01 * amdahl(2, 0.1)])


def test_everything_to_compare_with_is_in_the_key():
    found = labels(scaling_figure(scaling(prediction={2: 1.5})))
    assert found[0] == "measured: median of 3, bars from smallest to largest"
    assert "ideal: each core counts in full" in found
    assert "one process with 2 threads: 1.40×" in found
    assert "your guess: 1.50×" in found
    assert "extrapolated, not measured" in found
    assert "more than this machine's 2 usable cores" in found


def test_two_counts_are_honest_about_the_law():
    found = labels(scaling_figure(scaling()))
    assert any(f"about 10{SPACE}% of each step" in text and "no evidence" in text for text in found)
    assert not any("Universal" in text for text in found)
    axes = speed_axes(scaling_figure(scaling()))
    assert axes.get_xlim()[1] < 3.5  # no far extrapolation
    axes.figure.draw_without_rendering()
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_with_more_counts_both_laws_are_fitted_and_named_at_their_ends():
    figure = scaling_figure(scaling((1, 2, 3, 4), usable=8))
    found = labels(figure)
    assert f"Amdahl's law: about 10{SPACE}% of each step does not parallelise" in found
    assert any(text.startswith("Universal scalability law") for text in found)
    assert {"Amdahl", "USL"} <= set(texts(figure))


def test_the_extrapolated_part_is_dashed_and_the_measured_one_is_not():
    axes = speed_axes(scaling_figure(scaling((1, 2, 3, 4), usable=8)))
    amdahls = [line for line in axes.get_lines() if line.get_color() == scaling_chart.AMDAHL and len(line.get_xdata())]
    inside, beyond = sorted(amdahls, key=lambda line: line.get_xdata()[0])
    assert (inside.get_xdata()[-1], inside.is_dashed()) == (4, False)
    assert (beyond.get_xdata()[0], beyond.get_xdata()[-1], beyond.is_dashed()) == (4, 6, True)


@pytest.mark.parametrize("speedups, words", [
    ({1: [1.0], 2: [0.8]}, "slower than one process"), ({1: [1.0], 2: [2.4]}, "faster than ideal")])
def test_a_law_that_does_not_describe_the_data_is_not_drawn(speedups, words):
    figure = scaling_figure(scaling(speedups=speedups))
    assert not any("Amdahl" in text for text in labels(figure))
    assert any(words in text for text in texts(figure))


def test_efficiency_is_per_core():
    figure = scaling_figure(scaling(threads=2))
    below = next(axes for axes in figure.axes if axes.get_ylabel().startswith("efficiency"))
    assert below.get_xlabel() == "processes, 2 threads each"
    assert below.containers[0][0].get_ydata() == pytest.approx([1 / 2, amdahl(2, 0.1) / 4])


def test_the_headline_names_the_best_count_and_what_threads_do():
    said = texts(scaling_figure(scaling()))
    assert "ddp.py: 2 processes are 1.82× as fast as one core\nOne process with 2 threads: 1.40×" in said


def test_the_caption_holds_machine_and_notes():
    caption = texts(scaling_figure(scaling(notes=["3 processes share 2 usable cores"])))
    assert "AMD EPYC, 2 usable cores, torch 2.13.0\nNote: 3 processes share 2 usable cores" in caption


@pytest.mark.parametrize("changes", [{"counts": (1,)}, {"counts": (1,), "all_threads": None}, {"counts": (2,)},
                                     {"counts": (1, 2, 4, 8, 16, 32, 64)}, {"usable": None}, {"caption": ()},
                                     {"speedups": {1: [1.0], 2: []}}])
def test_every_sweep_can_be_drawn(changes):
    data = scaling(**changes)
    picture = Picture(scaling_figure(data), scaling_chart.alt_text(data))
    assert picture.png()[:4] == b"\x89PNG"


def test_the_words_of_a_scaling_chart():
    said = scaling_chart.alt_text(scaling(prediction={2: 1.5}, notes=["a note"]))
    for part in ("ddp.py: 2 processes are 1.82× as fast as one core.", "One process with 2 threads: 1.40×.",
                 f"2 processes: 1.82, from 1.80 to 1.84 in 3 repeats, efficiency 91{SPACE}%.",
                 "Your guess for 2 processes: 1.50.", "Amdahl's law: about", "Note: a note.", "AMD EPYC"):
        assert part in said, part


# -- the picture --------------------------------------------------------------------------------------------------


def test_a_picture_carries_its_words(tmp_path):
    picture = Picture(Figure(figsize=(4, 3), dpi=160), "a <b>picture</b> in words")
    data, metadata = picture.bundle()
    assert data["text/plain"] == repr(picture) == picture.alt
    assert metadata["image/png"] == {"alt": picture.alt, "width": 400}
    assert "a &lt;b&gt;picture&lt;/b&gt; in words" in picture.in_words()
    picture.save(tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as saved:
        assert saved.size == (640, 480)


def test_numbers_in_words():
    assert [number(v) for v in (None, 0, 12400.4, 53.21, 0.08171, 2.5e9, float("nan"))] == [
        "–", "0", "12,400", "53.2", "0.0817", "2.5e+09", "nan"]
    assert [duration(s) for s in (8.31, 59.97, 125)] == ["8.3 s", "1 min 00 s", "2 min 05 s"]
    assert (duration(3 * 3600 + 600), duration(33.4, 0)) == ("3 h 10 min", "33 s")
    assert [count(1, "process"), count(2, "process"), count(3, "thread")] == ["1 process", "2 processes", "3 threads"]
    assert [percent(s) for s in (0.05, 0.003, 1.1, 0)] == [f"{p}{SPACE}%" for p in ("5", "0.3", "110", "0")]


@pytest.mark.parametrize("low, high", [(0, 1), (0, 12_345), (-3, 4), (0.2, 0.21), (0, 1e-9)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 8
    assert low - 1e-9 * abs(high) <= found[0] and found[-1] <= high * (1 + 1e-9)


def test_no_two_lines_differ_by_colour_alone():
    assert len(set(DASHES)) == len(COLORS) == len(set(COLORS)) == len(set(ON_DARK))


def test_where_a_steps_time_goes_is_drawn_and_said():
    ranks = [SimpleNamespace(rank=i, state="done", core=None, parts={"data": 1.0, "compute": 3.0}, samples=640,
                             samples_per_second=100.0, loss=0.1) for i in range(2)]
    data = RunData("ddp.py", "done", 8.3, 400.0, ranks)
    assert "Of rank 1's steps, 25\u00a0% data, 75\u00a0% compute." in charts.alt_text(data)
    axes = run_figure(data).axes[-1]
    assert axes.get_xlabel() == "share of a step" and [bar.get_width() for bar in axes.patches] == [0.25, 0.75] * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["data", "compute"]
