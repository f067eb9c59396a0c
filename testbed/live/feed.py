"""What a page shows of a run or a script: each browser gets what it does not have yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
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


class Summed(Log, ABC):
    """A log, and the sum of its entries that are no longer kept."""

    def add(self, *entry: Any) -> None:
        """Add an entry."""
        if len(self._entries) == self._entries.maxlen:
            self._let_go(self._entries[0])
        super().add(*entry)

    def since(self, number: int) -> list[list[Any]]:
        """Return the entries from that number on; if some are gone, the sum and those kept."""
        entries = super().since(number)
        return entries if number >= self._first else [*self._sum(), *entries]

    @abstractmethod
    def _let_go(self, entry: list[Any]) -> None:
        """Add an entry to the sum."""

    @abstractmethod
    def _sum(self) -> Iterator[list[Any]]:
        """Yield the sum, as entries."""


class Loads(Summed):
    """Frames that nodes sent and received by the second; their sum has no second."""

    def __init__(self, kept: int) -> None:
        super().__init__(kept)
        self._sums: dict[int, list[int]] = {}

    def _let_go(self, entry: list[Any]) -> None:
        node, _, sent, received = entry
        before = self._sums.get(node, [0, 0])
        self._sums[node] = [before[0] + sent, before[1] + received]

    def _sum(self) -> Iterator[list[Any]]:
        for node, counts in self._sums.items():
            yield [node, None, *counts]


class Changes(Summed):
    """A log of changes.

    The sum of those that are gone is how things stood after them: `missed`, the last position,
    role, range and words of each node, open links, and for each node how many `older` events it
    published, were due to it and reached it.
    """

    def __init__(self, kept: int) -> None:
        super().__init__(kept)
        self._links: dict[tuple[int, int], list[Any]] = {}
        self._last: dict[tuple[str, int], list[Any]] = {}
        self._older: dict[int, list[int]] = {}

    def _sum(self) -> Iterator[list[Any]]:
        yield ["missed"]
        yield from self._last.values()
        yield from self._links.values()
        for node, counts in self._older.items():
            yield ["older", node, *counts]

    def _count(self, node: int, what: int) -> None:
        self._older.setdefault(node, [0, 0, 0])[what] += 1

    def _let_go(self, entry: list[Any]) -> None:
        kind, node, *rest = entry
        if kind == "link":
            self._links[node, rest[0]] = entry
        elif kind == "gone":
            self._links.pop((node, rest[0]), None)
        elif kind in ("move", "role", "range", "details"):
            self._last[kind, node] = entry
        elif kind == "event":
            self._count(node, 0)
            for receiver, _ in rest[-1]:
                self._count(receiver, 1)
        elif kind == "notify" and rest[-1]:  # it was due
            self._count(rest[1], 2)


class Moment(NamedTuple):
    """How far a run and its page have come, in seconds, and how the run ended."""

    now: float
    until: float
    ended: str | None


class Followed(ABC):
    """What a run's folder tells while the run goes on."""

    def __init__(self) -> None:
        self.log = Changes(KEPT)
        self.hops, self.loads = Log(HOPS_KEPT), Loads(LOADS_KEPT)
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
                **self.facts(max(moment.now, moment.until)),
            }

    def handed_over(self, changes: Iterable[tuple[float, int, int, int]], names: list[str]) -> None:
        """Log handovers: time, node, old and new access point."""
        for mark in handover_marks(changes, names):
            self.log.add("handover", mark)
