"""Scripts as a reader sees them: alone, and against an earlier one."""

import html
import re

import pytest

import cpump_kit as cp
from cpump_kit.teaching import show as listing

BEFORE = "\n".join(["import torch", *(f"step({n})" for n in range(20)), "loss.backward()", "optimizer.step()", ""])
AFTER = BEFORE.replace("import torch", "import torch\nimport torch.distributed as dist").replace(
    "loss.backward()", "loss.backward()  # averaged")


@pytest.fixture
def shown(monkeypatch):
    """The (text, html) of each display."""
    displayed = []
    monkeypatch.setattr(listing, "show_both", lambda text, page: displayed.append((text, page)))
    return displayed


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    (tmp_path / "single.py").write_text(BEFORE)
    (tmp_path / "ddp.py").write_text(AFTER)
    monkeypatch.chdir(tmp_path)


def plain(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_a_script_shows_every_line_with_its_number(scripts, shown):
    cp.show("ddp.py")
    text, page = shown[0]
    for number, line in enumerate(AFTER.rstrip("\n").split("\n"), 1):
        assert f"{number:3}  {line}" in text.split("\n")
        assert f"{number}{line}" in plain(page)
    assert "+ now" not in page


def test_lines_are_told_apart_by_sign_and_word(scripts, shown):
    cp.show("ddp.py", against="single.py")
    text, page = shown[0]
    changed = [line.split(maxsplit=3) for line in text.split("\n") if line.startswith(("+", "-"))]
    assert changed == [["+", "now", "2", "import torch.distributed as dist"], ["-", "was", "22", "loss.backward()"],
                       ["+", "now", "23", "loss.backward()  # averaged"]]
    assert "2 lines new (+ now), 1 line gone (- was)" in text
    assert page.count("+ now</span>") == 2 and page.count("- was</span>") == 1


def test_a_long_unchanged_stretch_is_folded(scripts, shown):
    cp.show("ddp.py", against="single.py")
    text, page = shown[0]
    assert "... 16 lines as before" in text and "step(9)" not in text
    assert page.count("<details>") == 1 and "step(9)" in plain(page)
    for line in ("step(0)", "step(1)", "step(18)", "step(19)"):  # what stands beside a change stays open
        assert line in text


@pytest.mark.parametrize("before, after", [
    ("a\n" * 30, "a\n" * 30), ("", "a\nb\n"), ("a\nb\n", ""), ("a\n" * 30 + "b", "c\n" + "a\n" * 30), ("x", "y")])
def test_the_later_script_can_be_read_back_from_the_page(before, after, tmp_path, shown):
    (tmp_path / "one.py").write_text(before)
    (tmp_path / "two.py").write_text(after)
    cp.show(tmp_path / "two.py", against=tmp_path / "one.py")
    parts = listing._parts(listing._lines(tmp_path / "one.py"), listing._lines(tmp_path / "two.py"))
    lines = [line for part in parts for line in part]
    assert [line.text for line in lines if line.sign != "-"] == after.rstrip("\n").split("\n")
    assert [line.number for line in lines if line.sign != "-"] == list(range(1, 1 + len(lines) - sum(
        line.sign == "-" for line in lines)))


def test_code_is_escaped(tmp_path, shown):
    (tmp_path / "<b>.py").write_text('x = "<script>alert(1)</script>"  # & <i>\n')
    cp.show(tmp_path / "<b>.py")
    page = shown[0][1]
    assert "<script>" not in page and "<i>" not in page and "&lt;b&gt;.py" in page


def test_multi_line_strings_keep_their_line_count(tmp_path, shown):
    text = 'def f():\n    """One\n\n    two"""\n\n\nx = 1\n'
    (tmp_path / "a.py").write_text(text)
    assert [line.text for line in listing._lines(tmp_path / "a.py")] == text.rstrip("\n").split("\n")


def test_colours_follow_the_theme(scripts, shown):
    cp.show("ddp.py")
    assert "var(--jp-mirror-editor" in shown[0][1] and "color: #0" not in shown[0][1]


def test_on_a_terminal_the_text_is_printed(scripts, capsys):
    cp.show("ddp.py", against="single.py")
    said = capsys.readouterr().out
    assert "+ now   2  import torch.distributed as dist" in said and "<" not in said


def test_a_missing_script_is_one_sentence_with_the_nearest_name(scripts):
    with pytest.raises(ValueError, match=r"there is no script dpp.py; did you mean ddp.py\?"):
        cp.show("dpp.py")
    with pytest.raises(ValueError, match="there is no script nowhere/x.py"):
        cp.show("ddp.py", against="nowhere/x.py")


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        cp.show(tmp_path / "a.py")


def test_the_lesson_scripts_differ_by_a_few_lines(shown):
    from test_scripts import SCRIPTS

    cp.show(SCRIPTS / "ddp.py", against=SCRIPTS / "single.py")
    assert sum(line.startswith(("+", "-")) for line in shown[0][0].split("\n")) <= 24
