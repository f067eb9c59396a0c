"""What a page shows of a run or a script: each browser gets what it does not have yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import Any, Final, NamedTuple

from spark_analysis.replay.happenings import handover_marks

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
        entries = list(islice(reversed(self._entries), max(0, missing)))
        entries.reverse()
        return entries

    @property
    def _first(self) -> int:
        """The number of the first entry that is kept."""
        return self.count - len(self._entries)


class Changes(Log):
    """A log of changes, and the sum of those that are no longer kept.

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
        entries = super().since(number)
        if number >= self._first:
            return entries
        return [["missed"], *self._last.values(), *self._links.values(), *entries]

    def _let_go(self, change: list[Any]) -> None:
        kind, node, *rest = change
        if kind == "link":
            self._links[node, rest[0]] = change
        elif kind == "gone":
            self._links.pop((node, rest[0]), None)
        elif kind in ("move", "role", "range", "details"):
            self._last[kind, node] = change


class Moment(NamedTuple):
    """How far a run and its page have come, in seconds, and how the run ended."""

    now: float
    until: float
    ended: str | None


class Followed(ABC):
    """What a run's folder tells while the run goes on."""

    def __init__(self) -> None:
        self.log = Changes(KEPT)
        self.hops, self.loads = Log(HOPS_KEPT), Log(LOADS_KEPT)
        self.tracks_version = 0
        self._lock = Lock()  # a browser with two tabs

    @abstractmethod
    def scene(self) -> dict[str, Any]:
        """Return what does not change, as `live.js` and the page's template take it."""

    @abstractmethod
    def take_in(self) -> Moment | None:
        """Take in what has come; return how far the run is, None before it begins."""

    @abstractmethod
    def facts(self, now: float) -> dict[str, Any]:
        """Return the present state: `marks` of what has failed, and counts."""

    def tracks(self) -> list[list[list[float]]] | None:
        """Return the trajectories of all nodes, by waypoints; None if not known ahead."""
        return None

    def look(self) -> bool:
        """Take in what has come since the last look; return whether the run goes on."""
        with self._lock:
            moment = self.take_in()
        return moment is None or moment.ended is None

    def state(self, cursor: Cursor) -> dict[str, Any]:
        """Return the present state, and what has come since a cursor."""
        with self._lock:
            moment = self.take_in()
            if moment is None:
                return {"time": None, "ended": None}
            return {
                "time": round(moment.now, 3),
                "until": round(moment.until, 3),
                "ended": moment.ended,
                "log": self.log.since(cursor.log),
                "hops": self.hops.since(cursor.hops),
                "loads": self.loads.since(cursor.loads),
                "tracks": None if cursor.tracks == self.tracks_version else self.tracks(),
                "next": [self.log.count, self.hops.count, self.loads.count, self.tracks_version],
                **self.facts(moment.now),
            }

    def handed_over(self, changes: Iterable[tuple[float, int, int, int]], names: list[str]) -> None:
        """Log handovers: time, node, old and new access point."""
        for mark in handover_marks(changes, names):
            self.log.add("handover", mark)
