"""The reader's guess: asked, kept, shown again, compared."""

import pytest

import cpump_kit as cp
from cpump_kit.teaching import predict as prediction
from cpump_kit.teaching.predict import Prediction

QUESTION = "speed-up on 2 processes?"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path))
    monkeypatch.setattr(prediction, "_this_session", {})
    return tmp_path / "guesses"


@pytest.fixture
def shown(monkeypatch):
    """As if a page were there: what `predict` displays."""
    displayed = []
    monkeypatch.setattr(prediction, "has_page", lambda: True)
    monkeypatch.setattr("IPython.display.display", displayed.append)
    return displayed


def parts(box):
    """(question, field, unit, button, answer) of the widget."""
    question, row = box.children
    return question, *row.children


def new_session(monkeypatch):
    monkeypatch.setattr(prediction, "_this_session", {})


def test_without_a_page_it_stays_quiet(capsys):
    guess = cp.predict(QUESTION)
    assert guess == Prediction(QUESTION, "x", None)
    assert capsys.readouterr() == ("", "")


def test_a_guess_in_code_is_kept_for_the_question(monkeypatch):
    assert cp.predict(QUESTION, guess=1.8).value == 1.8
    new_session(monkeypatch)
    assert cp.predict(QUESTION).value == 1.8
    assert cp.predict("another question?").value is None
    assert cp.predict(QUESTION, guess=1.5).value == 1.5
    new_session(monkeypatch)
    assert cp.predict(QUESTION).value == 1.5


def test_the_button_keeps_what_was_typed(shown, monkeypatch):
    guess = cp.predict(QUESTION)
    _, field, unit, button, answer = parts(shown[0])
    assert field.value == "" and unit.value == "x"
    field.value = "1.8"
    button.click()
    assert guess.value == 1.8 and answer.value == "Kept: 1.8x"
    new_session(monkeypatch)
    cp.predict(QUESTION)
    _, field, _, _, answer = parts(shown[1])
    assert field.value == "1.8" and "1.8x" in answer.value


@pytest.mark.parametrize("typed, value", [
    ("1,8", 1.8), (" 2 ", 2), ("1.8x", 1.8), ("1.8 x", 1.8), ("20,000", 20000), ("1,234,567.5", 1234567.5),
    ("1e3", 1000)])
def test_people_type_numbers_in_many_ways(shown, typed, value):
    guess = cp.predict(QUESTION)
    _, field, _, button, _ = parts(shown[0])
    field.value = typed
    button.click()
    assert guess.value == value


@pytest.mark.parametrize("typed", ["", "two", "1.8.2", "nan", "inf", "<b>3</b>"])
def test_what_is_no_number_keeps_the_old_guess(shown, typed):
    cp.predict(QUESTION, guess=1.5)
    guess = cp.predict(QUESTION)
    _, field, _, button, answer = parts(shown[0])
    field.value = typed
    button.click()
    assert guess.value == 1.5 and "type a number" in answer.value and "<" not in answer.value


def test_text_is_escaped(shown):
    cp.predict("<script>a</script> & b?", unit="<i>s</i>", guess=2)
    cp.predict("<script>a</script> & b?", unit="<i>s</i>")
    question, _, unit, _, answer = parts(shown[0])
    assert "<script>" not in question.value and "&lt;script&gt;" in question.value
    assert unit.value == "&lt;i&gt;s&lt;/i&gt;" and "<i>" not in answer.value


@pytest.mark.parametrize("question", ["", "  ", None, 3])
def test_a_question_is_needed(question):
    with pytest.raises(ValueError, match="question in words"):
        cp.predict(question)


@pytest.mark.parametrize("guess", ["two", float("nan"), True, [1]])
def test_a_guess_is_a_number(guess):
    with pytest.raises(ValueError, match="a guess is a number"):
        cp.predict(QUESTION, guess=guess)


def test_a_damaged_file_is_no_guess_and_no_error(folder, monkeypatch):
    cp.predict(QUESTION, guess=1.8)
    (file,) = folder.iterdir()
    for damage in ("", "{", "[]", '{"value": "x"}', "null"):
        file.write_text(damage)
        new_session(monkeypatch)
        assert cp.predict(QUESTION).value is None
    assert cp.predict(QUESTION, guess=2).value == 2


def test_without_a_folder_the_session_remembers(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CPUMP_CACHE", str(tmp_path / "file"))
    cp.predict(QUESTION, guess=1.8)
    assert cp.predict(QUESTION).value == 1.8


@pytest.mark.parametrize("guess, measured, words", [
    (1.8, 1.2, ["1.8x", "1.2x", "0.6x less"]), (1.2, 1.8, ["1.2x", "1.8x", "0.6x more"]),
    (1.8, 1.81, ["1.8x", "1.81x", "very close"]), (0, 0, ["0x", "very close"]), (None, 1.5, ["1.5x", "no guess"])])
def test_the_comparison_is_one_sentence_with_both_numbers(guess, measured, words):
    said = Prediction(QUESTION, "x", guess).compare(measured)
    assert all(word in said for word in words)
    assert not any(word in said for word in ("wrong", "right", "correct"))


def test_units_and_large_numbers_are_readable():
    assert "5,000 images/s and measured 6,842 images/s, 1,842 images/s more" in \
        Prediction("how fast?", "images/s", 5000).compare(6842.2)
