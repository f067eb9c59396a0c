"""Every citation of docs/papers.md names one of its sources, and what it points to exists."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[1]
SOURCES = PROJECT / "docs" / "papers.md"
CITATION = re.compile(r"papers\.md#([a-z0-9-]+)")
PATH = re.compile(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.py)?)`")


def test_what_is_cited_is_there() -> None:
    known = set(re.findall(r"^#{3,4} ([a-z0-9-]+)$", SOURCES.read_text("utf-8"), re.MULTILINE))
    rooms = ("nodeapp", "capture", "emulation", "spark_analysis", "testbed", "topologies", "tests")
    files = [file for room in rooms for file in (PROJECT / room).rglob("*.py")]
    cited = {
        (name, str(file.relative_to(PROJECT)))
        for file in (*files, *PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"))
        for name in CITATION.findall(file.read_text("utf-8"))
    }
    own = re.findall(r"\]\(#([a-z0-9-]+)\)", SOURCES.read_text("utf-8"))
    cited |= {(name, SOURCES.name) for name in own}
    assert {name for name, _ in cited} >= {"six-schemes", "gpsr", "aodv"}
    assert not [(name, file) for name, file in cited if name not in known]


def test_modules_that_are_named_exist() -> None:
    named = set(PATH.findall(SOURCES.read_text("utf-8")))
    assert "nodeapp/routing/aodv.py" in named
    assert not [path for path in named if not (PROJECT / path).exists()]
