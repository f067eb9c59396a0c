"""Contact traces: who meets whom, and when; read by what a file holds, not by its name.

    the ONE      `time CONN one other up` and `down` (ConnectivityONEReport, and its event logs)
    intervals    `one other start end ...`, one per line, as in CRAWDAD's traces of Haggle's iMotes

Times are seconds, names of nodes are words.  Nodes come in the order of their numbers, or as they
first appear if some have none.  A contact is mutual; overlapping ones of a pair count as one.  A
contact that is not closed lasts to the end.

Source: A. Keränen, J. Ott and T. Kärkkäinen, "The ONE simulator for DTN protocol evaluation",
SIMUTools 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from emulation.errors import ScenarioError
from emulation.plain_file import read_plain_file

CONN: Final = "CONN"
Pair = tuple[int, int]


class Contact(NamedTuple):
    """Two nodes by id, the lower first, that hear each other from `start` to `end`, seconds."""

    one: int
    other: int
    start: float
    end: float


class Contacts:
    """Which nodes are in contact at any time; pairs of indices in `ids`, the lower first."""

    def __init__(self, contacts: Sequence[Contact], ids: Sequence[int]) -> None:
        index = {node: at for at, node in enumerate(ids)}
        pairs = [sorted((index[contact.one], index[contact.other])) for contact in contacts]
        self._pairs = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        spans = np.array([(contact.start, contact.end) for contact in contacts]).reshape(-1, 2)
        self._starts, self._ends = spans.T
        self._changes = np.unique(spans)

    def at(self, time: float) -> frozenset[Pair]:
        lasting = self._pairs[(self._starts <= time) & (time < self._ends)]
        return frozenset((one, other) for one, other in lasting.tolist())

    def next(self, time: float) -> float:
        """Return when the pairs change next; infinity if never."""
        at = int(np.searchsorted(self._changes, time, side="right"))
        return float(self._changes[at]) if at < len(self._changes) else math.inf


def read(
    path: Path, begin: float, duration: float, nodes: int = 0, sighting: float = 0.0
) -> tuple[int, list[Contact]]:
    """Return how many nodes a contact trace has, and who meets from `begin` on, for `duration`.

    The first `nodes` nodes are taken, with ids from 1; 0: all.  Times are seconds, and count from
    `begin`.  An interval of no length, as of devices that were seen in one scan, lasts `sighting`.
    Raises `ScenarioError` if the file cannot be read, or nobody meets then.
    """
    try:
        text = read_plain_file(path).decode("utf-8")
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path} is not a text file") from None
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    of_the_one = any(words[1:2] == [CONN] for _, words in lines)
    spans = _merged(_of_the_one(lines, path) if of_the_one else _intervals(lines, path, sighting))
    names = dict.fromkeys(name for pair in spans for name in pair)
    if len(names) < 2:
        raise ScenarioError(f"{path} has no contacts")
    if nodes > len(names):
        raise ScenarioError(f"{path} has {len(names)} nodes: lower nodes from {nodes}")
    numbered = all(name.isdecimal() for name in names)
    chosen = (sorted(names, key=int) if numbered else list(names))[: nodes or None]
    ids = {name: number for number, name in enumerate(chosen, start=1)}
    contacts = [
        Contact(
            min(ids[one], ids[other]),
            max(ids[one], ids[other]),
            max(start - begin, 0.0),
            min(end - begin, duration),
        )
        for (one, other), of_pair in spans.items()
        if one in ids and other in ids
        for start, end in of_pair
        if end > begin and start < begin + duration
    ]
    if not contacts:
        first = max(min(start for of_pair in spans.values() for start, _ in of_pair), 0.0)
        raise ScenarioError(
            f"{path}: none of {len(chosen)} nodes meet from {begin:g} s for {duration:g} s, the "
            f"first contact of all is at {first:.15g} s: change begin, nodes or --duration"
        )
    return len(chosen), sorted(contacts, key=lambda contact: (contact.start, contact))


_Named = tuple[tuple[str, str], float, float]


def _of_the_one(lines: Iterable[tuple[int, list[str]]], path: Path) -> Iterator[_Named]:
    """Yield contacts of connections that go up and down; other events are left out."""
    open_since: dict[tuple[str, str], float] = {}
    for number, words in lines:
        if words[1:2] != [CONN]:
            continue
        if len(words) < 5 or words[4] not in ("up", "down"):
            raise ScenarioError(f"{path}:{number}: expected `time {CONN} one other up` or `down`")
        time, pair = _number(words[0], path, number), _pair(words[2], words[3], path, number)
        if words[4] == "up":
            open_since.setdefault(pair, time)
        else:
            yield pair, open_since.pop(pair, -math.inf), time
    for pair, since in open_since.items():
        yield pair, since, math.inf


def _intervals(
    lines: Iterable[tuple[int, list[str]]], path: Path, sighting: float
) -> Iterator[_Named]:
    for number, words in lines:
        if len(words) < 4:
            raise ScenarioError(
                f"{path}:{number}: neither `time {CONN} one other up` nor `one other start end`"
            )
        start, end = (_number(word, path, number) for word in words[2:4])
        if end < start:
            raise ScenarioError(f"{path}:{number}: it ends before it starts")
        until = end if end > start else start + sighting
        yield _pair(words[0], words[1], path, number), start, until


def _pair(one: str, other: str, path: Path, line: int) -> tuple[str, str]:
    if one == other:
        raise ScenarioError(f"{path}:{line}: {one} meets itself")
    return (one, other) if one < other else (other, one)


def _number(word: str, path: Path, line: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ScenarioError(f"{path}:{line}: {word!r} is not a time in seconds")
    return value


def _merged(contacts: Iterable[_Named]) -> Mapping[tuple[str, str], list[tuple[float, float]]]:
    """Return the stretches of contact by pair, in order of time, without overlaps."""
    by_pair: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for pair, start, end in contacts:
        by_pair.setdefault(pair, []).append((start, end))
    for spans in by_pair.values():
        spans.sort()
        merged = spans[:1]
        for start, end in spans[1:]:
            if start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        spans[:] = merged
    return by_pair
