"""Two laws of scaling, fitted to measured speed-ups.

Amdahl (1967), "Validity of the single processor approach to achieving large scale computing capabilities", AFIPS
Spring Joint Computer Conference, pp. 483-485: what does not parallelise bounds the speed-up.
Gunther (2007), "Guerrilla Capacity Planning", Springer, chapters 4 to 6: the universal scalability law adds the cost
of keeping every pair of workers in step, so that more of them can be slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..style import percent


def amdahl(n, serial):
    """The speed-up on `n` cores (a number or an array) if a share `serial` (0 to 1) does not parallelise."""
    return n / (1 + serial * (n - 1))


def usl(n, sigma, kappa):
    """The speed-up on `n` cores with contention `sigma` and coherency `kappa`, both from 0 on.

    `sigma` is the share of the work that waits its turn (Amdahl's serial share), `kappa` the cost, in the same
    unit, of each of the n (n - 1) exchanges between two cores. With kappa = 0 this is Amdahl's law.
    """
    return n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@dataclass(frozen=True)
class Fit:
    """A fitted law; call it with core counts to get speed-ups.

    law         "Amdahl" or "USL"
    sigma       the share that does not parallelise, from 0 to 1
    kappa       the USL's cost of an exchange; 0 for Amdahl's law
    scale       the speed-up of one core, by which the law is multiplied (1 unless another script is the baseline)
    counts      the different core counts above 1 that it rests on
    limit       "fast" or "slow" where the data lie beyond what the law can say (faster than ideal, slower than one
                core), None where it fits them
    """

    law: str
    sigma: float
    kappa: float
    scale: float
    counts: tuple[int, ...]
    limit: str | None = None

    def __call__(self, n):
        return self.scale * usl(np.asarray(n, dtype=float), self.sigma, self.kappa)

    @property
    def is_evidence(self) -> bool:
        """False where the law has no freedom left to be wrong, so that its fit says nothing for it."""
        return len(self.counts) > (1 if self.law == "Amdahl" else 2)

    @property
    def best_count(self) -> float | None:
        """The core count at which the USL peaks (Gunther 2007); None where it never turns down."""
        return float(np.sqrt((1 - self.sigma) / self.kappa)) if self.kappa > 0 else None


def fit_amdahl(n: Sequence[float], speedups: Sequence[float]) -> Fit | None:
    """Amdahl's law by least squares; None if no finite speed-up above one core is there.

    n, speedups   equally long: core counts and measured speed-ups, repeats one by one, in any order
    """
    return _fit("Amdahl", n, speedups)


def fit_usl(n: Sequence[float], speedups: Sequence[float]) -> Fit | None:
    """The universal scalability law by least squares; None with fewer than three different counts above 1."""
    fit = _fit("USL", n, speedups)
    return fit if fit is not None and fit.is_evidence else None


def _fit(law: str, n: Sequence[float], speedups: Sequence[float]) -> Fit | None:
    n, s = np.asarray(n, dtype=float), np.asarray(speedups, dtype=float)
    if n.shape != s.shape:
        raise ValueError(f"each speed-up needs its core count: {n.size} counts and {s.size} speed-ups were given")
    good = np.isfinite(n) & np.isfinite(s) & (n >= 1) & (s > 0)
    n, s = n[good], s[good]
    one = n == 1
    scale = float(np.median(s[one])) if one.any() else 1.0
    n, s = n[~one], s[~one] / scale
    if not len(n):
        return None
    # n / s - 1 is linear in the parameters. A small error e of s is an error e n / s^2 there, so these weights make
    # it least squares of the speed-ups themselves, to first order.
    weight = s**2 / n
    columns = np.stack([n - 1, n * (n - 1)][: 1 if law == "Amdahl" else 2], axis=1)
    parameters, free = least_squares(columns * weight[:, None], (n / s - 1) * weight)
    limit = "fast" if free[0] < -0.01 and not parameters.any() else "slow" if parameters[0] > 1 else None
    sigma, kappa = [*np.minimum(parameters, [1, np.inf][: len(parameters)]), 0.0][:2]
    counts = tuple(int(count) for count in np.unique(n))
    return Fit(law, float(sigma), float(kappa), scale, counts, limit)


def least_squares(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the best parameters from 0 on, the best ones of any sign), for one or two columns."""
    free = np.linalg.lstsq(a, b, rcond=None)[0]
    if (free >= 0).all():
        return free, free
    # The best point with none negative lies on the edge: all zero, or one column alone.
    candidates = [np.zeros(a.shape[1])]
    for i in range(a.shape[1]):
        alone = np.zeros(a.shape[1])
        alone[i] = max(0.0, float(a[:, i] @ b / (a[:, i] @ a[:, i])))
        candidates.append(alone)
    return min(candidates, key=lambda p: float(((a @ p - b) ** 2).sum())), free


def in_words(fit: Fit | None) -> str:
    """What the fit says, in one sentence without its full stop."""
    if fit is None:
        return "no law can be fitted: nothing was measured on more than one core"
    if fit.limit == "fast":
        return f"faster than ideal, which {_name(fit)} does not describe (often caches, or noise)"
    if fit.limit == "slow":
        return f"slower than one process, which {_name(fit)} does not describe: the processes cost more than they give"
    share = f"about {percent(fit.sigma)} of each step does not parallelise"
    if fit.sigma < 0.005:
        share = "nearly all of each step parallelises"
    if fit.law == "Amdahl":
        return share if fit.is_evidence else f"{share}, if {_name(fit)} holds: one count is no evidence for it"
    cost = f"and each exchange between two processes costs {percent(fit.kappa)}"
    return share if fit.kappa < 5e-5 else f"{share}, {cost}{_peak(fit)}"


def _name(fit: Fit) -> str:
    return "Amdahl's law" if fit.law == "Amdahl" else "the universal scalability law"


def _peak(fit: Fit) -> str:
    best, most = fit.best_count, max(fit.counts)
    if best is None or best > 2 * most:
        return ""
    return f", so that about {max(1, round(best))} would be the most that pays"
