"""notebooks/INSTRUCTOR.md knows every lesson, with the minutes of its card and the same parts for each."""

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PAGE = (NOTEBOOKS / "INSTRUCTOR.md").read_text(encoding="utf-8")
LESSONS = sorted((NOTEBOOKS / "solutions").glob("[0-9]*.ipynb"))
PARTS = ("Goal", "Say", "Ask", "Usual wrong prediction", "Answer it with", "Short of time")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_its_section_and_the_minutes_of_its_card(lesson):
    number = lesson.name[:2]
    section = re.search(rf"^### {number} .+?(?=^##)", PAGE, re.M | re.DOTALL)
    assert section, f"INSTRUCTOR.md has no section '### {number} ...'"
    assert re.findall(r"\*\*([^*]+?):?\*\*", section[0]) == list(PARTS)
    card = nbformat.read(lesson, as_version=4).cells[0].source
    minutes = re.search(r"\*\*Time\*\* \| about (\d+) minutes", card)
    planned = re.search(rf"^\| {number} [^|]+\| (\d+) \|", PAGE, re.M)
    assert planned and planned[1] == minutes[1], f"the card says {minutes[1]} minutes, the plan says otherwise"


def test_links_lead_somewhere():
    for text in NOTEBOOKS.glob("*.md"):
        for link in re.findall(r"\]\((?!\w+:)([^)#]+)", text.read_text(encoding="utf-8")):
            assert (NOTEBOOKS / link).exists(), f"{text.name}: {link}"
    headings = [re.sub(r"[^\w -]", "", heading.lower()) for heading in re.findall(r"^## (.+)$", PAGE, re.M)]
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= {heading.replace(" ", "-") for heading in headings}
