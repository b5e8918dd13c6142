"""The live view of a run as HTML with a small SVG, which the browser draws. Text and numbers in, a string out.

The colours are JupyterLab's own, so that the page is readable in its light and its dark theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..style import COLORS, DASHES, ON_DARK, TOLD_APART, count, number, percent, ticks
from .curves import Curves, mean_over_ranks

WAITING = "The kernel waits for the end and cannot hear Stop: use Kernel > Interrupt (in command mode press I twice)."
LINES, LETTERS = 6, 160  # of what the workers print
STRIP = 100  # stretches of time in a core's strip
ROWS = 16  # ranks shown one by one, and cores
WIDTH, HEIGHT = 460, 236  # of the plot, in its own units
LEFT, RIGHT, TOP, BOTTOM = 50, 28, 26, 42  # its margins


def _palette(colors: Sequence[str]) -> str:
    return "".join(f"--c{i}: {color}; " for i, color in enumerate(colors))


# JupyterLab, VS Code and Colab each say in their own way that the theme is dark.
STYLE = f"""<style>
.cpump {{{_palette(COLORS)}}}
[data-jp-theme-light="false"] .cpump, .vscode-dark .cpump, [theme="dark"] .cpump {{{_palette(ON_DARK)}}}
""" + """.cpump {font: 14px/1.4 var(--jp-ui-font-family, system-ui, sans-serif); color: var(--jp-ui-font-color1, #222);
  border: 1px solid var(--jp-border-color2, #bbb); border-radius: 6px; padding: 10px 14px; box-sizing: border-box}
.cpump .head {font-size: 16px; padding-right: 250px} .cpump .say {padding-right: 250px; min-height: 20px}
.cpump .cols {display: flex; flex-wrap: wrap; gap: 6px 22px} .cpump .cols > * {flex: 1 1 330px; min-width: 0}
.cpump .bar {background: var(--jp-layout-color2, #e4e4e4); border-radius: 3px; height: 10px; overflow: hidden}
.cpump .bar div {background: var(--c0); height: 100%} .cpump .core div {background: var(--c2)}
.cpump table {border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 2px 0 10px}
.cpump th, .cpump td {padding: 2px 10px 2px 0; text-align: left; white-space: nowrap; font-weight: normal}
.cpump th, .cpump .note {color: var(--jp-ui-font-color2, #555)} .cpump .n {text-align: right}
.cpump .parts {display: flex} .cpump .strip {height: 16px; background: var(--jp-layout-color2, #e4e4e4)}
.cpump .strip polygon {fill: var(--c2)}
.cpump td.wrap {white-space: normal; line-height: 1.7; padding-left: 4px} .cpump svg .faint {stroke: #888}
.cpump .wide {width: 50%} .cpump svg {width: 100%; display: block} .cpump svg .grid {stroke-width: 0.6;
  stroke: var(--jp-border-color2, #bbb)} .cpump svg .mean {stroke: var(--jp-ui-font-color0, #000)}
.cpump svg text {fill: var(--jp-ui-font-color1, #222); font-size: 13px}
.cpump pre {margin: 6px 0 0; padding: 6px 8px; font: 13px/1.4 var(--jp-code-font-family, monospace);
  background: var(--jp-layout-color2, #eee); color: inherit; white-space: pre-wrap;
  overflow-wrap: anywhere}
</style>"""


def page(head: str, say: str, share: float | None, body: str, hint: str = "") -> str:
    """The frame of every live view. `head` and `say` are text, `share` is the part done, `body` is HTML."""
    done = 0 if share is None else max(0.0, min(1.0, share))
    known = f'aria-valuenow="{100 * done:.0f}"' if share is not None else ""
    hint = f'<div class="note">{escape(hint)}</div>' if hint else ""
    return (f'{STYLE}<div class="cpump"><div class="head"><b>{escape(head)}</b></div>'
            f'<div class="say">{escape(say)}</div>'
            f'<div class="bar" role="progressbar" aria-label="progress" {known} style="margin: 4px 0 8px">'
            f'<div style="width: {100 * done:.1f}%"></div></div>{hint}{body}</div>')


def bar(share: float, kind: str = "") -> str:
    return f'<div class="bar {kind}"><div style="width: {100 * max(0.0, min(1.0, share)):.0f}%"></div></div>'


def rank_table(ranks: Sequence) -> str:
    """A row for each rank: how far, how fast, its loss and its state in a word."""
    rows = "".join(_rank_row(rank) for rank in ranks[:ROWS])
    more = len(ranks) - ROWS
    if more > 0:
        rows += f'<tr><td colspan="5" class="note">and {count(more, "rank")} more</td></tr>'
    core = '<th class="n">core</th>' if any(rank.core is not None for rank in ranks[:ROWS]) else ""
    return ('<table><tr><th>rank</th><th class="wide">progress</th><th class="n">samples/s</th>'
            f'<th class="n">loss</th>{core}<th>state</th></tr>{rows}</table>{_parts(ranks[:ROWS])}')


def _parts(ranks: Sequence) -> str:
    """How each rank's step divides, as a bar whose stretches are named below it."""
    rows = ""
    for rank in ranks:
        whole = sum(rank.parts.values())
        if whole <= 0:
            continue
        shares = [(name, seconds / whole) for name, seconds in rank.parts.items()]
        stretches = "".join(f'<div style="width: {100 * share:.1f}%; background: var(--c{i % len(COLORS)})"></div>'
                            for i, (_, share) in enumerate(shares))
        said = " · ".join(f'<span style="border-bottom: 3px solid var(--c{i % len(COLORS)})">{escape(name)} '
                          f"{percent(share)}</span>" for i, (name, share) in enumerate(shares))
        rows += (f'<tr><td>{rank.rank}</td><td class="wide"><div class="bar parts">{stretches}</div></td>'
                 f'<td class="wrap">{said}</td></tr>')
    return f"<table><tr><th>rank</th><th>where a step's time goes</th><th></th></tr>{rows}</table>" if rows else ""


def _rank_row(rank) -> str:
    share = rank.samples / rank.total if rank.total else None
    progress = bar(share) if share is not None else f"{number(rank.samples)} samples"
    core = f'<td class="n">{rank.core}</td>' if rank.core is not None else ""
    return (f'<tr><td>{rank.rank}</td><td>{progress}</td><td class="n">{number(rank.samples_per_second)}'
            f'</td><td class="n">{number(rank.loss)}</td>{core}<td>{escape(rank.state)}</td></tr>')


def core_table(percents: Sequence[float], before: Sequence[Sequence[float]] = ()) -> str:
    """How busy each core of the machine is, and was since the launch; many cores as their sum.

    before   readings in equal steps of time, each with the percent of every core
    """
    if not percents:
        return ""
    if len(percents) > ROWS:
        in_use = sum(percents) / 100
        return (f'<table><tr><th>cores in use</th><td class="wide">{bar(in_use / len(percents), "core")}</td>'
                f'<td class="n">{in_use:.1f} of {len(percents)}</td></tr></table>')
    rows = "".join(f'<tr><td>core {core}</td><td class="wide">{_strip([use[core] for use in before] or [now])}</td>'
                   f'<td class="n">{percent(now / 100)}</td></tr>' for core, now in enumerate(percents))
    return f"<table><tr><th>use of each core</th><th>since the launch</th><th>now</th></tr>{rows}</table>"


def _strip(use: Sequence[float]) -> str:
    """A core's use over time, full at 100 %."""
    step = max(1, -(-len(use) // STRIP))
    means = [sum(use[i:i + step]) / len(use[i:i + step]) for i in range(0, len(use), step)]
    width = 100 / len(means)
    line = " ".join(f"{i * width:.1f},{16 - 0.16 * value:.1f} {(i + 1) * width:.1f},{16 - 0.16 * value:.1f}"
                    for i, value in enumerate(means))
    return (f'<svg class="strip" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
            f'<polygon points="0,16 {line} 100,16"/></svg>')


def places(text: str | None) -> str:
    """Where each rank is: asked for, or because one has not been heard for long."""
    return f"<pre>{escape(text)}</pre>" if text else ""


def printed(lines: Sequence[tuple[int, str]], last: int = LINES) -> str:
    """The last lines that the workers printed."""
    shown = [f"[rank {rank}] {line[:LETTERS]}{'…' * (len(line) > LETTERS)}" for rank, line in lines[-last:]]
    return f"<pre>{escape(chr(10).join(shown))}</pre>" if shown else ""


def loss_plot(losses: Curves, total: float | None) -> str:
    """The loss over samples: a thin line for each rank, a thick one for their mean.

    total   samples that each rank will process, which bounds the axis, or None
    """
    drawn = {rank: line for rank, line in losses.items() if len(line[0])}
    if not drawn:
        return _svg(f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">no loss has been reported yet</text>')
    now = max(x[-1] for x, _ in drawn.values())
    # Room to the right that does not change with each picture: the end if it is near, or else half as much again.
    x_end = total if total and now <= total <= 1.6 * now else 1.6 * now or 1.0
    low, high = min(min(y) for _, y in drawn.values()), max(max(y) for _, y in drawn.values())
    low, high = (0.0, high * 1.04 or 1.0) if low >= 0 else (low, high if high > low else low + 1)

    def place(x: Sequence[float], y: Sequence[float]) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * np.asarray(x) / x_end
        down = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (np.asarray(y) - low) / (high - low)
        return " ".join(f"{a:.1f},{d:.1f}" for a, d in zip(across, down))

    parts = [_axes(x_end, low, high, "samples of each rank" if len(losses) > 1 else "samples")]
    apart = len(losses) <= TOLD_APART
    for rank, (x, y) in drawn.items():
        color = f"var(--c{rank})" if apart else "#888"
        width = 2 if len(drawn) == 1 else 1.3
        parts.append(f'<polyline points="{place(x, y)}" {_stroke(color, rank if apart else 0, width)}/>')
    if len(drawn) > 1:
        mean = place(*mean_over_ranks(drawn, 120))
        parts.append(f'<polyline class="mean" points="{mean}" fill="none" stroke-width="2.4"/>')
    return _svg("".join(parts) + _key(len(losses)))


def _svg(content: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss over samples">{content}</svg>'


def _stroke(color: str, i: int, width: float) -> str:
    dashes = " ".join(f"{width * length:g}" for length in DASHES[i % len(DASHES)])
    return f'fill="none" style="stroke: {color}" stroke-width="{width}" stroke-dasharray="{dashes}"'


def _key(ranks: int) -> str:
    """What each line is, above the plot."""
    if ranks == 1:
        return ""
    entries = [(f"rank {i}", _stroke(f"var(--c{i})", i, 1.6)) for i in range(ranks)] if ranks <= TOLD_APART else []
    entries.append(("mean" if entries else f"mean of {ranks} ranks (thin: each)", 'class="mean" stroke-width="2.4"'))
    step = (WIDTH - LEFT) / max(4, len(entries))
    return "".join(f'<line x1="{LEFT + i * step:.0f}" x2="{LEFT + i * step + 22:.0f}" y1="11" y2="11" {stroke}/>'
                   f'<text x="{LEFT + i * step + 26:.0f}" y="15">{name}</text>'
                   for i, (name, stroke) in enumerate(entries))


def _axes(x_end: float, low: float, high: float, xlabel: str) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in ticks(low, high, 4):
        y = bottom - (bottom - TOP) * (value - low) / (high - low)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(0, x_end, 4):
        x = LEFT + (right - LEFT) * value / x_end
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
                     f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>')
    middle = (TOP + bottom) / 2
    return (f'{"".join(parts)}<text x="{(LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{xlabel}</text>'
            f'<text transform="translate(12,{middle}) rotate(-90)" text-anchor="middle">loss</text>')
