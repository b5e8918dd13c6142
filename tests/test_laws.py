"""The scaling laws: exact data give back their parameters, and data that no law describes are called so."""

import numpy as np
import pytest

from cpump_kit.measuring.laws import amdahl, fit_amdahl, fit_usl, in_words, usl

N = [1, 2, 3, 4, 6, 8]
SPACE = "\u00a0"


@pytest.mark.parametrize("serial", [0.0, 0.01, 0.05, 0.3, 1.0])
def test_amdahl_gives_back_its_share(serial):
    fit = fit_amdahl(N, [amdahl(n, serial) for n in N])
    assert fit.sigma == pytest.approx(serial, abs=1e-9)
    assert (fit.law, fit.counts, fit.limit, fit.is_evidence) == ("Amdahl", (2, 3, 4, 6, 8), None, True)
    assert fit(np.array(N)) == pytest.approx([amdahl(n, serial) for n in N])


@pytest.mark.parametrize("sigma, kappa", [(0.02, 0.001), (0.1, 0.0), (0.0, 0.01), (0.05, 0.02)])
def test_usl_gives_back_both_parameters(sigma, kappa):
    fit = fit_usl(N, [usl(n, sigma, kappa) for n in N])
    assert (fit.sigma, fit.kappa) == (pytest.approx(sigma, abs=1e-9), pytest.approx(kappa, abs=1e-9))


def test_usl_without_exchanges_is_amdahls_law_and_one_core_is_always_1():
    assert usl(7, 0.1, 0) == amdahl(7, 0.1)
    assert amdahl(1, 0.4) == usl(1, 0.4, 0.1) == 1
    assert amdahl(1e9, 0.05) == pytest.approx(20)  # Amdahl's bound, 1 / serial


def test_the_usl_peaks_where_gunther_says():
    fit = fit_usl(N, [usl(n, 0.1, 0.01) for n in N])
    here = fit.best_count
    assert here == pytest.approx(90**0.5)
    assert fit(here) > fit(here - 1) and fit(here) > fit(here + 1)


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_it_is_nearly_the_least_squares_of_the_speedups(seed):
    n = np.repeat(N, 3)
    s = amdahl(n, 0.08) * (1 + 0.03 * np.random.default_rng(seed).standard_normal(len(n)))
    fit = fit_amdahl(n, s)

    def misfit(share):
        return ((fit.scale * amdahl(n, share) - s) ** 2).sum()

    assert misfit(fit.sigma) <= 1.05 * min(misfit(share) for share in np.linspace(0, 1, 10_001))


def test_parameters_are_never_negative():
    fit = fit_usl(N, [1, 2, 3, 4, 5, 5])  # free least squares would take a negative sigma
    assert fit.sigma >= 0 and fit.kappa > 0


def test_one_process_with_another_script_as_baseline_sets_the_scale():
    fit = fit_amdahl([1, 2, 4], [0.9 * amdahl(n, 0.1) for n in (1, 2, 4)])
    assert (fit.scale, fit.sigma) == (pytest.approx(0.9), pytest.approx(0.1))
    assert fit(1) == pytest.approx(0.9)


def test_what_is_no_number_is_left_out():
    nan, inf = float("nan"), float("inf")
    fit = fit_amdahl([1, 2, 2, 2, 4, 0], [1, nan, inf, amdahl(2, 0.2), amdahl(4, 0.2), 3])
    assert fit.sigma == pytest.approx(0.2)


@pytest.mark.parametrize("n, s", [([], []), ([1], [1.0]), ([1, 2], [1, float("nan")]), ([1, 1], [0.9, 1.1])])
def test_nothing_above_one_core_is_no_fit(n, s):
    assert fit_amdahl(n, s) is None
    assert fit_usl(n, s) is None
    assert "nothing was measured" in in_words(fit_amdahl(n, s))


def test_a_missing_count_is_refused():
    with pytest.raises(ValueError, match="2 counts and 1 speed-ups"):
        fit_amdahl([1, 2], [1])


def test_too_few_counts_are_no_evidence():
    one = fit_amdahl([1, 2, 2], [1, 1.8, 1.8])
    assert not one.is_evidence
    assert "one count is no evidence" in in_words(one)
    assert fit_usl([1, 2, 4], [1, 1.8, 3]) is None  # two parameters through two counts
    assert fit_usl([1, 2, 3, 4], [1, 1.8, 2.5, 3]) is not None


def test_faster_than_ideal_is_called_so():
    fit = fit_amdahl([1, 2, 4], [1, 2.3, 4.9])
    assert (fit.sigma, fit.limit) == (0, "fast")
    assert "faster than ideal" in in_words(fit)


def test_slower_than_one_process_is_called_so():
    fit = fit_amdahl([1, 2], [1, 0.7])
    assert (fit.sigma, fit.limit) == (1, "slow")
    assert "slower than one process" in in_words(fit)


def test_noise_around_the_ideal_is_not_called_faster_than_ideal():
    assert fit_amdahl([1, 2], [1, 2.005]).limit is None


def test_words():
    assert in_words(fit_amdahl(N, amdahl(np.array(N), 0.05))) == f"about 5{SPACE}% of each step does not parallelise"
    assert in_words(fit_amdahl(N, N)) == "nearly all of each step parallelises"
    text = in_words(fit_usl(N, usl(np.array(N), 0.02, 0.01)))
    assert f"about 2{SPACE}% of each step" in text and f"costs 1{SPACE}%" in text and "about 10 would be" in text
    assert "would be" not in in_words(fit_usl(N, usl(np.array(N), 0.02, 0.0001)))  # its peak is far beyond the data
