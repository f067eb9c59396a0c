"""What a replay shows of the captures: hops of events, and which nodes heard each other when.

Both are read from the frames that an analysis has decoded (`spark_analysis.captures.materialise`),
a batch at a time and without Spark: little is kept of each.

A transmission is a frame of one sender and all who received it.  In the captures it is the sender's
own row (the address of its IPv4 source is the sender's) and the rows of receivers after it.  Behind
access points a frame goes on without a new IPv4 source: then the captures in which it shows up one
after the other are its hops.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emulation.scenario.access_point import ACCESS
from emulation.scenario.runfolder import Run
from nodeapp.wire import BROADCAST, Kind
from spark_analysis.captures.materialise import decoded_frames

MOST_RECEPTIONS: Final = 150_000
"""Rows of captures that the hops of the events shown may have: about a megabyte in the page."""
SILENCE: Final = 2.5
"""Intervals between beacons without one, after which a link counts as gone."""
UNBEACONED: Final = 3.0
"""Seconds without any frame after which it does, for protocols without beacons."""
STEP: Final = 0.5
"""Seconds: links are known to this, in runs of less than `STEPS` of them."""
STEPS: Final = 2_000
MOST_STRETCHES: Final = 30_000
"""Stretches of time in which a link was there, at most; the longest are kept."""
_LIMITED_BROADCAST: Final = 0xFFFFFFFF
_COLUMNS: Final = (
    "node", "interface", "time_ns", "ip_src", "ip_dst", "kind", "hops", "destination",
    "publisher", "sequence",
)  # fmt: skip

Ints = npt.NDArray[np.int64]


@dataclass
class Transmission:
    """A frame on the air; nodes are indices, times ns since time 0."""

    event: int
    """Index of the event in `Hops.events`."""
    sent: int
    sender: int
    hops: int
    arrived: int
    receivers: list[int] = field(default_factory=list)


@dataclass
class Hops:
    """The transmissions of some events: (publisher, sequence) each, in order of time."""

    events: list[tuple[int, int]]
    transmissions: list[Transmission]
    """By event, then by time."""
    of: int
    """Events of which there are any; those here are a sample if it is more."""


@dataclass
class Links:
    """Stretches of time in which nodes heard each other: pairs of indices, and seconds."""

    pairs: Ints
    """Shape (n, 2)."""
    spans: npt.NDArray[np.float64]
    """Shape (n, 2): from, until."""
    left_out: int
    window: float
    """Seconds for which a frame heard makes a link."""


def has_frames(run: Run) -> bool:
    """Return whether the run's captures have been decoded."""
    return decoded_frames(run) is not None


class _Places:
    """Indices of nodes by name and by address; an access point is at its broker's."""

    def __init__(self, run: Run) -> None:
        nodes = run.scenario.nodes
        self.index = {node.name: index for index, node in enumerate(nodes)}
        by_id = {node.id: index for index, node in enumerate(nodes)}
        for point in run.scenario.access_points:
            self.index[point.name] = by_id[point.broker]
        addresses = [int(ipaddress.IPv4Address(node.address)) for node in nodes]
        order = np.argsort(addresses)
        self._order = order.astype(np.int64)
        self._addresses = np.array(addresses, np.int64)[order]

    def of_names(self, names: pa.ChunkedArray | pa.Array) -> Ints:
        """Return the indices of captures' nodes, -1 for those that are not in the scenario."""
        encoded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
        known = np.array(
            [self.index.get(str(name), -1) for name in encoded.dictionary.to_pylist()] or [-1],
            np.int64,
        )
        found: Ints = known[encoded.indices.to_numpy(zero_copy_only=False)]
        return found

    def of_addresses(self, addresses: Ints) -> Ints:
        """Return the indices of nodes, -1 for other addresses."""
        at = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        return np.where(self._addresses[at] == addresses, self._order[at], -1)


Chosen = Callable[[pa.RecordBatch], Any]
"""Returns which rows of a batch are wanted."""


def _batches(run: Run, wanted: Chosen) -> Iterator[pa.RecordBatch]:
    folder = decoded_frames(run)
    parts = () if folder is None else sorted(folder.glob("*.parquet"))
    for part in parts:
        with pq.ParquetFile(part, read_dictionary=["node", "interface"]) as file:
            for batch in file.iter_batches(columns=list(_COLUMNS), use_threads=False):
                chosen = batch.filter(wanted(batch))
                if chosen.num_rows:
                    yield chosen


def _of_events(batch: pa.RecordBatch) -> Any:
    by_radio = pc.not_equal(batch["interface"].cast(pa.string()), "lo")
    return pc.and_(by_radio, pc.fill_null(pc.equal(batch["kind"], int(Kind.EVENT)), False))


def _of_access(batch: pa.RecordBatch) -> Any:
    return pc.equal(batch["interface"].cast(pa.string()), ACCESS)


def _ints(column: pa.Array) -> Ints:
    values = pc.fill_null(pc.cast(column, pa.int64()), -1)
    found: Ints = values.to_numpy(zero_copy_only=False)
    return found


def hops(run: Run, epoch_ns: int) -> Hops:
    """Return the transmissions of the run's events, or of as many as a page can hold."""
    places = _Places(run)
    parts: list[tuple[Ints, ...]] = []
    for batch in _batches(run, _of_events):
        source = places.of_addresses(_ints(batch["ip_src"]))
        parts.append(
            (
                (_ints(batch["publisher"]) << 32) | _ints(batch["sequence"]),
                _ints(batch["time_ns"]) - epoch_ns,
                places.of_names(batch["node"]),
                source,
                _ints(batch["ip_dst"]),
                _ints(batch["hops"]),
                _ints(batch["destination"]),
            )
        )
    if not parts:
        return Hops([], [], 0)
    event, time, place, source, to, hop, final = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    known = (place >= 0) & (source >= 0)
    keys, first, counts = _events(event[known], time[known])
    chosen = _sample(first, counts)
    number = np.full(len(keys), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(known)
    mine = mine[number[np.searchsorted(keys, event[mine])] >= 0]
    index = number[np.searchsorted(keys, event[mine])]
    rows = (index, source[mine], to[mine], hop[mine], final[mine], time[mine], place[mine])
    order = np.lexsort(rows[::-1])
    through = bool(run.scenario.access_points)
    made = list(_transmissions([column[order] for column in rows], through))
    made.sort(key=lambda each: (each.event, each.sent))
    events = [(int(key) >> 32, int(key) & 0xFFFFFFFF) for key in keys[chosen]]
    return Hops(events, made, len(keys))


def _events(event: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """Return keys, first times and numbers of rows of the events."""
    keys, inverse, counts = np.unique(event, return_inverse=True, return_counts=True)
    first = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, time)
    return keys, first, counts


def _sample(first: Ints, counts: Ints) -> Ints:
    """Return which events to show, by time: all, or evenly as many as there is room for."""
    by_time = np.argsort(first, kind="stable")
    total = int(counts.sum())
    stride = max(1, -(-total // MOST_RECEPTIONS))
    return by_time[::stride].astype(np.int64)


def _transmissions(columns: list[Ints], through: bool) -> Iterator[Transmission]:
    """Yield what rows, sorted by all their columns, are of.

    `through`: frames go on behind access points under the address of their source.
    """
    before: tuple[int, ...] | None = None
    made: Transmission | None = None
    for row in zip(*(column.tolist() for column in columns), strict=True):
        event, source, to, hop, _, time, place = row
        if row[:5] != before or place == source or made is None:
            if made is not None and made.receivers:
                yield made
            before = row[:5]
            made = Transmission(event, time, source, hop, time)
            if place == source:
                continue
        unicast = to not in (_LIMITED_BROADCAST, BROADCAST) and to & 0xFFFFFF != 0xFFFFFF
        if through and unicast and made.receivers and place != made.receivers[-1]:
            yield made
            made = Transmission(event, made.arrived, made.receivers[-1], hop, time)
        if place not in made.receivers and place != made.sender:
            if not made.receivers:
                made.arrived = time
            made.receivers.append(place)
    if made is not None and made.receivers:
        yield made


def links(run: Run, epoch_ns: int, seconds: float) -> Links:
    """Return when nodes heard each other, over `seconds`; with access points, when these did."""
    places = _Places(run)
    count = len(run.scenario.nodes)
    interval = _beacon_interval(run)
    window = UNBEACONED if interval is None else SILENCE * interval
    step = max(STEP, seconds / STEPS)
    steps = int(seconds / step) + 2
    points = np.zeros(count, np.bool_)
    points[[places.index[point.name] for point in run.scenario.access_points]] = True
    keys = np.zeros(0, np.int64)
    for batch in _batches(run, _of_access):
        sender = places.of_addresses(_ints(batch["ip_src"]))
        receiver = places.of_names(batch["node"])
        when = ((_ints(batch["time_ns"]) - epoch_ns) / 1e9 / step).astype(np.int64)
        heard = (sender >= 0) & (receiver >= 0) & (sender != receiver)
        heard &= (when >= 0) & (when < steps)
        if run.scenario.access_points:  # what comes from these may be another's, passed on
            heard &= points[np.maximum(receiver, 0)] & ~points[np.maximum(sender, 0)]
        low, high = np.minimum(sender, receiver)[heard], np.maximum(sender, receiver)[heard]
        found = (low * count + high) * steps + when[heard]
        keys = np.union1d(keys, found)
    if not len(keys):
        return Links(np.zeros((0, 2), np.int64), np.zeros((0, 2)), 0, window)
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
    return Links(pairs[kept], spans[kept], len(spans) - len(kept), window)


def _beacon_interval(run: Run) -> float | None:
    """Return the seconds between a node's beacons, as the protocol's parameters say."""
    parameters: dict[str, Any] = dict(run.scenario.protocol.parameters)
    value = parameters.get("hello_interval")
    return float(value) if isinstance(value, int | float) and value > 0 else None
