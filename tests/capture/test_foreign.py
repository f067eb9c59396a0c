"""Frames of other people's systems: crafted ones, and what must be counted of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from capture.foreign import ForeignDecoder, ForeignFrame
from nodeapp.events import Event
from nodeapp.pubsub.middleware import marker
from nodeapp.wire import NODE_PORT

PORT = 1883
START = 2**32 - 40
"""Sequence numbers wrap in every test."""


def payload(sequence: int, publisher: int = 1) -> bytes:
    return marker.mark(Event(publisher, sequence, {"topic": "speed"}))


def ethernet(sender: int, inside: Packet) -> bytes:
    mac = f"02:00:00:00:00:{sender:02x}"
    return bytes(Ether(src=mac, dst="02:00:00:00:00:09", type=type_of(inside)) / inside)


def type_of(inside: Packet) -> int:
    return {ARP: 0x0806, IPv6: 0x86DD}.get(type(inside), 0x0800)


def tcp(offset: int, data: bytes, *, by: int = 1, flags: str = "A") -> bytes:
    """Return a segment of node 1 to node 2, transmitted `by` a node."""
    header = TCP(sport=40_000, dport=PORT, seq=(START + offset) % 2**32, flags=flags)
    packet = IP(src="10.0.0.1", dst="10.0.0.2") / header
    return ethernet(by, packet / Raw(data) if data else packet)


def read(*frames: bytes) -> list[ForeignFrame | None]:
    decoder = ForeignDecoder([PORT])
    return [decoder.read(frame) for frame in frames]


def labels(frames: Sequence[ForeignFrame | None]) -> list[str | None]:
    return [frame.label if frame is not None else "ours" for frame in frames]


def events(frames: Sequence[ForeignFrame | None]) -> list[tuple[tuple[int, int], ...]]:
    return [frame.events for frame in frames if frame is not None]


@pytest.mark.parametrize(
    ("inside", "label"),
    [
        (ARP(), "ARP"),
        (IPv6() / UDP(sport=6696, dport=6696), "routing"),
        (IP(src="10.0.0.1") / UDP(sport=4305, dport=4305) / Raw(bytes(18)), "routing"),
        (IPv6(nh=58), "neighbour discovery"),
        (IP(src="10.0.0.1") / ICMP(), "ICMP"),
        (IP(src="10.0.0.1", proto=2) / Raw(bytes(8)), "group membership"),
        (IP(src="10.0.0.1") / UDP(sport=PORT, dport=5) / Raw(b"hello"), "own protocol"),
        (IP(src="10.0.0.1") / UDP(sport=5, dport=PORT) / Raw(b"x" + payload(7)), "event"),
        (IP(src="10.0.0.1") / UDP(sport=5, dport=53) / Raw(b"hello"), None),
        (IP(src="10.0.0.1") / TCP(sport=5, dport=22), None),
        (IP(src="10.0.0.1") / TCP(sport=5, dport=PORT, flags="A"), "TCP acknowledgement"),
        (IP(src="10.0.0.1") / TCP(sport=5, dport=PORT, flags="S"), "TCP connection"),
        (IP(src="10.0.0.1") / TCP(sport=5, dport=PORT, flags="FA"), "TCP connection"),
        (IP(src="10.0.0.1") / UDP(sport=NODE_PORT, dport=NODE_PORT) / Raw(bytes(9)), "ours"),
    ],
)
def test_a_frame_is_told_by_its_protocol_and_ports(inside: Packet, label: str | None) -> None:
    assert labels(read(ethernet(1, inside))) == [label]


def test_who_forwards_did_not_make_the_frame() -> None:
    made, forwarded = read(tcp(1, payload(7)), tcp(1, payload(7), by=3))
    assert made is not None
    assert forwarded is not None
    assert (made.sender, made.first_hop, made.events) == (1, True, ((1, 7),))
    assert (forwarded.sender, forwarded.first_hop, forwarded.events) == (3, False, ((1, 7),))


def test_several_events_in_a_segment_are_all_found() -> None:
    assert events(read(tcp(1, b"head" + payload(7) + payload(8, 2) + payload(9)))) == [
        ((1, 7), (2, 8), (1, 9))
    ]


@pytest.mark.parametrize("cut", [1, 7, 8, 12, 15])
def test_a_marker_cut_by_segments_counts_once_where_it_ends(cut: int) -> None:
    stream = b"before" + payload(7) + b"after"
    first = len(b"before") + cut
    frames = read(tcp(0, b"", flags="S"), tcp(1, stream[:first]), tcp(1 + first, stream[first:]))
    assert labels(frames) == ["TCP connection", "own protocol", "event"]
    assert events(frames) == [(), (), ((1, 7),)]


def test_a_marker_in_three_pieces_counts_once() -> None:
    stream = payload(7)
    cuts = [stream[:5], stream[5:11], stream[11:]]
    frames = read(tcp(1, cuts[0]), tcp(6, cuts[1]), tcp(12, cuts[2]))
    assert events(frames) == [(), (), ((1, 7),)]


def test_a_marker_whose_pieces_come_in_the_other_order_counts_once() -> None:
    stream = b"12345678" + payload(7)
    frames = read(tcp(1, b"0"), tcp(14, stream[12:]), tcp(2, stream[:12]))
    assert events(frames) == [(), (), ((1, 7),)]


def test_a_marker_is_whole_if_its_beginning_is_sent_again_in_other_segments() -> None:
    """The source's segments have become shorter: one ends where none did before."""
    stream = bytes(40) + payload(7) + bytes(40)
    frames = read(tcp(1, b"0"), tcp(2, stream[:48]), tcp(2, stream[:36]), tcp(38, stream[36:]))
    assert labels(frames)[1:] == ["own protocol", "TCP retransmission", "event"]
    assert events(frames)[3] == ((1, 7),)


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 40)), max_size=9), st.randoms())
def test_each_event_counts_once_however_segments_overlap(
    overlapping: list[tuple[int, int]], random: Random
) -> None:
    stream = payload(7) + b"PINGREQ" + payload(8)
    cuts = sorted({0, len(stream), *(start % len(stream) for start, _ in overlapping)})
    spans = [*itertools.pairwise(cuts)]
    spans += [(at, min(at + 1 + n, len(stream))) for at, n in overlapping if at < len(stream)]
    random.shuffle(spans)
    frames = read(tcp(1, b"0"), *(tcp(2 + start, stream[start:end]) for start, end in spans))
    new = [
        event
        for frame in frames
        if frame is not None and frame.label != "TCP retransmission"
        for event in frame.events
    ]
    assert sorted(new) == [(1, 7), (1, 8)]


def test_what_this_radio_has_sent_before_is_a_retransmission() -> None:
    stream = payload(7) + payload(8)
    half = len(payload(7))
    frames = read(
        tcp(0, b"", flags="S"),
        tcp(0, b"", flags="S"),
        tcp(1, stream[:half]),
        tcp(1, stream[:half]),
        tcp(1, stream),  # joined with what follows: not all of it was sent before
        tcp(1, stream),
    )
    assert labels(frames) == [
        "TCP connection",
        "TCP retransmission",
        "event",
        "TCP retransmission",
        "event",
        "TCP retransmission",
    ]
    assert events(frames)[2:] == [((1, 7),), ((1, 7),), ((1, 8),), ((1, 7), (1, 8))]


def test_a_segment_that_a_node_sends_first_is_none_there() -> None:
    received_again = read(tcp(1, payload(7)), tcp(1, payload(7)), tcp(1, payload(7), by=3))
    assert labels(received_again) == ["event", "TCP retransmission", "event"]


def test_a_new_connection_from_the_same_port_begins_again() -> None:
    other = ethernet(
        1,
        IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40_000, dport=PORT, seq=5, flags="S"),
    )
    frames = read(tcp(0, b"", flags="S"), tcp(1, payload(7)), other)
    assert labels(frames) == ["TCP connection", "event", "TCP connection"]


def test_padding_of_short_frames_is_no_data() -> None:
    assert labels(read(tcp(1, b"") + bytes(14))) == ["TCP acknowledgement"]


def test_broken_frames_are_nobodys() -> None:
    whole = tcp(1, payload(7))
    found = Counter(labels(read(*(whole[:length] for length in range(50)))))
    assert set(found) <= {"ours", None, "own protocol", "TCP acknowledgement"}


def test_an_answer_to_a_datagram_of_the_system_is_the_systems() -> None:
    scout = IP(src="10.0.0.1", dst="224.0.0.224") / UDP(sport=50_001, dport=PORT) / Raw(b"?")
    hello = IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=50_002, dport=50_001) / Raw(b"!")
    other = IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=50_002, dport=50_003) / Raw(b"!")
    frames = [ethernet(1, scout), ethernet(2, hello), ethernet(2, other)]
    assert labels(read(*frames)) == ["own protocol", "own protocol", None]


def test_fragments_are_of_what_their_datagram_is() -> None:
    systems, others = fragments(7, PORT), fragments(8, 5353)
    by_two = [ethernet(node, piece) for piece in (*systems, *others) for node in (1, 2)]
    assert labels(read(*by_two)) == ["own protocol"] * 6 + [None] * 6
    again = [ethernet(1, piece) for piece in (*systems[1:], *systems, *systems[1:])]
    assert labels(read(*again)) == [None] * 2 + ["own protocol"] * 3 + [None] * 2


def test_a_marker_cut_by_fragments_counts_once_where_it_ends() -> None:
    data = b"?" * (1400 - 8 - 15) + payload(7) + b"?" * 900
    by_two = [ethernet(node, piece) for piece in fragments(7, PORT, data) for node in (1, 2)]
    assert events(read(*by_two)) == [(), (), ((1, 7),), ((1, 7),)]


def fragments(number: int, port: int, data: bytes = b"?" * 3000) -> list[Packet]:
    datagram = bytes(UDP(sport=40_000, dport=port) / Raw(data))
    pieces = [datagram[start : start + 1400] for start in range(0, len(datagram), 1400)]
    to: dict[str, Any] = {"src": "10.0.0.1", "dst": "10.0.0.2", "id": number, "proto": 17}
    return [
        IP(**to, frag=175 * index, flags="MF" if index < len(pieces) - 1 else 0) / Raw(piece)
        for index, piece in enumerate(pieces)
    ]
