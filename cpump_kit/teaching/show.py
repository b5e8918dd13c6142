"""`show`: a script with its colours and line numbers, or what is new in it since an earlier script."""

from __future__ import annotations

import difflib
import html
from dataclasses import dataclass, replace
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from ..errors import CpumpError
from ..notebook import show_both
from ..style import count

CONTEXT = 2  # unchanged lines that stay open beside a change
FOLD = 4  # a shorter stretch is not worth a fold

# A sign, a word, and a bar that is solid or dashed tell new from old; the colours (Okabe-Ito's blue and orange) only
# help. They stay off the code: JupyterLab's own colours of code have just enough contrast on a plain page.
WORDS = {" ": "", "+": "+ now", "-": "- was"}
STYLES = {" ": "border-left: 4px solid transparent", "+": "border-left: 4px solid #0072B2",
          "-": "border-left: 4px dashed #E69F00"}
TINTS = {" ": "", "+": "; background: rgba(0, 114, 178, 0.18)", "-": "; background: rgba(230, 159, 0, 0.18)"}
GUTTER = "display: inline-block; text-align: right; user-select: none; padding-right: 1em; width: "
PAGE = ("font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px); "
        "line-height: 1.4; white-space: pre; overflow-x: auto")
# The code stands in a pre, since nbconvert keeps spaces only there; its looks are those of the listing.
CODE = "display: inline; font: inherit; white-space: pre; margin: 0; padding: 0; background: none"


class ListingError(CpumpError, ValueError):
    """A script that cannot be shown."""


@dataclass(frozen=True)
class Line:
    number: int  # in its own file, from 1
    text: str
    coloured: str  # the text as HTML
    sign: str = " "  # or "+" or "-"


def show(script: str | Path, against: str | Path | None = None) -> None:
    """Display a script, or with `against` what is new in it since that earlier script.

    Paths are taken from the current folder. Raises ListingError for a file that is not there or is not text.
    """
    lines = _lines(script)
    if against is None:
        title, parts = Path(script).name, [lines]
    else:
        parts = _parts(_lines(against), lines)
        signs = [line.sign for part in parts for line in part]
        title = (f"{Path(script).name} since {Path(against).name}: "
                 f"{count(signs.count('+'), 'line')} new (+ now), {count(signs.count('-'), 'line')} gone (- was)")
    folds = [against is not None and _folds(part) for part in parts]
    signed = against is not None
    text = [_folded(part) if fold else _as_text(part, signed) for part, fold in zip(parts, folds)]
    page = [_as_html(part, signed, fold) for part, fold in zip(parts, folds)]
    name = html.escape(title)
    show_both("\n".join([title, *text]), f'<b>{name}</b><div style="{PAGE}" tabindex="0" role="region" '
              f'aria-label="{name}">{"".join(page)}</div>')  # a listing that scrolls must be reached by keyboard


def _lines(script: str | Path) -> list[Line]:
    path = Path(script).expanduser()
    try:
        text = path.read_text(encoding="utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise ListingError(f"{path} is not text in UTF-8") from None
    except OSError:
        folder = path.parent if path.parent.is_dir() else Path()
        near = difflib.get_close_matches(path.name, [other.name for other in folder.glob("*.py")], n=1)
        hint = f"; did you mean {folder / near[0]}?" if near else f" (looked from {Path.cwd()})"
        raise ListingError(f"there is no script {path}{hint}") from None
    # The formatter closes its colours at the end of each line, so that the lines can stand alone.
    formatter = HtmlFormatter(nowrap=True, noclasses=True, style=_style())
    coloured = highlight(text, PythonLexer(stripnl=False), formatter)
    pairs = zip(text.split("\n"), coloured.split("\n"))
    return [Line(number, plain, colour) for number, (plain, colour) in enumerate(pairs, 1)]


def _style():
    """JupyterLab's own colours, which follow its dark and light themes."""
    try:
        from jupyterlab_pygments import JupyterStyle
    except ImportError:
        return "default"
    return JupyterStyle


def _parts(before: list[Line], after: list[Line]) -> list[list[Line]]:
    """The later script with the lines that went from it, cut into changed and unchanged stretches."""
    matcher = difflib.SequenceMatcher(None, [line.text for line in before], [line.text for line in after], False)
    parts = []
    for what, start, stop, start_after, stop_after in matcher.get_opcodes():
        here = after[start_after:stop_after]
        if what == "equal":
            first = CONTEXT if start else 0
            last = max(first, len(here) - (CONTEXT if stop < len(before) or stop_after < len(after) else 0))
            parts += [here[:first], here[first:last], here[last:]]
        else:
            parts.append([replace(line, sign="-") for line in before[start:stop]]
                         + [replace(line, sign="+") for line in here])
    return [part for part in parts if part]


def _folds(part: list[Line]) -> bool:
    return len(part) >= FOLD and all(line.sign == " " for line in part)


def _folded(part: list[Line]) -> str:
    return f"... {len(part)} lines as before"


def _as_text(part: list[Line], signed: bool) -> str:
    return "\n".join(f"{WORDS[line.sign]:6}{line.number:3}  {line.text}" if signed else f"{line.number:3}  {line.text}"
                     for line in part)


def _as_html(part: list[Line], signed: bool, fold: bool) -> str:
    rows = []
    for line in part:
        word = f'<span style="{GUTTER}3.5em{TINTS[line.sign]}">{WORDS[line.sign]}</span>' if signed else ""
        number = f'<span style="{GUTTER}2em">{line.number}</span>'
        rows.append(f'<div style="{STYLES[line.sign]}">{word}{number}<pre style="{CODE}">{line.coloured}</pre></div>')
    if not fold:
        return "".join(rows)
    return f'<details><summary style="cursor: pointer">{_folded(part)}</summary>{"".join(rows)}</details>'
