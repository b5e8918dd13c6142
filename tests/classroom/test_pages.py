"""Slides and book: lessons that are run and become pages that need no network, and that everybody can read."""

import os
import re
import shutil

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from cpump_kit.classroom import book, pages, slides

PICTURE = """\
from matplotlib.figure import Figure
from cpump_kit.showing.picture import Picture
figure = Figure(figsize=(3, 2))
figure.subplots().plot([1, 2])
Picture(figure, 'A line that "rises" from 1 to 2 <b>')"""
EXERCISE = """\
def shard(order, rank, world_size):
    ### BEGIN SOLUTION
    return order[rank::world_size]
    ### END SOLUTION"""
CARD = "# 00 · First\n\n| | |\n| --- | --- |\n| **Time** | a minute |\n\n[07](07_second.ipynb), [the map](README.md)."


@pytest.fixture(scope="module", autouse=True)
def importable():
    """Kernels find the kit also where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(pages.TEMPLATES.parents[2]))
        yield


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    """Two lessons and a broken one, with the files around them."""
    folder = tmp_path_factory.mktemp("notebooks")
    for name in ("solutions", "scripts", "images"):
        (folder / name).mkdir()
    (folder / "README.md").write_text("# The lessons\n\n[First](00_first.ipynb), [help](HELP.md#top), [code](scripts).")
    (folder / "HELP.md").write_text("# Help\n\n[back](README.md)\n")
    (folder / "scripts" / "ddp.py").write_text("# 1. new\nprint('hello', 1 + 1)\n" + 9 * "import torch\n")
    (folder / "scripts" / "single.py").write_text("# 1. old\nprint('hello')\n" + 9 * "import torch\n")
    go = new_code_cell("%cd -q ..", metadata={"tags": ["solved-copy"]})
    write(folder, "00_first", go, new_markdown_cell(CARD), new_code_cell(PICTURE),
          new_code_cell("import cpump_kit as cp\ncp.show('scripts/ddp.py', against='scripts/single.py')"),
          new_markdown_cell("Now you.\n\n## An exercise\n\nWrite it."), new_code_cell(EXERCISE),
          new_code_cell("cp.check.shard(shard)"))
    write(folder, "03_broken", new_markdown_cell("# 03 · Broken"), new_code_cell("print('so far')"),
          new_code_cell("1 / 0"), new_code_cell("print('never')"))
    write(folder, "07_second", go, new_markdown_cell("# 07 · Second"), new_code_cell("print(6 * 7)"))
    return folder


def write(folder, name, *cells):
    nbformat.write(new_notebook(cells=list(cells)), folder / "solutions" / f"{name}.ipynb")


@pytest.fixture(scope="module")
def site(lessons, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return folder, book.book(lessons, folder)


@pytest.fixture(scope="module")
def show(lessons):
    notebook, error = pages.run(lessons / "solutions" / "00_first.ipynb")
    assert error is None
    return pages.html(slides.as_slides(notebook), "00_first", slides=True)


# The book

def test_a_broken_lesson_is_named_and_loses_nothing_else(site):
    folder, broken = site
    assert broken == {"03_broken": "ZeroDivisionError: division by zero"}
    text = (folder / "03_broken.html").read_text()
    assert "did not run to its end" in text and "so far" in text
    assert "42" in (folder / "07_second.html").read_text()


def test_every_link_leads_to_a_file_of_the_site(site):
    folder, _ = site
    for page in folder.glob("*.html"):
        for link in re.findall(r'<a [^>]*href="([^"#][^"]*)"', page.read_text()):
            assert (folder / link.partition("#")[0]).exists(), f"{page.name}: {link}"
    assert 'href="00_first.html"' in (folder / "index.html").read_text()
    assert 'href="HELP.html#top"' in (folder / "index.html").read_text()
    assert 'href="index.html"' in (folder / "07_second.html").read_text()


def test_solutions_stand_without_their_marks(site):
    text = (site[0] / "00_first.html").read_text()
    assert "world_size" in text and "shard: all right" in text
    assert "SOLUTION" not in text and "%cd" not in text


# Both

def test_nothing_comes_from_the_network(site, show):
    for text in [show, *(page.read_text() for page in site[0].glob("*.html"))]:
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text)


def test_pictures_have_their_description(site, show):
    for text in (show, (site[0] / "00_first.html").read_text()):
        assert [image["alt"] for image in BeautifulSoup(text, "html.parser").find_all("img")] == [
            'A line that "rises" from 1 to 2 <b>']


def test_the_pages_can_be_put_on_a_server(site):
    if os.name == "posix":
        umask = os.umask(0)
        os.umask(umask)
        assert (site[0] / "index.html").stat().st_mode & 0o777 == 0o666 & ~umask


# The slides

def types(*cells):
    made = slides.as_slides(new_notebook(cells=list(cells)))
    return [(cell.metadata.slideshow["slide_type"], cell.source.split("\n")[0]) for cell in made.cells]


def test_headings_begin_slides_wherever_they_stand():
    text = "Now you.\n\n## Two\n\nText\n\n### Three\n\n```\n# no heading\n```"
    assert types(new_markdown_cell("# One\n\nText"), new_code_cell("1"), new_markdown_cell(text)) == [
        ("slide", "# One"), ("-", "1"), ("-", "Now you."), ("slide", "## Two"), ("subslide", "### Three")]


def test_what_does_not_fit_begins_another_slide():
    one, two = (new_code_cell("\n".join("x = 1" for _ in range(15))) for _ in range(2))
    picture = new_code_cell("x", outputs=[new_output("display_data", data={"image/png": "", "text/plain": ""})])
    assert [kind for kind, _ in types(new_markdown_cell("# One"), one, two, picture)] == [
        "slide", "-", "subslide", "subslide"]


def test_metadata_by_hand_counts_more():
    skipped = new_markdown_cell("# One", metadata={"slideshow": {"slide_type": "skip"}})
    assert types(skipped, new_markdown_cell("## Two")) == [("skip", "# One"), ("slide", "## Two")]


def test_solutions_and_checks_stay_open(show):
    assert "your turn" in show and "order[rank::world_size]" not in show.replace("&", "")
    assert "all right" not in show


def test_a_lesson_is_written_by_the_command(lessons, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(slides.bootstrap, "CHECKOUT", lessons.parent)
    monkeypatch.setattr(slides, "find_lesson", lambda name, kit: lessons / "solutions" / f"{name}.ipynb")
    path = tmp_path / "show.html"
    assert slides.main(["07_second", str(path)]) == 0
    assert "42" in path.read_text()
    assert slides.main(["03_broken", str(path)]) == 1
    assert "03_broken did not run to its end: ZeroDivisionError: division by zero" in capsys.readouterr().err
    assert "so far" in path.read_text()


# In a browser

@pytest.fixture
def page():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium on this machine (CHROMIUM names one)")
    with playwright.sync_playwright() as running:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = running.chromium.launch(executable_path=program, args=flags)
        yield browser.new_page(viewport={"width": 1000, "height": 700}, reduced_motion="reduce")
        browser.close()


def violations(page) -> list[str]:
    """What axe-core finds against WCAG 2.1 A and AA."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    rules = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
    found = axe.Axe().run(page, options=rules).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def test_axe_finds_nothing_in_book_and_slides(page, site, show, tmp_path):
    (tmp_path / "show.html").write_text(show, encoding="utf-8")
    for path in (site[0] / "index.html", site[0] / "00_first.html", site[0] / "03_broken.html", tmp_path / "show.html"):
        page.goto(path.as_uri())
        assert violations(page) == [], path.name
    page.set_content('<html lang="en"><title>x</title><main><img src="x"></main></html>')
    assert [found.partition(":")[0] for found in violations(page)] == ["image-alt"]  # it does look


def test_keys_turn_the_slides(page, show, tmp_path):
    (tmp_path / "show.html").write_text(show, encoding="utf-8")
    page.goto((tmp_path / "show.html").as_uri())
    place = page.locator("#place")
    count = page.locator("section section").count()
    steps = [("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2), ("End", count), ("PageDown", count), ("Home", 1)]
    for key, number in steps:
        page.keyboard.press(key)
        page.wait_for_function(f"document.getElementById('place').textContent === '{number} of {count}'")
    assert place.inner_text() == f"1 of {count}"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
