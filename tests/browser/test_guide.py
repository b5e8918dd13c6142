"""The comparison of all approaches and its guide in a real JupyterLab: progress, the table, and answers that change."""

from __future__ import annotations

import pytest
from lab import run_cells, write_notebook
from test_accessibility import violations
from test_live_view import BROWSER, PICTURE, VIEW, WIDGET, chromium, expect, folder, keep, lab, page  # noqa: F401

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (CHROMIUM names one)")


def test_it_is_measured_and_the_guide_answers_by_its_numbers(page, lab, folder, keep):  # noqa: F811
    notebook = write_notebook(folder / "choose.ipynb", [
        "import cpump_kit as cp\ncomparison = cp.compare_approaches('small', rounds=1)",
        "await comparison\ncomparison.plot()", "cp.guide(comparison, where='hosts')"])
    lab.open(page, notebook)
    run_cells(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("measuring: all approaches on this machine", timeout=60_000)
    expect(view).to_contain_text("now: Hogwild, small model", timeout=60_000)
    assert violations(page) == []
    keep("comparison-in-flight")
    expect(page.locator(PICTURE)).to_be_visible(timeout=120_000)
    expect(page.locator(".jp-OutputArea table")).to_contain_text("what can go wrong")
    answer = page.locator(".jp-OutputArea-output", has_text="Begin with")
    expect(answer).to_contain_text("Use: DDP, gloo, under torchrun", timeout=20_000)
    page.get_by_label("on the cores of this machine").check()
    page.get_by_label("the model does not fit into memory").check()
    expect(answer).to_contain_text("Use: pipeline of 2 stages")
    expect(answer).to_contain_text("samples/s")
    assert violations(page) == []
    keep("guide")
    assert page.complaints == []
