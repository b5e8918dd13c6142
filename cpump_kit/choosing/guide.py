"""`guide`: four questions under a cell, and an answer that cites what was measured on this machine."""

from __future__ import annotations

from html import escape

from ..errors import LaunchError
from ..notebook import Shown, has_page, show_both
from .advice import QUESTIONS, Advice, advise
from .approaches import Comparison
from .comparison import ApproachComparison, newest_kept


def guide(comparison: ApproachComparison | None = None, **answers: str) -> None:
    """Ask where a training runs and what it is like, and say which approach to use, by this machine's numbers.

    comparison   what `compare_approaches` returned; by default the one that was kept last on this machine
    answers      where="cores", "hosts" or "gpu"; limit="compute", "data", "model" or "batch"; model="small", "middle"
                 or "large"; equal="yes" or "no". They are the first choice, and the only one where nobody can click.
    Raises LaunchError for answers that it does not know, and if nothing has been measured yet.
    """
    data = comparison.data if comparison is not None else newest_kept()
    if data is None or not any(cell.rates for cell in data.cells):
        raise LaunchError("the guide has no numbers of this machine yet: run cp.compare_approaches() first")
    advice = advise(data, **answers)
    if has_page():
        _ask(data, answers, advice)
    else:
        shown = _shown(data, advice)
        show_both(shown.text, shown.html)


def _ask(data: Comparison, answers: dict[str, str], first: Advice) -> None:
    from IPython.display import display
    from ipywidgets import RadioButtons, VBox

    fields = {}
    for name, (question, options) in QUESTIONS.items():
        known = {said: answer for answer, said in options.items() if name != "model" or answer in data.models}
        fields[name] = RadioButtons(options=list(known.items()), value=answers.get(name, next(iter(known.values()))),
                                    description=question, layout={"width": "max-content"},
                                    style={"description_width": "240px"})
    display(VBox(list(fields.values())))
    place = display(_shown(data, first), display_id=True)

    def answer(_) -> None:
        place.update(_shown(data, advise(data, **{name: field.value for name, field in fields.items()})))

    for field in fields.values():
        field.observe(answer, "value")


def _shown(data: Comparison, advice: Advice) -> Shown:
    sentences = [*advice.because, f"Begin with {advice.begin_with} (lesson {advice.lesson})."]
    text = "\n".join([f"Use: {advice.headline}.", *sentences, data.caption()])
    html = "".join(f"<p>{escape(sentence)}</p>" for sentence in advice.because)
    head = f'<p style="font-size:1.2em"><b>Use: {escape(advice.headline)}</b></p>'
    begin = f"<p>Begin with <code>{escape(advice.begin_with)}</code> (lesson {advice.lesson}).</p>"
    small = f'<p style="font-size:0.9em">{escape(data.caption())}</p>'
    return Shown(text, f'<div style="max-width:46em">{head}{html}{begin}{small}</div>')
