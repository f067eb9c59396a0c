"""Finding records: exact on any file, whatever the payloads look like."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture import scan
from capture.scan import FILE_HEADER, PcapError, PcapHeader, read_header, record_offsets
from tests.capture.packets import file_header, pcap, record

SIZES = st.lists(st.integers(0, 400), max_size=80)


@pytest.fixture(autouse=True)
def _many_cursors() -> Iterator[None]:
    """Have several cursors on files of a few records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_cursors", lambda size: min(16, size // 200))
        patch.setattr(scan, "_WORTHWHILE", 2)
        patch.setattr(scan, "_FEW", 2)
        yield


def starts_of(sizes: list[int]) -> list[int]:
    return list(accumulate((16 + size for size in sizes), initial=FILE_HEADER))


@given(SIZES, st.sampled_from("<>"), st.booleans())
def test_all_records_are_found(sizes: list[int], order: str, nanoseconds: bool) -> None:
    tick = 1 if nanoseconds else 1000
    data = file_header(order, nanoseconds) + b"".join(
        record(bytes(size), 10**18 + number * 10**9, order=order, tick_ns=tick)
        for number, size in enumerate(sizes)
    )
    header = read_header(data)
    assert header == PcapHeader(order, nanoseconds, 65_535, 1)
    offsets, stop, reason = record_offsets(data, header)
    assert [*offsets.tolist(), stop] == starts_of(sizes)
    assert reason is None


@given(SIZES, st.data())
def test_a_cut_file_gives_the_whole_records_before_the_cut(
    sizes: list[int], data: st.DataObject
) -> None:
    whole = pcap(bytes(size) for size in sizes)
    cut = data.draw(st.integers(FILE_HEADER, len(whole)))
    offsets, stop, reason = record_offsets(whole[:cut], read_header(whole))
    expected = [start for start in starts_of(sizes) if start <= cut]
    assert [*offsets.tolist(), stop] == expected
    if stop == cut:
        assert reason is None
    else:
        assert reason == f"truncated: the record at byte {stop} is cut off"


@given(st.lists(SIZES, max_size=12), st.integers(0, 60))
def test_captures_inside_packets_are_no_records(inner: list[list[int]], cut: int) -> None:
    packets = [pcap(bytes(size) for size in sizes)[cut:] for sizes in inner]
    data = pcap(packets)
    offsets, stop, reason = record_offsets(data, read_header(data))
    assert [*offsets.tolist(), stop] == starts_of([len(packet) for packet in packets])
    assert reason is None


@given(SIZES, st.data())
def test_a_file_that_grows_is_read_on_from_where_it_stopped(
    sizes: list[int], data: st.DataObject
) -> None:
    whole = pcap(bytes(size) for size in sizes)
    header = read_header(whole)
    at: int = FILE_HEADER
    found: list[int] = []
    cuts = data.draw(st.lists(st.integers(FILE_HEADER, len(whole)), max_size=4))
    for end in [*sorted(cuts), len(whole)]:
        offsets, at, _ = record_offsets(whole[:end], header, at)
        found += offsets.tolist()
    assert [*found, at] == starts_of(sizes)


@given(SIZES, SIZES)
def test_damage_ends_the_scan_there(before: list[int], after: list[int]) -> None:
    start = starts_of(before)[-1]
    damaged = bytearray(pcap(bytes(size) for size in [*before, 10, *after]))
    damaged[start + 8 : start + 12] = (300_000).to_bytes(4, "little")
    damaged += bytes(400_000)
    offsets, stop, reason = record_offsets(damaged, read_header(damaged))
    assert [*offsets.tolist(), stop] == starts_of(before)
    assert reason == f"damaged: the record at byte {start} claims 300000 bytes"


@given(st.binary(max_size=4_000))
def test_garbage_never_raises(garbage: bytes) -> None:
    data = file_header() + garbage
    offsets, stop, _ = record_offsets(data, read_header(data))
    assert (np.diff(offsets) >= 16).all()
    assert FILE_HEADER <= stop <= len(data)


def test_arrays_and_views_are_read_in_place() -> None:
    data = pcap([b"one", b"two"])
    for buffer in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert record_offsets(buffer, read_header(buffer))[0].tolist() == [24, 43]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\r\r\n" + bytes(40), "editcap"),
        (b"hello world, I am text", "is not a pcap capture"),
        (file_header()[:20], "truncated"),
        (file_header(linktype=105), "link type 105"),
    ],
)
def test_what_is_no_capture_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(PcapError, match=message):
        read_header(data)
