"""`predict`: the reader's guess before a run, kept so that it can stand beside the measurement."""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CpumpError
from ..folders import kept_folder, write_whole
from ..notebook import has_page

CLOSE = 0.05  # a guess within 5 % of the measurement counts as close

_this_session: dict[str, float] = {}  # so that a guess stays even where no file can be written


class PredictionError(CpumpError, ValueError):
    """A question or a guess that cannot be."""


@dataclass
class Prediction:
    """A guess: `value` in `unit`, or None as long as there is none. Charts take it as `prediction=`."""

    question: str
    unit: str = "x"
    value: float | None = None

    def compare(self, measured: float) -> str:
        """One sentence with the guess and the measured value."""
        seen = _amount(measured, self.unit)
        if self.value is None:
            return f"You measured {seen}. You made no guess before: with one, you see more in the next result."
        guess, difference = _amount(self.value, self.unit), measured - self.value
        if abs(difference) <= CLOSE * abs(measured):
            return f"You expected {guess} and measured {seen}: very close, so your picture of it holds here."
        more = "more" if difference > 0 else "less"
        return (f"You expected {guess} and measured {seen}, {_amount(abs(difference), self.unit)} {more} "
                f"than you thought: what could explain the difference?")

    def _keep(self, value: float) -> None:
        self.value = _this_session[self.question] = value
        _write(self)


def predict(question: str, unit: str = "x", guess: float | None = None) -> Prediction:
    """Ask for a guess before a run, for example `guess = cp.predict("speed-up on 2 processes?", unit="x")`.

    In a notebook a field and a button show under the cell; the returned `Prediction` takes the value when the
    reader presses the button. `guess=1.8` records one in code. The guess is kept for the question in the user's
    data folder, so that running the cell again brings it back. Nothing is shown where no page shows the notebook.
    Raises PredictionError for an empty question or a guess that is not a number.
    """
    if not isinstance(question, str) or not question.strip():
        raise PredictionError("predict takes a question in words, for example predict('speed-up on 2 processes?')")
    prediction = Prediction(question, unit, _this_session.get(question, _read(question)))
    if guess is not None:
        prediction._keep(_number(guess))
    elif has_page():
        _ask(prediction)
    return prediction


def _number(guess: float | str) -> float:
    try:
        number = math.nan if isinstance(guess, bool) else float(guess)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise PredictionError(f"a guess is a number, for example 1.8, not {guess!r}")
    return number


def _typed(text: str, unit: str) -> float:
    """The number in what people type: "1.8", "1,8", "1.8 x", "20,000"."""
    text = text.strip().removesuffix(unit).strip()
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", text):
        return _number(text.replace(",", ""))
    return _number(text.replace(",", "."))


def _amount(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits}{unit}" if unit in ("x", "×", "") else f"{digits} {unit}"


def _ask(prediction: Prediction) -> None:
    """Show the field and the button."""
    import ipywidgets
    from IPython.display import display

    known = prediction.value
    field = ipywidgets.Text(value="" if known is None else f"{known:g}", placeholder="a number",
                            layout={"width": "8em"}, tooltip=prediction.question)
    button = ipywidgets.Button(description="Keep my guess", icon="check")
    answer = ipywidgets.HTML("" if known is None else f"Your guess so far: {_in_html(prediction)}")

    def keep(_) -> None:
        try:
            prediction._keep(_typed(field.value, prediction.unit))
            answer.value = f"Kept: {_in_html(prediction)}"
        except PredictionError:
            answer.value = "Please type a number, for example 1.8"

    button.on_click(keep)
    question = ipywidgets.HTML(f"<b>Your guess:</b> {html.escape(prediction.question)}")
    row = ipywidgets.HBox([field, ipywidgets.HTML(html.escape(prediction.unit)), button, answer])
    display(ipywidgets.VBox([question, row]))


def _in_html(prediction: Prediction) -> str:
    return html.escape(_amount(prediction.value, prediction.unit))


# --- the file of a guess -----------------------------------------------------------------------------------------


def _path(question: str) -> Path:
    return kept_folder("guesses") / f"{hashlib.sha256(question.encode()).hexdigest()[:16]}.json"


def _read(question: str) -> float | None:
    try:
        return _number(json.loads(_path(question).read_text(encoding="utf-8"))["value"])
    except (OSError, ValueError, TypeError, KeyError):  # no file, or a damaged one
        return None


def _write(prediction: Prediction) -> None:
    kept = {"question": prediction.question, "unit": prediction.unit, "value": prediction.value}
    with suppress(OSError):  # then it stays in memory
        write_whole(_path(prediction.question), lambda file: file.write(json.dumps(kept).encode()))
