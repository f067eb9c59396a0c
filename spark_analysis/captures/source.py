"""A PySpark data source over packet captures: `spark.read.format("pcap").load("runs/x")`.

Path: a run folder, a folder of captures, one capture, a glob, or several of these, separated by
commas; or such a folder's or capture's URI in a store, of which tasks copy a capture each to read
it (`spark_analysis.stores`).  The rows are `captures.schemas.FRAMES`; `.schema(...)` with some of
these columns reads only them, in less time.  Options:

    body        client (default): bodies of client messages, and of control messages that cells
                route (`nodeapp.routing.cell_wire`); all: every body
    partitions  tasks to aim for at least; default twice the processors of this machine

Theory of operation.  The driver lists the captures and cuts them into slices: a small file is one
slice, a large one is split where records start, which is known only by following its records
from the beginning (`capture.scan`; guessing fails if a packet carries a capture).  Slices are
packed into few partitions, since a task costs more than a small file.  A task reads a slice,
follows its records and decodes them with NumPy (`capture.decode`) into Arrow batches on NumPy's
own buffers.

A pcapng file is read as if it were a pcap one (`capture.pcapng`); a slice of it takes along what
describes its interfaces.  Filters on run, node, interface and time are applied before packets are
decoded (`captures.pushdown`).

A file that is not a capture of Ethernet is left out and one that is cut off is read up to its last
whole record.  A file whose times cannot be what its header says is left out, and so are records
whose time is far from all others of the run.  `survey` says which, so that the driver can tell the
user.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from capture.decode import decode_records
from capture.pcapng import Packets, as_pcap, read_packets
from capture.scan import (
    ETHERNET,
    FILE_HEADER,
    PCAPNG,
    PcapError,
    PcapHeader,
    read_header,
    record_offsets,
    record_times,
)
from nodeapp.kinds import FIRST_CLIENT_KIND
from spark_analysis import scratch, stores
from spark_analysis.captures.batches import record_batch
from spark_analysis.captures.files import Capture, SourceError, find_captures
from spark_analysis.captures.pushdown import Wanted
from spark_analysis.captures.schemas import FRAMES

LARGEST_SLICE: Final = 32 << 20
"""Bytes of captures in a partition at most, unless a single record is longer."""
SMALLEST_SLICE: Final = 1 << 20
"""Bytes below which one more task costs more than it saves."""
BATCH: Final = 32_768
"""Records in an Arrow batch; `capture.decode` works in blocks of as many."""
TRUSTED: Final = 100
"""After so many records with times in the unit of the header, one without is itself damaged."""
SECOND: Final = 10**9
"""Nanoseconds."""
FAR: Final = 30 * 86_400
"""Seconds from the middle of a run beyond which a record's time is damaged: no run is so long."""


@dataclass(frozen=True)
class Surveyed:
    """A readable capture: how many whole records, up to which byte, and what is wrong after."""

    capture: Capture
    records: int
    stop: int
    problem: str | None


@dataclass(frozen=True)
class Survey:
    """What captures there are; `problems` are one-line messages by run, names of files first."""

    captures: tuple[Surveyed, ...]
    problems: Mapping[str, tuple[str, ...]]


def survey(captures: Sequence[Capture]) -> Survey:
    """Follow every capture's records; return the readable captures, and what is wrong with any."""
    readable: list[Surveyed] = []
    problems: dict[str, list[str]] = {}
    times: dict[str, dict[Capture, npt.NDArray[np.int64]]] = {}
    for capture in captures:
        problem: str | None
        try:
            records = _follow(capture)
        except PcapError as error:
            problem = f"{capture.path.name} is left out: it {error}"
        except OSError as error:
            problem = f"{capture.path.name} is left out: it cannot be read: {error.strerror}"
        else:
            count, problem = len(records.starts), records.problem
            if problem is not None:
                problem = f"{capture.path.name} is read up to record {count}: {problem}"
            readable.append(Surveyed(capture, count, records.stop, problem))
            if count:
                times.setdefault(capture.run, {})[capture] = records.time_ns
        if problem is not None:
            problems.setdefault(capture.run, []).append(problem)
    for run, by_capture in times.items():
        span, strange = _strange(by_capture)
        if strange:
            problems.setdefault(run, []).extend(strange.values())
            for index, item in enumerate(readable):
                if item.capture in strange:
                    readable[index] = replace(item, capture=replace(item.capture, span=span))
    return Survey(tuple(readable), {run: tuple(lines) for run, lines in problems.items()})


def _times(
    data: npt.NDArray[np.uint8], header: PcapHeader, offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], str | None]:
    """Return the Unix nanoseconds of records up to a damaged one, and what is wrong with that.

    Raises `PcapError` if a time among the first is not in the units of the header: then no time can
    be trusted.
    """
    seconds, fractions = record_times(data, header, offsets)
    wrong = np.flatnonzero(fractions >= header.ticks)
    if len(wrong) and wrong[0] < TRUSTED:
        unit = "nanoseconds" if header.nanoseconds else "microseconds"
        raise PcapError(
            f"says that its times are in {unit}, but record {wrong[0] + 1} has "
            f"{fractions[wrong[0]]:,} of them in a second: the header or the record is damaged"
        )
    times = seconds
    times *= SECOND  # in place, which takes a quarter of the time
    fractions *= SECOND // header.ticks
    times += fractions
    if len(wrong):
        return times[: wrong[0]], "the time of the next one is damaged"
    return times, None


def _strange(
    by_capture: Mapping[Capture, npt.NDArray[np.int64]],
) -> tuple[tuple[int, int], dict[Capture, str]]:
    """Return a run's span of time, and a message for each capture with records outside."""
    middles = np.array([np.sort(times)[len(times) // 2] for times in by_capture.values()])
    records = np.array([len(times) for times in by_capture.values()])

    def near(middle: int) -> tuple[int, int]:
        """Return how many captures have their middle not far from this, and their records."""
        close = np.abs(middles - middle) <= FAR * SECOND
        return int(close.sum()), int(records[close].sum())

    middle = max(middles.tolist(), key=near)  # one that occurs: others may be between two groups
    span = (middle - FAR * SECOND, middle + FAR * SECOND)
    strange = {}
    for capture, times in by_capture.items():
        outside = np.flatnonzero((times < span[0]) | (times > span[1]))
        if len(outside):
            year = datetime.fromtimestamp(int(times[outside[0]]) // SECOND, UTC).year
            strange[capture] = (
                f"{capture.path.name}: records whose time is far from the others' are left out: "
                f"{len(outside)} of {len(times)} (record {outside[0] + 1} is of the year {year})"
            )
    return span, strange


class _Followed(NamedTuple):
    """Where a capture's records start, and their times; where they end, and what is wrong there."""

    starts: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    stop: int
    problem: str | None
    packets: Packets | None
    """Of a pcapng file."""


def _follow(capture: Capture) -> _Followed:
    """Follow a capture to its end, or its first damaged record.

    Raises `PcapError` or OSError if there is no readable capture.
    """
    if not stat.S_ISREG(capture.path.stat().st_mode):  # a pipe would wait for a writer
        raise PcapError("is not an ordinary file")
    with capture.path.open("rb") as file:
        head = file.read(FILE_HEADER)
        header = None if head.startswith(PCAPNG) else read_header(head, capture.linktype)
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    if header is None:
        packets = read_packets(data, capture.linktype)
        return _Followed(packets.blocks, packets.time_ns, packets.stop, packets.reason, packets)
    offsets, stop, problem = record_offsets(data, header)
    times, damage = _times(data, header, offsets)
    if damage is not None:
        stop, problem = int(offsets[len(times)]), damage
    return _Followed(offsets[: len(times)], times, stop, problem, None)


@dataclass(frozen=True)
class CaptureSlice:
    """Bytes [start, end) of a capture: whole records, of which the first has number `number`.

    Of a pcapng file, `context` is what must precede them; if there is none, the slice begins with
    the file.
    """

    capture: Capture
    start: int
    end: int
    number: int
    context: bytes = b""


class Partition(InputPartition):
    """The slices one task reads."""

    def __init__(self, slices: Sequence[CaptureSlice]) -> None:
        self.value = tuple(slices)


def plan(captures: Sequence[Capture], partitions: int, *, whole: bool = False) -> list[Partition]:
    """Cut captures, unless they stay `whole`, and pack the slices, in order, into `partitions`.

    Files that are not captures are left out; `survey` reports them.
    """
    sizes = {capture: _size(capture) for capture in captures}
    target = sum(sizes.values()) // max(1, partitions)
    target = min(max(target, SMALLEST_SLICE), LARGEST_SLICE)
    packed: list[list[CaptureSlice]] = []
    room = 0
    for capture, size in sizes.items():
        for part in _slices(capture, size, size if whole else target):
            if part.end - part.start > room or not packed:
                packed.append([])
                room = target
            packed[-1].append(part)
            room -= part.end - part.start
    return [Partition(slices) for slices in packed]


def _size(capture: Capture) -> int:
    if capture.stored is not None:
        return capture.stored.size
    try:
        return capture.path.stat().st_size
    except OSError:
        return 0


def _slices(capture: Capture, size: int, target: int) -> list[CaptureSlice]:
    if (
        capture.stored is not None or size <= target + target // 4
    ):  # not worth following the file for the little beyond
        return [CaptureSlice(capture, FILE_HEADER, size, 1)] if size > FILE_HEADER else []
    try:
        records = _follow(capture)
    except (PcapError, OSError):
        return []
    starts, stop = records.starts, records.stop
    count = -(-(stop - FILE_HEADER) // target)
    targets = np.linspace(FILE_HEADER, stop, count, endpoint=False)
    first = np.unique(np.searchsorted(starts, targets))
    first = first[first < len(starts)]
    edges = [*starts[first].tolist(), stop]
    wanted = np.ones(len(first), np.bool_)
    if capture.span is not None and len(first):
        wanted = np.logical_or.reduceat(_within(records.time_ns, capture.span), first)
    return [
        CaptureSlice(
            capture,
            edges[index],
            edges[index + 1],
            int(first[index]) + 1,
            b"" if records.packets is None else records.packets.context(edges[index]),
        )
        for index in np.flatnonzero(wanted).tolist()
    ]


def _within(times: npt.NDArray[np.int64], span: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return (span[0] <= times) & (times <= span[1])


class PcapDataSource(DataSource):
    """The data source `pcap`; see the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "pcap"

    def schema(self) -> StructType:
        """Return `FRAMES`."""
        return FRAMES

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`, all of them columns of `FRAMES`."""
        return PcapReader(schema, self.options)


class PcapReader(DataSourceReader):
    """Plans and reads partitions.  Raises `SourceError` if an option or a column is unknown."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        unknown = set(options) - {"path", "paths", "body", "partitions"}
        if unknown:
            raise SourceError(f"option {min(unknown)} is not one of body, partitions")
        types = {field.name: field.dataType for field in FRAMES}
        for field in schema:
            if types.get(field.name) != field.dataType:
                raise SourceError(
                    f"pcap has no column {field.name} {field.dataType.simpleString()}"
                )
        self._schema = schema
        self._paths = _paths(options)
        body = options.get("body", "client")
        if body not in ("client", "all"):
            raise SourceError(f"option body is client or all, not {body}")
        self._bodies_from = FIRST_CLIENT_KIND if body == "client" else 0
        partitions = options.get("partitions", str(2 * (os.cpu_count() or 1)))
        if not partitions.isdecimal() or int(partitions) < 1:
            raise SourceError(f"option partitions is a number from 1, not {partitions}")
        self._partitions = int(partitions)
        self._wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # PySpark's
        """Take what is to be read; return the filters that Spark has to apply as well."""
        return [condition for condition in filters if not self._wanted.take(condition)]

    def partitions(self) -> list[Partition]:
        """Return the partitions: one without slices if nothing is readable."""
        captures = [
            replace(capture, span=self._wanted.span)
            for capture in find_captures(self._paths)
            if capture.linktype == ETHERNET  # the air has the same frames, as 802.11
            and self._wanted.has(capture.run, capture.node, capture.interface)
        ]
        return plan(captures, self._partitions) or [Partition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition in Arrow batches of at most `BATCH`."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for part in partition.value:
            with _local(part) as slices:
                for local in slices:
                    yield from read_slice(local, schema, self._bodies_from)


@contextmanager
def _local(part: CaptureSlice) -> Iterator[Sequence[CaptureSlice]]:
    """Yield a slice; of a capture in a store all slices of a copy, which is there for the block."""
    capture = part.capture
    if capture.stored is None:
        yield [part]
        return
    with scratch.folder() as folder:
        captures = folder / capture.run / "captures"
        stores.fetch([replace(capture.stored, within="")], captures)
        copy = replace(capture, path=captures / capture.path.name, stored=None)
        yield [local for partition in plan([copy], 1) for local in partition.value]


def _paths(options: Mapping[str, str]) -> list[str]:
    if "paths" in options:  # of load([...])
        return [str(path) for path in json.loads(options["paths"])]
    path = options.get("path", "")
    if not path:
        raise SourceError("pcap needs a path: load(<run folder or capture>)")
    return [path] if Path(path).exists() else path.split(",")


class LoadedSlice(NamedTuple):
    """A slice's file header and bytes, and where in these its records start, with their numbers."""

    header: PcapHeader
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


def load_slice(part: CaptureSlice) -> LoadedSlice | None:
    """Return the records of a slice; None if the file is not such a capture, or gone."""
    capture = part.capture
    try:
        with capture.path.open("rb") as file:
            head = file.read(FILE_HEADER)
            if head.startswith(PCAPNG):
                file.seek(part.start if part.context else 0)
                rest = np.fromfile(file, np.uint8, part.end - file.tell())
                data = np.concatenate((np.frombuffer(part.context, np.uint8), rest))
                packets = read_packets(data, capture.linktype)
                header = as_pcap(data, packets, capture.linktype)
                offsets, times = packets.offsets, packets.time_ns
            else:
                header = read_header(head, capture.linktype)
                file.seek(part.start)
                data = np.fromfile(file, np.uint8, part.end - part.start)
                offsets, _, _ = record_offsets(data, header, 0)
                times, _ = _times(data, header, offsets)
                offsets = offsets[: len(times)]
    except (PcapError, OSError):
        return None
    numbers = np.arange(part.number, part.number + len(offsets), dtype=np.int64)
    if capture.span is not None:
        kept = _within(times, capture.span)
        offsets, numbers = offsets[kept], numbers[kept]
    return LoadedSlice(header, data, offsets, numbers)


def read_slice(part: CaptureSlice, schema: pa.Schema, bodies_from: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a slice, up to the first that is damaged; nothing of a foreign file.

    Batches have the columns of `schema`.  Bodies are given for kinds from `bodies_from`.
    """
    capture = part.capture
    loaded = load_slice(part)
    if loaded is None:
        return
    header, data, offsets, numbers = loaded
    labels = {"run": capture.run, "node": capture.node, "interface": capture.interface}
    for first in range(0, len(offsets), BATCH):
        block = slice(first, first + BATCH)
        decoded = decode_records(data, header, offsets[block])
        yield record_batch(schema, labels, numbers[block], data, decoded, bodies_from=bodies_from)
