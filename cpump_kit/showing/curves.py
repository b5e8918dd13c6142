"""Loss curves of several ranks, brought onto one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Curves = dict[int, tuple[Sequence[float], Sequence[float]]]  # {rank: (samples so far, values)}


def mean_over_ranks(curves: Curves, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """(samples of one rank, mean value) over the stretch that every rank has reached; empty where they share none.

    A rank without any value does not count: of a split model only the last stage knows the loss.
    """
    lines = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in curves.values() if len(x)]
    if not lines:
        return np.empty(0), np.empty(0)
    start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    if end < start:
        return np.empty(0), np.empty(0)
    here = np.linspace(start, end, min(points, max(len(x) for x, _ in lines)))
    return here, np.mean([np.interp(here, x, y) for x, y in lines], axis=0)
