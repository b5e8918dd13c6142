"""notebooks/TROUBLESHOOTING.md has every message of the kit, and none that it does not give."""

import re
from pathlib import Path

from messages import HOLE, Message, messages, plain

PAGE = Path(__file__).parents[2] / "notebooks" / "TROUBLESHOOTING.md"


def entries() -> list[str]:
    """The messages that the page quotes: its lines that begin with ">"."""
    return [line.removeprefix("> ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("> ")]


def fits(message: Message, entry: str) -> bool:
    """Whether the entry has the message's own words, in their order."""
    return bool(re.search(".*".join(map(re.escape, message.pieces)), plain(entry)))


def test_the_source_is_read():
    found = {message.text for message in messages()}
    assert "launch takes a script's path or a function, not …" in found
    assert "The disk is full: free about … GB in … (and in …, where pip unpacks), and …." in found  # from a helper
    assert "… of … was ended by …." in found  # from a verdict


def test_every_message_has_an_entry():
    known = entries()
    missing = [f"{message.place}: {message.text}" for message in messages()
               if not any(fits(message, entry) for entry in known)]
    how = f"TROUBLESHOOTING.md lacks them; give each a line that begins with '>', with {HOLE} for what varies:"
    assert not missing, "\n".join([how, *missing])


def test_every_entry_is_a_message():
    known = messages()
    stale = [entry for entry in entries() if not any(fits(message, entry) for message in known)]
    assert not stale, "the kit does not say this (any more): " + "\n".join(stale)


def test_every_entry_has_a_cause_and_a_cure():
    found = re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.DOTALL)
    assert found
    for heading, body in found:
        assert re.search(r"^> .*^\*\*Why:\*\* .*^\*\*Cure:\*\* ", body, re.M | re.DOTALL), heading


def test_links_within_the_page_lead_somewhere():
    text = PAGE.read_text(encoding="utf-8")
    headings = [re.sub(r"[^\w -]", "", heading.lower()) for heading in re.findall(r"^##+ (.+)$", text, re.M)]
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= {heading.replace(" ", "-") for heading in headings}
