"""What the kit shows in JupyterLab, held against WCAG 2.1 A and AA by axe-core, and used with the keyboard alone."""

from __future__ import annotations

import pytest
from lab import run_cells, write_notebook
from test_live_view import BROWSER, PICTURE, VIEW, chromium, expect, folder, lab, page  # noqa: F401 (fixtures)

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (CHROMIUM names one)")
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
# JupyterLab's own: it gives pictures no alt text, so the kit writes it beside them; and it hides what is scrolled.
OF_JUPYTERLAB = {"image-alt", "scrollable-region-focusable"}


def violations(page) -> list[str]:  # noqa: F811
    response = axe.Axe().run(page, context=".jp-OutputArea-output", options=RULES).response
    assert response["passes"], "axe-core has looked at nothing"
    found = response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found if each["id"] not in OF_JUPYTERLAB
            for node in each["nodes"]]


def test_what_stands_under_a_cell(page, lab, folder):  # noqa: F811
    (folder / "other.py").write_text("import math\n# a comment\n\ndef train(rank, world_size):\n    return 'text'\n")
    notebook = write_notebook(folder / "words.ipynb", [
        "import cpump_kit as cp\nguess = cp.predict('How many?', unit='x')", "cp.show('lesson.py')",
        "cp.show('lesson.py', against='other.py')",
        "cp.check.shard(lambda order, rank, size: order)\ncp.hint('shard')",
        "run = cp.launch('lesson.py', nprocs=2, steps=20)", "results = await run\nprint('all is shown')"])
    lab.open(page, notebook)
    run_cells(page)
    expect(page.locator(PICTURE)).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-OutputArea", has_text="all is shown")).to_be_visible(timeout=20_000)
    assert violations(page) == []
    words = page.locator(".jp-OutputArea details", has_text="This picture in words")
    words.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(words.locator("p")).to_be_visible()


def test_a_run_in_flight_is_readable_and_stops_by_keyboard(page, lab, folder):  # noqa: F811
    notebook = write_notebook(folder / "keys.ipynb", [
        "import cpump_kit as cp\nrun = cp.launch('lesson.py', nprocs=2, steps=100_000)"])
    lab.open(page, notebook)
    run_cells(page)
    expect(page.locator(VIEW)).to_contain_text("core 0", timeout=60_000)
    assert violations(page) == []
    page.locator(".jp-OutputArea button", has_text="Stop").focus()
    page.keyboard.press("Enter")
    expect(page.locator(PICTURE)).to_be_visible(timeout=30_000)
    expect(page.locator(".jp-OutputArea", has_text="Stopped by you")).to_have_count(1)
