"""How the kit's pictures look, live and still: colours, line styles and numbers in words. Imports nothing."""

from __future__ import annotations

import math

# Okabe and Ito's palette ("Color Universal Design", 2008), told apart by colour-blind readers: those that stand out
# on white, and those that stand out on black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00")
# Each colour comes with dashes of its own (in line widths), so that no line is told by its colour alone.
DASHES = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 3), (9, 3))
TOLD_APART = len(COLORS)  # with more ranks than this, the single lines are thin and nameless and their mean counts


def number(value: float | None, unit: str = "") -> str:
    """A number as people write it: 12,400 / 53.2 / 0.0817 / 1.2e+07; a dash where there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        text = str(value)
    elif value == 0 or 100 <= abs(value) < 1e7:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}" if unit else text


def times(speedup: float | None) -> str:
    """1.74× or 12.2×; a dash where there is none."""
    return "–" if speedup is None else f"{speedup:.2f}×" if speedup < 9.95 else f"{speedup:.1f}×"


def duration(seconds: float, digits: int = 1) -> str:
    """8.3 s, 2 min 05 s or 3 h 10 min."""
    if seconds < 59.5:
        return f"{seconds:.{digits}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def count(n: int, noun: str) -> str:
    """1 process, 2 processes, 3 threads."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}es" if noun.endswith("s") else f"{n} {noun}s"


def percent(share: float) -> str:
    """5 %, 0.3 % or 110 %, with a space that no line breaks at."""
    text = f"{100 * share:.0f}" if abs(share) >= 0.0095 or share == 0 else f"{100 * share:.1g}"
    return f"{text}\u00a0%"


def memory(size: float) -> str:
    """Bytes as 210 MiB or 1.4 GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size / 2**20:.0f} MiB"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten apart) inside [low, high], roughly `about` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
