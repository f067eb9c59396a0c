"""What a page of a run has been told so far, so that each browser gets what it has not got yet."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

KEPT: Final = 200_000
"""Changes that are kept for browsers that come later, ..."""
HOPS_KEPT: Final = 40_000
"""... frames of events, ..."""
LOADS_KEPT: Final = 200_000
"""... and counts of frames of a node in a second."""


class Cursor(NamedTuple):
    """How much of each a browser has."""

    log: int = 0
    hops: int = 0
    loads: int = 0
    tracks: int = -1


class Log:
    """Entries, the first of which may be gone; `live.js` has what each means."""

    def __init__(self, kept: int) -> None:
        self._entries: deque[list[Any]] = deque(maxlen=kept)
        self.count = 0

    def add(self, *entry: Any) -> None:
        """Add an entry: its kind, if there are several, and what that has."""
        self._entries.append(list(entry))
        self.count += 1

    def since(self, number: int) -> list[list[Any]]:
        """Return the entries from that number on, as far as kept."""
        missing = self.count - max(number, self._first)
        found = list(islice(reversed(self._entries), max(0, missing)))
        found.reverse()
        return found

    @property
    def _first(self) -> int:
        """The number of the first entry that is kept."""
        return self.count - len(self._entries)


class Changes(Log):
    """A log of changes, and what those of them that are gone amount to.

    So a browser that comes late in a long run learns how things stood before the first change that
    is kept: open links, and the last position, role, range and words of each node.
    """

    def __init__(self, kept: int) -> None:
        super().__init__(kept)
        self._links: dict[tuple[int, int], list[Any]] = {}
        self._last: dict[tuple[str, int], list[Any]] = {}

    def add(self, *entry: Any) -> None:
        """Add a change: its kind and what that has."""
        if len(self._entries) == self._entries.maxlen:
            self._let_go(self._entries[0])
        super().add(*entry)

    def since(self, number: int) -> list[list[Any]]:
        """Return the changes from that number on.

        If some of these are gone: `missed`, how things stood after them, and those that are kept.
        """
        found = super().since(number)
        if number >= self._first:
            return found
        return [["missed"], *self._last.values(), *self._links.values(), *found]

    def _let_go(self, change: list[Any]) -> None:
        kind, node, *rest = change
        if kind == "link":
            self._links[node, rest[0]] = change
        elif kind == "gone":
            self._links.pop((node, rest[0]), None)
        elif kind in ("move", "role", "range", "told"):
            self._last[kind, node] = change
