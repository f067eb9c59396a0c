"""What a replay shows of the captures: hops of events, and which nodes heard each other when.

Both are read from the frames that an analysis has decoded (`spark_analysis.captures.materialise`),
a batch at a time and without Spark: little is kept of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emulation.scenario.access_point import ACCESS
from emulation.scenario.runfolder import Run
from nodeapp.kinds import Role
from nodeapp.pubsub.registry import MIDDLEWARE, kinds_of
from spark_analysis.captures.foreign import FOREIGN_FOLDER
from spark_analysis.captures.materialise import decoded_frames
from spark_analysis.replay.transmissions import (
    Ints,
    LastHeard,
    NodeIndices,
    ReplayedTransmission,
    beacon_window,
    transmissions,
)

MOST_RECEPTIONS: Final = 150_000
"""Most rows of captures for the hops shown: about a megabyte in the page."""
STEP: Final = 0.5
"""Resolution of links, seconds, in runs of fewer than `STEPS` such steps."""
STEPS: Final = 2_000
MOST_STRETCHES: Final = 30_000
"""Most stretches of time in which a link was up; the longest are kept."""
_OF_HOPS: Final = (
    "node", "interface", "time_ns", "ip_src", "ip_dst", "kind", "hops", "destination",
    "publisher", "sequence",
)  # fmt: skip
_OF_LINKS: Final = ("node", "interface", "number", "time_ns", "ip_src", "kind")
_OF_SENDERS: Final = ("node", "interface", "number", "sender")


@dataclass
class Hops:
    """The transmissions of some events: (publisher, sequence) each, in order of time."""

    events: list[tuple[int, int]]
    transmissions: list[ReplayedTransmission]
    """By event, then by time."""
    of: int
    """How many events have transmissions; if more than are here, these are a sample."""


@dataclass
class LinkHistory:
    """Stretches of time in which nodes heard each other: pairs of indices, and seconds."""

    pairs: Ints
    """Shape (n, 2)."""
    spans: npt.NDArray[np.float64]
    """Shape (n, 2): from, until."""
    left_out: int
    step: float
    """Resolution, seconds."""
    window: float
    """Seconds for which a received frame keeps a link up."""
    handovers: list[tuple[float, int, int, int]]
    """Time in s, station, old and new access point: the first frame that the new one received."""


def has_frames(run: Run) -> bool:
    """Return whether the run's captures have been decoded."""
    return decoded_frames(run) is not None


class _ColumnIndices(NodeIndices):
    """Indices of nodes for columns of decoded captures."""

    def of_names(self, names: pa.Array[Any]) -> Ints:
        """Return the indices of captures' nodes, -1 for those that are not in the scenario."""
        encoded = names.dictionary_encode()
        indices = np.array(
            [self.by_name.get(str(name), -1) for name in encoded.dictionary.to_pylist()] or [-1],
            np.int64,
        )
        by_row: Ints = indices[encoded.indices.to_numpy(zero_copy_only=False)]
        return by_row


Chosen = Callable[[pa.RecordBatch], Any]
"""Returns which rows of a batch to keep."""


def _batches(
    folder: Path | None, columns: Sequence[str], choose: Chosen
) -> Iterator[pa.RecordBatch]:
    parts = () if folder is None else sorted(folder.glob("*.parquet"))
    for part in parts:
        with pq.ParquetFile(part, read_dictionary=["node", "interface"]) as file:
            for batch in file.iter_batches(columns=list(columns), use_threads=False):
                chosen = batch.filter(choose(batch))
                if chosen.num_rows:
                    yield chosen


def _of_events(batch: pa.RecordBatch) -> Any:
    by_radio = pc.not_equal(batch["interface"].cast(pa.string()), pa.scalar("lo"))
    return pc.and_(by_radio, pc.is_in(batch["kind"], pa.array(kinds_of(Role.EVENT), pa.int32())))


def _of_access(batch: pa.RecordBatch) -> Any:
    return pc.equal(batch["interface"].cast(pa.string()), pa.scalar(ACCESS))


def _ints(column: pa.Array[Any]) -> Ints:
    values = column.cast(pa.int64()).fill_null(-1)
    numbers: Ints = values.to_numpy(zero_copy_only=False)
    return numbers


class _Senders:
    """Tells whose radio sent a frame that the access radios' channel carried.

    The testbed's own frames have the sender's IPv4 source.  Kernels that route for a middleware
    keep the source of what they forward: of its frames the analysis has read who sent them.
    """

    def __init__(self, run: Run, indices: _ColumnIndices) -> None:
        self._indices = indices
        self._routed = run.scenario.protocol.name in MIDDLEWARE
        parts: list[tuple[Ints, Ints]] = [(np.array([-1]), np.array([-1]))]  # at least one
        if self._routed:
            parts += [
                (self._keys(batch), indices.of_ids(_ints(batch["sender"])))
                for batch in _batches(run.metrics / FOREIGN_FOLDER, _OF_SENDERS, _of_access)
            ]
        keys, senders = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(keys)
        self._frames, self._senders = keys[order], senders[order]

    def _keys(self, batch: pa.RecordBatch) -> Ints:
        """Return a number for each frame, of its capture and its record there."""
        return (self._indices.of_names(batch["node"]) << 40) | _ints(batch["number"])

    def of(self, batch: pa.RecordBatch) -> Ints:
        """Return the indices of the nodes that sent frames, -1 if none of the scenario did."""
        sources = self._indices.of_addresses(_ints(batch["ip_src"]))
        if not self._routed:
            return sources
        keys = self._keys(batch)
        at = np.minimum(np.searchsorted(self._frames, keys), len(self._frames) - 1)
        foreign = np.where(self._frames[at] == keys, self._senders[at], -1)
        return np.where(_ints(batch["kind"]) < 0, foreign, sources)


def hops(run: Run, epoch_ns: int) -> Hops:
    """Return the transmissions of the run's events, or of as many as a page can hold."""
    indices = _ColumnIndices(run)
    parts: list[tuple[Ints, ...]] = []
    for batch in _batches(decoded_frames(run), _OF_HOPS, _of_events):
        source = indices.of_addresses(_ints(batch["ip_src"]))
        parts.append(
            (
                (_ints(batch["publisher"]) << 32) | _ints(batch["sequence"]),
                _ints(batch["time_ns"]) - epoch_ns,
                indices.of_names(batch["node"]),
                source,
                _ints(batch["ip_dst"]),
                _ints(batch["hops"]),
                _ints(batch["destination"]),
            )
        )
    if not parts:
        return Hops([], [], 0)
    event, time, node, source, to, hop, final = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    in_scenario = (node >= 0) & (source >= 0)
    keys, first, counts = _events(event[in_scenario], time[in_scenario])
    chosen = _sample(first, counts)
    number = np.full(len(keys), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(in_scenario)
    mine = mine[number[np.searchsorted(keys, event[mine])] >= 0]
    index = number[np.searchsorted(keys, event[mine])]
    rows = (index, source[mine], to[mine], hop[mine], final[mine], time[mine], node[mine])
    order = np.lexsort(rows[::-1])
    through = bool(run.scenario.access_points)
    sorted_rows = zip(*(column[order].tolist() for column in rows), strict=True)
    sent = list(transmissions(sorted_rows, through=through))
    sent.sort(key=lambda transmission: (transmission.event, transmission.sent))
    events = [(int(key) >> 32, int(key) & 0xFFFFFFFF) for key in keys[chosen]]
    return Hops(events, sent, len(keys))


def _events(event: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the events' keys, first times and numbers of rows."""
    keys, inverse, counts = np.unique(event, return_inverse=True, return_counts=True)
    first = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, time)
    return keys, first, counts


def _sample(first: Ints, counts: Ints) -> Ints:
    """Return which events to show, by time: all, or an even sample that fits."""
    by_time = np.argsort(first, kind="stable")
    total = int(counts.sum())
    stride = max(1, -(-total // MOST_RECEPTIONS))
    return by_time[::stride].astype(np.int64)


def links(run: Run, epoch_ns: int, seconds: float) -> LinkHistory:
    """Return who heard whom when, over `seconds`; with access points, when these heard stations."""
    indices = _ColumnIndices(run)
    count = len(run.scenario.nodes)
    window = beacon_window(run)
    step = max(STEP, seconds / STEPS)
    steps = int(seconds / step) + 2
    points = np.zeros(count, np.bool_)
    points[[indices.by_name[point.name] for point in run.scenario.access_points]] = True
    senders = _Senders(run, indices)
    seen = Distinct()
    visits: list[Ints] = []
    for batch in _batches(decoded_frames(run), _OF_LINKS, _of_access):
        sender = senders.of(batch)
        receiver = indices.of_names(batch["node"])
        when = ((_ints(batch["time_ns"]) - epoch_ns) / 1e9 / step).astype(np.int64)
        heard = (sender >= 0) & (receiver >= 0) & (sender != receiver)
        heard &= (when >= 0) & (when < steps)
        if run.scenario.access_points:  # a point also passes on frames of others
            heard &= points[np.maximum(receiver, 0)] & ~points[np.maximum(sender, 0)]
            since = _ints(batch["time_ns"])[heard] - epoch_ns
            visits.append(np.column_stack((since, sender[heard], receiver[heard])))
        low, high = np.minimum(sender, receiver)[heard], np.maximum(sender, receiver)[heard]
        seen.add((low * count + high) * steps + when[heard])
    keys = seen.sorted()
    if not len(keys):
        return LinkHistory(np.zeros((0, 2), np.int64), np.zeros((0, 2)), 0, step, window, [])
    pair, at = keys // steps, keys % steps
    gap = max(1, round(window / step))
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = (pair[1:] != pair[:-1]) | (np.diff(at) > gap)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(keys)) - 1
    spans = np.column_stack((at[starts] * step, np.minimum((at[ends] + gap) * step, seconds)))
    pairs = np.column_stack((pair[starts] // count, pair[starts] % count))
    longest = np.argsort(spans[:, 0] - spans[:, 1], kind="stable")[:MOST_STRETCHES]
    kept = np.sort(longest)
    left_out = len(spans) - len(kept)
    return LinkHistory(pairs[kept], spans[kept], left_out, step, window, _handovers(visits))


class Distinct:
    """Distinct numbers of many batches: joined when they have doubled, not at each batch."""

    def __init__(self) -> None:
        self._joined: Ints = np.zeros(0, np.int64)
        self._since: list[Ints] = []
        self._waiting = 0

    def add(self, numbers: Ints) -> None:
        """Add the numbers of a batch, in any order."""
        self._since.append(np.unique(numbers))
        self._waiting += len(self._since[-1])
        if self._waiting > len(self._joined):
            self.sorted()

    def sorted(self) -> Ints:
        """Return all numbers so far, each once."""
        self._joined = np.unique(np.concatenate([self._joined, *self._since]))
        self._since, self._waiting = [], 0
        return self._joined


def _handovers(visits: list[Ints]) -> list[tuple[float, int, int, int]]:
    """Return when stations were first heard by another access point: see `LinkHistory.handovers`.

    `visits` are rows of time in ns, station, access point.
    """
    if not visits:
        return []
    rows = np.concatenate(visits)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    by_station = np.argsort(rows[:, 1], kind="stable")
    ordered = rows[by_station]
    first = np.ones(len(rows), np.bool_)  # of a station, or at another point
    first[1:] = np.any(np.diff(ordered[:, 1:], axis=0), axis=1)
    last_heard = LastHeard()
    changes = [
        last_heard.heard(time / 1e9, station, point)
        for time, station, point in rows[np.sort(by_station[first])].tolist()
    ]
    return [change for change in changes if change is not None]
