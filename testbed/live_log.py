"""What a page of a run has been told so far, so that each browser gets what it has not got yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

KEPT: Final = 200_000
"""Entries that are kept for browsers that come later, ..."""
HOPS_KEPT: Final = 40_000
"""... and frames of events."""


class Cursor(NamedTuple):
    """How much of each a browser has."""

    log: int = 0
    hops: int = 0
    tracks: int = -1


class Log:
    """Entries, the first of which may be gone; `live.js` has what each means."""

    def __init__(self, kept: int) -> None:
        self._entries: deque[list[Any]] = deque(maxlen=kept)
        self.count = 0

    def add(self, *entry: Any) -> None:
        """Add an entry: its kind and what that has."""
        self._entries.append(list(entry))
        self.count += 1

    def since(self, number: int) -> list[list[Any]]:
        """Return the entries from that number on, as far as kept."""
        missing = self.count - max(number, self.count - len(self._entries))
        return [] if missing <= 0 else list(self._entries)[-missing:]
