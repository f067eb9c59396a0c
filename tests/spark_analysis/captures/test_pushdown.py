"""Filters that the source applies itself give the rows that Spark's own would."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_analysis.captures.pushdown import Wanted
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.captures.source import SMALLEST_SLICE, PcapReader
from tests.capture.packets import enhanced, file_header, interface, record, section

START: Final = 1_700_000_000_000_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COMPARED: Final = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
NANOSECONDS: Final = st.integers(START, START + 5_000)


def as_time(time_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_ns // 1000)


@given(
    st.lists(st.tuples(st.sampled_from([*COMPARED]), NANOSECONDS, st.booleans()), max_size=4),
    st.lists(NANOSECONDS, min_size=1),
)
def test_a_span_is_what_comparisons_let_through(
    conditions: list[tuple[Any, int, bool]], times: list[int]
) -> None:
    wanted = Wanted()
    passed = set(times)
    for kind, value, cut in conditions:
        name, bound = ("time", as_time(value)) if cut else ("time_ns", value)
        assert wanted.take(kind((name,), bound))
        view = as_time if cut else int
        passed = {each for each in passed if COMPARED[kind](view(each), bound)}
    first, last = wanted.span or (0, 2**63)
    assert {each for each in times if first <= each <= last} == passed


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        (IsNotNull(("node",)), True),
        (IsNotNull(("kind",)), False),
        (EqualTo(("node",), "a"), True),
        (EqualTo(("node",), 3), False),
        (In(("interface",), ("lo", None)), True),
        (EqualTo(("kind",), 3), False),
        (Not(EqualTo(("node",), "a")), False),
        (StringStartsWith(("node",), "a"), False),
        (In(("time_ns",), (1, 2)), False),
        (GreaterThan(("time_ns",), 1.5), False),
        (GreaterThan(("time",), datetime(2026, 1, 1)), False),  # noqa: DTZ001
        (EqualTo(("node", "x"), "a"), False),
    ],
)
def test_what_is_not_taken_is_left_to_spark(condition: Filter, taken: bool) -> None:
    reader = PcapReader(FRAMES, {"path": "x"})
    assert list(reader.pushFilters([condition])) == ([] if taken else [condition])


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_times_before_and_after_all_others(value: int) -> None:
    for kind in (LessThan, GreaterThan):
        wanted = Wanted()
        assert wanted.take(kind(("time_ns",), value))
        assert wanted.span is None or all(-(2**63) <= each < 2**63 for each in wanted.span)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs with two captures each; of the first node's, one is large, and one pcapng."""
    large = SMALLEST_SLICE // 500
    for run in ("run1", "run2"):
        folder = tmp_path / run / "captures"
        folder.mkdir(parents=True)
        for name, count in (("sta1-lo", large), ("sta2-wlan0", 10)):
            times = [START + 500_000 * number for number in range(count)]
            records = b"".join(record(bytes(500 + count % 7), each) for each in times)
            (folder / f"{name}.pcap").write_bytes(file_header() + records)
        packets = b"".join(enhanced(bytes(60), START + 3 * number) for number in range(10))
        (folder / "sta1-mesh0.pcapng").write_bytes(section() + interface(resolution=9) + packets)
    return tmp_path


def read(runs: Path, *conditions: Filter, partitions: int = 100) -> tuple[set[str], int]:
    """Return the names of the files that are read, and how many packets."""
    options = {"path": f"{runs}/*", "partitions": str(partitions)}
    reader = PcapReader(FRAMES, options)
    assert list(reader.pushFilters([*conditions])) == []
    planned = reader.partitions()
    files = {str(part.capture.path.relative_to(runs)) for each in planned for part in each.value}
    return files, sum(batch.num_rows for each in planned for batch in reader.read(each))


def test_files_that_a_filter_does_not_want_are_not_read(runs: Path) -> None:
    node = EqualTo(("node",), "sta2")
    assert read(runs, EqualTo(("run",), "run1"), node) == ({"run1/captures/sta2-wlan0.pcap"}, 10)
    run = In(("run",), ("run1", "run3"))
    lo = In(("interface",), ("lo", "eth0"))
    assert read(runs, run, lo)[0] == {"run1/captures/sta1-lo.pcap"}
    assert read(runs, node, EqualTo(("node",), "sta1")) == (set(), 0)


def test_packets_and_slices_of_other_times_are_skipped(runs: Path) -> None:
    run = EqualTo(("run",), "run1")
    since, before = START + 500_000 * 3, START + 500_000 * 5
    span = (GreaterThanOrEqual(("time_ns",), since), LessThan(("time_ns",), before))
    assert read(runs, run, *span)[1] == 2 + 2
    assert read(runs, run, EqualTo(("time_ns",), START + 3))[1] == 1
    late = GreaterThan(("time_ns",), START + 10**12)
    assert read(runs, run, late)[1] == 0
    reader = PcapReader(FRAMES, {"path": f"{runs}/run1/captures/sta1-lo.pcap", "partitions": "9"})
    whole = len(reader.partitions())
    assert list(reader.pushFilters([*span])) == []
    assert len(reader.partitions()) == 1 <= whole


def counted(frames: DataFrame) -> list[Any]:
    columns = ("run", "node", "interface")
    sums = frames.groupBy(*columns).agg(sf.count("*"), sf.sum("number"), sf.max("time_ns"))
    return sums.sort(*columns).collect()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("run = 'run1'", False),
        ("node = 'sta1' and interface in ('mesh0', 'wlan0') and run is not null", False),
        ("node in ('sta2', null)", False),
        ("time > timestamp'2023-11-14 22:13:20.001'", False),
        ("time between '2023-11-14 22:13:20' and '2023-11-14 22:13:20.001'", False),
        (f"time_ns < {START + 4} and node = 'sta1'", False),
        (f"time_ns = {START + 3} or node = 'sta2'", True),
        ("node = 'sta1' and length < 100 and node not in ('x')", True),
        ("node = 'nobody'", False),
    ],
)
def test_spark_gives_the_same_rows_and_filters_what_is_left(
    spark: SparkSession, runs: Path, condition: str, left: bool
) -> None:
    source = spark.read.format("pcap").load(f"{runs}/*")
    plain = spark.createDataFrame(source.toArrow(), FRAMES)
    assert counted(source.where(condition)) == counted(plain.where(condition))
    plan = source.where(condition)._jdf.queryExecution().executedPlan().toString()
    assert ("Filter (" in plan) == left
