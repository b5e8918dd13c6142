"""The live view in a real JupyterLab in Chromium: it shows, moves, stops, and leaves a picture that stays."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
from lab import Lab, run_cells, save, write_notebook

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine (CHROMIUM names one)")

SCRIPT = """
import time
from cpump_kit import report

def train(rank, world_size, *, steps):
    for step in range(steps):
        time.sleep(0.05)
        print("step <b>", step)
        report(loss=1 / (1 + step), samples=8, total=8 * steps)
    return rank
"""
HANGS = """
import time
import torch
import torch.distributed as dist
from cpump_kit import report

def train(rank, world_size):
    dist.init_process_group("gloo")
    for step in range(20):
        time.sleep(0.03)
        report(loss=1 / (1 + step), samples=8, total=160, compute=0.03, communication=0.01)
    if rank == 0:
        dist.all_reduce(torch.ones(1))
    time.sleep(600)
"""
VIEW, BUTTON = ".jp-OutputArea .cpump", ".jp-OutputArea button"
PICTURE = ".jp-OutputArea img[src^='data:image/png']"
WIDGET = ".jp-OutputArea .jupyter-widgets"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("notebooks")
    (found / "lesson.py").write_text(SCRIPT)
    (found / "hangs.py").write_text(HANGS)
    return found


@pytest.fixture(scope="module")
def lab(folder, tmp_path_factory):
    with Lab(folder, tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, lab, tmp_path):
    found = chromium.new_page(viewport={"width": 1200, "height": 1000})
    found.complaints = []
    found.on("console", lambda message: message.type == "error" and found.complaints.append(message.text))
    found.on("pageerror", lambda error: found.complaints.append(str(error)))
    yield found
    found.screenshot(path=tmp_path / "page.png")
    found.close()
    lab.end_kernels()


@pytest.fixture
def keep(page, tmp_path):
    """Keep a screenshot, where CPUMP_SCREENSHOTS names a folder for them."""
    return lambda name: page.screenshot(path=f"{os.environ.get('CPUMP_SCREENSHOTS', tmp_path)}/{name}.png")


def outputs(notebook):
    """All outputs of the saved file."""
    book = json.loads(notebook.read_text())
    assert "widgets" not in book["metadata"]
    return [output for cell in book["cells"] for output in cell["outputs"]]


def test_it_shows_moves_and_leaves_a_picture(page, lab, folder, keep):
    notebook = write_notebook(folder / "moves.ipynb", [
        "import cpump_kit as cp", "run = cp.launch('lesson.py', nprocs=2, steps=150)", "results = await run"])
    lab.open(page, notebook)
    run_cells(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("training: lesson.py on 2 processes", timeout=60_000)
    for part in ("rank 0", "rank 1", "samples/s", "core 0", "[rank 0] step <b>"):
        expect(view).to_contain_text(part, timeout=20_000)
    bar = view.locator("[role=progressbar]").first
    expect(bar).to_have_attribute("aria-valuenow", re.compile("[1-9]"), timeout=20_000)
    before = bar.get_attribute("aria-valuenow")
    expect(bar).not_to_have_attribute("aria-valuenow", before, timeout=20_000)
    keep("in-flight")

    expect(page.locator(PICTURE)).to_be_visible(timeout=60_000)
    expect(page.locator(WIDGET)).to_have_count(0)
    expect(page.locator(".jp-OutputArea", has_text="This picture in words")).to_have_count(1)
    keep("done")
    save(page)
    assert page.complaints == []
    picture, words = outputs(notebook)
    assert picture["metadata"]["image/png"]["alt"].startswith("lesson.py on 2 processes with 1 thread each: done in")
    assert list(picture["data"]) == ["image/png", "text/plain"] and "text/html" in words["data"]


def test_where_it_is_can_be_asked_and_a_standstill_explains_itself(page, lab, folder, keep):
    notebook = write_notebook(folder / "where.ipynb", [
        "import cpump_kit as cp", "run = cp.launch('hangs.py', nprocs=2, silence=3)"])
    lab.open(page, notebook)
    run_cells(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("training", timeout=60_000)
    for part in ("where a step's time goes", "compute 75", "communication 25"):
        expect(view).to_contain_text(part, timeout=20_000)
    page.locator(BUTTON, has_text="Where is it?").press("Enter")  # as from the keyboard
    expect(view).to_contain_text("rank 1: hangs.py, line", timeout=20_000)
    for part in ("No report for", "waiting in all_reduce", "rank 0 waits there for rank 1"):
        expect(view).to_contain_text(part, timeout=20_000)
    keep("hung")
    page.locator(BUTTON, has_text="Stop").click()
    expect(page.locator(PICTURE)).to_be_visible(timeout=30_000)
    keep("stopped")
    assert page.complaints == []


def test_stop_ends_the_run_while_it_goes_on(page, lab, folder):
    notebook = write_notebook(folder / "stops.ipynb", [
        "import cpump_kit as cp", "run = cp.launch('lesson.py', nprocs=2, steps=100_000)",
        "try:\n    await run\nexcept cp.RunStopped:\n    print('it was', run.state)"])
    lab.open(page, notebook)
    run_cells(page)
    expect(page.locator(VIEW)).to_contain_text("training", timeout=60_000)
    page.locator(BUTTON, has_text="Stop").click()
    expect(page.locator(PICTURE)).to_be_visible(timeout=30_000)
    expect(page.locator(".jp-OutputArea", has_text="it was stopped")).to_be_visible(timeout=10_000)
    expect(page.locator(".jp-OutputArea", has_text="Stopped by you")).to_have_count(1)
    expect(page.locator(WIDGET)).to_have_count(0)
    assert page.complaints == []


def test_a_waiting_kernel_is_said_and_the_view_goes_on(page, lab, folder):
    notebook = write_notebook(folder / "waits.ipynb", [
        "import cpump_kit as cp", "run = cp.launch('lesson.py', nprocs=1, steps=150)\nrun.results"])
    lab.open(page, notebook)
    run_cells(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("Interrupt", timeout=60_000)
    expect(page.locator(BUTTON, has_text="Stop")).to_be_disabled()
    bar = view.locator("[role=progressbar]").first
    expect(bar).to_have_attribute("aria-valuenow", re.compile("[1-9]"), timeout=60_000)
    expect(page.locator(PICTURE)).to_be_visible(timeout=60_000)
    assert page.complaints == []


def test_a_sweep_shows_its_progress_and_leaves_its_table(page, lab, folder, keep):
    notebook = write_notebook(folder / "sweeps.ipynb", [
        "import cpump_kit as cp", "sweep = cp.sweep('lesson.py', nprocs=(1, 2), repeats=2, steps=30)",
        "await sweep\nsweep.plot(prediction=1.5)"])
    lab.open(page, notebook)
    run_cells(page)
    view = page.locator(VIEW)
    expect(view).to_contain_text("measuring: how lesson.py scales", timeout=60_000)
    expect(view).to_contain_text("●", timeout=60_000)
    keep("in-flight")
    expect(page.locator(PICTURE)).to_be_visible(timeout=60_000)
    expect(page.locator(WIDGET)).to_have_count(0)
    expect(page.locator(".jp-OutputArea table")).to_contain_text("efficiency")
    save(page)
    assert page.complaints == []
    assert "Your guess for 2 processes: 1.50" in json.dumps(outputs(notebook))


def test_without_a_kernel_and_without_trust_the_picture_is_there(page, lab, folder):
    """As on another person's machine: the file comes from elsewhere and its kernel is not installed."""
    notebook = write_notebook(folder / "first.ipynb", [
        "import cpump_kit as cp", "run = cp.launch('lesson.py', nprocs=2, steps=20)", "results = await run"])
    lab.open(page, notebook)
    run_cells(page)
    expect(page.locator(PICTURE)).to_be_visible(timeout=60_000)
    save(page)
    book = json.loads(notebook.read_text())
    book["metadata"] = {"kernelspec": {"name": "elsewhere", "display_name": "Elsewhere", "language": "elsewhere"}}
    copy = folder / "copy.ipynb"
    copy.write_text(json.dumps(book))

    lab.open(page, copy)
    dialog = page.locator(".jp-Dialog")  # it asks for a kernel
    dialog.locator("select").select_option(label="No Kernel", timeout=30_000)
    dialog.locator("button", has_text="Select").last.click()
    expect(page.locator(PICTURE)).to_be_visible(timeout=30_000)
    assert page.locator(PICTURE).evaluate("image => image.naturalWidth") > 1000
    expect(page.locator(".jp-OutputArea", has_text="This picture in words")).to_be_visible()
    expect(page.locator(WIDGET)).to_have_count(0)
    for words in ("widget model not found", "Loading widget", "Error displaying widget"):
        expect(page.locator(".jp-Notebook")).not_to_contain_text(words, ignore_case=True)
