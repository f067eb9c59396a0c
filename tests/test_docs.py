"""The pages for people: links lead somewhere, every command is named, and they stay short."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from nodeapp.installation import PROJECT
from testbed.commands import COMMANDS

DOCS = PROJECT / "docs"
RESULTS = DOCS / "reproductions"
ROOT = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")
PAGES = [
    *(PROJECT / f"{name}.md" for name in ROOT),
    *sorted(page for page in DOCS.rglob("*.md") if RESULTS not in page.parents),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCKS = re.compile(r"^```.*?^```$|^    [^\n]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(rf"{BLOCKS.pattern}|`[^`\n]*`", re.DOTALL | re.MULTILINE)
WORDS = 28_600
"""Words of all pages that people write, but for the results of papers; code does not count."""
GENERATED = DOCS / "data.md"
MEASUREMENTS = ("benchmarks", "performance", "reliability")


def anchors(page: Path) -> set[str]:
    """Return the names by which links reach the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    kept = str.maketrans("", "", string.punctuation.replace("-", "").replace("_", ""))
    return {heading.lower().translate(kept).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_pages_that_code_names_exist() -> None:
    rooms = ("nodeapp", "capture", "emulation", "spark_analysis", "testbed", "topologies", "tests")
    named = {
        name
        for room in rooms
        for source in (PROJECT / room).rglob("*.py")
        for name in re.findall(r"docs/[\w/-]+\.md", source.read_text(encoding="utf-8"))
    } - {"docs/emulation.md"}
    assert "docs/papers.md" in named
    assert not [name for name in named if "NAME" not in name and not (PROJECT / name).exists()]


def test_the_readme_has_every_command() -> None:
    table = (PROJECT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2]
    assert not [name for name in COMMANDS if not re.search(rf"^\| .*`{name}\b", table, re.M)]


def test_pages_are_for_people() -> None:
    assert sum(words(page) for page in PAGES if page != GENERATED) <= WORDS
    for release in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        assert len(release) <= 2_000
    for name in MEASUREMENTS:
        lines = (DOCS / f"{name}.md").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 100, name
        assert max(map(len, lines)) <= 120, name


def words(page: Path) -> int:
    """Return how many words a page has outside of blocks of code."""
    text = BLOCKS.sub("", page.read_text("utf-8"))
    return sum(any(char.isalnum() for char in word) for word in text.split())
