"""The scaling chart while it is being measured, as an SVG that the browser draws; scaling_chart.py is the still one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..style import ticks, times

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 16, 30, 40


def scaling_plot(points: dict[int, Sequence[float]], counts: Sequence[int], threads: Sequence[float],
                 xlabel: str, per: int = 1) -> str:
    """Speed-ups so far over processes (or threads), the ideal line, and the line of one process with all threads.

    points    {count: speed-up of each repeat so far}
    counts    all counts that will be measured
    threads   speed-ups so far of one process with all threads
    per       cores behind each count
    """
    end = max([2, *counts])
    highest = max([float(end * per), *threads, *(value for values in points.values() for value in values)])

    def x(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (count - 0.5) / (end + 0.2)

    def y(speedup: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * speedup / (1.08 * highest)

    parts = [_axes(x, y, counts, 1.08 * highest, xlabel),
             f'<line x1="{x(1):.1f}" y1="{y(per):.1f}" x2="{x(end):.1f}" y2="{y(end * per):.1f}" class="faint" '
             'stroke-width="1.6" stroke-dasharray="2 4"/>']
    if threads:
        level = y(median(threads))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{level:.1f}" y2="{level:.1f}" '
                     'style="stroke: var(--c2)" stroke-width="2" stroke-dasharray="9 4"/>')
    parts += [_point(x(count), [y(value) for value in values], times(median(values)))
              for count, values in points.items() if values]
    key = _key([("measured", '<circle cx="11" cy="11" r="5" style="fill: var(--c0)"/>'),
                ("ideal", '<line x1="0" x2="22" y1="11" y2="11" class="faint" stroke-width="1.6" '
                          'stroke-dasharray="2 4"/>'),
                ("one process, all threads", '<line x1="0" x2="22" y1="11" y2="11" style="stroke: var(--c2)" '
                                             'stroke-width="2" stroke-dasharray="9 4"/>')])
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="speed-up over {xlabel}, as far as measured">'
            f'{"".join(parts)}{key}</svg>')


def _point(x: float, ys: Sequence[float], label: str) -> str:
    return (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{min(ys):.1f}" y2="{max(ys):.1f}" style="stroke: var(--c0)" '
            f'stroke-width="2.4"/><circle cx="{x:.1f}" cy="{median(ys):.1f}" r="5" style="fill: var(--c0)"/>'
            f'<text x="{x + 9:.1f}" y="{median(ys) + 15:.1f}">{label}</text>')


def _axes(x, y, counts: Sequence[int], top: float, xlabel: str) -> str:
    bottom, parts = HEIGHT - BOTTOM, []
    for value in ticks(0, top, 4):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                     f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    parts += [f'<text x="{x(count):.1f}" y="{bottom + 16}" text-anchor="middle">{count}</text>' for count in counts]
    middle = (TOP + bottom) / 2
    return (f'{"".join(parts)}<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{xlabel}'
            f'</text><text transform="translate(12,{middle}) rotate(-90)" text-anchor="middle">speed-up</text>')


def _key(entries: list[tuple[str, str]]) -> str:
    return "".join(f'<g transform="translate({LEFT + (0, 105, 175)[i]},0)">{mark}<text x="28" y="15">{name}</text></g>'
                   for i, (name, mark) in enumerate(entries))
