"""Reads a report back as its readers' programs do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})
LOADING = frozenset({"src", "href", "srcset", "data", "action", "poster", "background"})


class Page(HTMLParser):
    """Text, elements and tables of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.tables: dict[str, list[list[str]]] = {}
        self.tiles: dict[str, tuple[str, str]] = {}
        self.open: list[str] = []
        self._words: list[str] = []
        self._table: list[list[str]] = []
        self.feed(html)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self._words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs)

    def _start(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag == "section":
            self._table = self.tables.setdefault(found.get("id", ""), [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("th", "td"):
            self._table[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self._words.append(data)
        if "td" in self.open or "th" in self.open:
            self._table[-1][-1] += data

    def elements(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element called `tag`."""
        return [attributes for name, attributes in self.tags if name == tag]

    def banners(self) -> list[str]:
        """Return the classes of the banners, in order."""
        return [
            attributes["class"].split()[1]
            for attributes in self.elements("div")
            if attributes.get("class", "").startswith("banner")
        ]

    def loads(self) -> Iterator[str]:
        """Yield every address that a browser might follow or fetch."""
        for _tag, attributes in self.tags:
            for name, value in attributes.items():
                if name.rpartition(":")[2] in LOADING:
                    yield value
        yield from re.findall(r"@import|url\((?!['\"]?#)[^)]*\)", self.html)
