"""The model of a step over hosts, its fit to measured all-reduces, and its chart."""

import numpy as np
import pytest

import cpump_kit as cp
from cpump_kit.measuring.projection import StepTime

SIZES = np.array([1e3, 1e4, 1e5, 1e6, 1e7])
NETWORK = cp.Network("ten", latency=30e-6, bandwidth=1.25e9)


def test_a_step_is_compute_then_rounds_then_bytes():
    step = StepTime(compute=0.01, latency=1e-4, bandwidth=1e9, bytes=1e6)
    assert step(1) == 0.01 and step.speedup(1) == step.efficiency(1) == 1
    assert step(2) == pytest.approx(0.01 + 2e-4 + 1e-3)
    assert step(4) == pytest.approx(0.01 + 6e-4 + 1.5e-3)
    assert step.speedup(4) == pytest.approx(4 * 0.01 / step(4))
    assert list(step(np.array([1, 2]))) == [step(1), step(2)]


def test_without_latency_the_cost_stays_below_twice_the_gradients():
    assert StepTime(0.0, 0.0, 1e9, 1e9)(1_000_000) == pytest.approx(2, abs=1e-5)


@pytest.mark.parametrize("ranks", [2, 5, [2, 2, 3, 3, 4]])
def test_exact_times_give_back_the_network(ranks):
    seconds = NETWORK.all_reduce(SIZES, np.asarray(ranks))
    fit = cp.fit_network("found", SIZES, seconds, ranks)
    assert (fit.name, fit.latency, fit.bandwidth) == ("found", pytest.approx(30e-6), pytest.approx(1.25e9))


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_ten_percent_moves_it_little(seed):
    sizes = np.repeat(SIZES, 5)
    noise = 1 + 0.1 * np.random.default_rng(seed).standard_normal(len(sizes))
    fit = cp.fit_network("found", sizes, NETWORK.all_reduce(sizes, 2) * noise, 2)
    assert fit.latency == pytest.approx(30e-6, rel=0.15) and fit.bandwidth == pytest.approx(1.25e9, rel=0.15)


def test_neither_part_is_ever_negative():
    growing = cp.fit_network("found", SIZES, 1e-9 * SIZES**1.2, 2)
    assert growing.latency == 0 and growing.bandwidth > 0
    falling = cp.fit_network("found", SIZES, 1e-3 / SIZES, 2)
    assert falling.latency > 0 and falling.bandwidth == float("inf")


def test_what_is_no_measurement_of_two_ranks_is_left_out_or_refused():
    seconds = NETWORK.all_reduce(SIZES, 2)
    with_others = cp.fit_network("found", [*SIZES, 5, 5], [*seconds, float("nan"), 1.0], [2] * 6 + [1])
    assert with_others.bandwidth == pytest.approx(1.25e9)
    with pytest.raises(ValueError, match="two or more ranks"):
        cp.fit_network("found", SIZES, seconds, 1)
    with pytest.raises(ValueError, match="5 sizes and 2 times"):
        cp.fit_network("found", SIZES, [1, 2], 2)
    with pytest.raises(ValueError, match="slow: a latency"):
        cp.Network("slow", latency=-1, bandwidth=1)


def test_the_chart_says_that_nothing_was_measured_and_all_its_curves_are_dashed():
    networks = [NETWORK, cp.Network("one", 50e-6, 125e6)]
    picture = cp.project_hosts(0.01, 1e6, networks)
    speed, share, _ = picture.figure.axes
    assert "projection, not measured" in picture.alt and "not measured" in picture.figure.get_suptitle()
    curves = [*speed.lines[:2], *share.lines]
    assert [line.get_label() for line in speed.lines[:2]] == ["ten", "one"]
    assert all(line.is_dashed() for line in curves) and len({line.get_marker() for line in curves}) == 2
    for line, network in zip(share.lines, networks):
        x, y = line.get_data()
        assert x[0] == 1 and x[-1] == 1024 and y[0] == 1
        assert y == pytest.approx(StepTime(0.01, network.latency, network.bandwidth, 1e6).efficiency(x))
    assert "ten: 3" in picture.alt and "1,024 hosts" in picture.alt
    assert picture.png().startswith(b"\x89PNG")


def test_the_chart_ends_where_it_is_told():
    assert "on 3 hosts" in cp.project_hosts(0.01, 1e6, [NETWORK], hosts=3).alt


@pytest.mark.parametrize("compute, size, networks, hosts", [
    (0, 1, [NETWORK], 4), (1, -1, [NETWORK], 4), (1, 1, [NETWORK], 1), (1, 1, [], 4), (1, 1, [NETWORK, NETWORK], 4)])
def test_what_cannot_be_projected_is_refused(compute, size, networks, hosts):
    with pytest.raises(ValueError, match="a projection takes"):
        cp.project_hosts(compute, size, networks, hosts)
