"""The Wireshark dissector, through tshark."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

from nodeapp.auth import TRAILER, Seal
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.registry import kinds
from nodeapp.routing.aodv_wire import (
    ACKNOWLEDGE,
    GRATUITOUS,
    NO_DELETE,
    UNKNOWN,
    AodvKind,
    Hello,
    RouteReply,
    RouteRequest,
    encode_errors,
)
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.routing.cells import Walk
from nodeapp.routing.neighbours import encode_hello
from nodeapp.routing.tree_beacon import TreeBeacon
from nodeapp.wire import (
    CELL_WALK,
    CELLS,
    FLAG_ONE_WAY,
    FLAG_REPLICA,
    MAX_BODY,
    Frame,
    GeoRoute,
    Whereabouts,
    encode_addressees,
    encode_body,
    with_sender,
)
from tests.capture.packets import ethernet, file_header, pcap, record, udp_ipv4

SCRIPT = Path(__file__).parents[2] / "capture" / "dissector" / "pubsub.lua"

GREEDY = Frame(
    CommonKind.EVENT,
    originator=3,
    destination=0,
    publisher=3,
    sequence=17,
    ttl=14,
    hops=2,
    flags=FLAG_REPLICA,
    route=GeoRoute(1.5, -20.25).encode(),
    body=encode_body([{"topic": "traffic"}, None, b"payload"]),
)
PERIMETER = GREEDY._replace(
    destination=9, route=GeoRoute(1, 2, (3, 4), (5, 6), (7, 8), 9).encode(), flags=FLAG_ONE_WAY
)
HELLO = Frame(CommonKind.HELLO, originator=12, body=encode_body([0.5, 1.5]))
NOTIFY = Frame(ClientKind.NOTIFY, 3, destination=1, publisher=4, sequence=2**31, hops=0)
GOOD = (GREEDY, PERIMETER, HELLO, NOTIFY)


def tshark(folder: Path, datagrams: list[bytes], *options: str) -> list[str]:
    """Write a capture of `datagrams` and return what tshark says about it, line by line."""
    path = folder / "test.pcap"
    path.write_bytes(pcap(ethernet(udp_ipv4(datagram)) for datagram in datagrams))
    return shown(path, *options)


def shown(path: Path, *options: str) -> list[str]:
    """Return what tshark says about a capture."""
    # From 4.4 on, Wireshark loads no scripts for root; others cannot read a folder of root's tests.
    somebody = 65534 if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as readable:
        Path(readable).chmod(0o755)
        script, capture = (shutil.copy(each, readable) for each in (SCRIPT, path))
        done = subprocess.run(
            ["tshark", "-n", "-X", f"lua_script:{script}", "-r", capture, *options],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"HOME": readable},
            user=somebody,
            group=somebody,
            extra_groups=None if somebody is None else [],
        )
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout.rstrip("\n").split("\n")


def fields(folder: Path, datagrams: list[bytes], *names: str) -> list[list[str]]:
    """Return the values of display filter fields, one list a packet."""
    options = [option for name in names for option in ("-e", f"pubsub.{name}")]
    lines = tshark(folder, datagrams, "-T", "fields", *options)
    flags = {"True": "1", "False": "0"}  # as Wireshark 4.4 has them
    return [[flags.get(value, value) for value in line.split("\t")] for line in lines]


HEADER = (
    *("version", "kind", "ttl", "hops", "originator", "destination", "publisher"),
    *("sequence", "route_length", "body_length"),
)
FLAGS = ("flags", "flags.replica", "flags.one_way", "event")
POSITIONS = ("x", "y", "entered_x", "entered_y", "face_x", "face_y")
ADDRESSEES = encode_addressees([7, 300])
LOCATED = tuple(
    frame._replace(route=with_sender(frame.route, Whereabouts(10.5, -20.5, 3.0, -4.0)))
    for frame in (GREEDY, PERIMETER, HELLO)
)
CELL_GREEDY = CellRoute((-3, 70_000), 9, (5, -6), 600).encode()
CELL_PERIMETER = CellRoute((-3, 70_000), 9, (5, -6), 599, Walk((-1, 2), (0, -3), (5, -6))).encode()
ODD_CELLS = (CELL_GREEDY + CELL_PERIMETER[len(CELL_GREEDY) :], CELL_PERIMETER[:-1])
"""A perimeter's fields without its mode, and one that is cut short."""
CELL_FIELDS = (
    *("key", "left", "column", "row", "sender_column", "sender_row"),
    *("entry_column", "entry_row", "first_column", "first_row"),
)
BEACON = TreeBeacon(2, 2**40, 1500, 3, 4, orphaned=True, children=(5, 6)).encode()
OF_AODV = {
    AodvKind.ROUTE_REQUEST: RouteRequest(GRATUITOUS | UNKNOWN, 7, 0, 2**32 - 1).encode(),
    AodvKind.ROUTE_REPLY: RouteReply(9, 5, 3, 6.0, ACKNOWLEDGE).encode(),
    AodvKind.ROUTE_ERROR: next(encode_errors([(4, 5), (6, 7)], NO_DELETE)),
    CommonKind.HELLO: Hello(8, 2.0).encode(),
}
AODV_FIELDS = (
    *("flags.gratuitous", "flags.destination_only", "flags.unknown"),
    *("reply.flags.acknowledge", "error.flags.no_delete", "request"),
    *("destination", "destination_sequence", "originator_sequence", "hop_count", "lifetime"),
)
SEAL = Seal(b"a key of sixteen bytes", 1)
SEALED = [
    SEAL.seal(frame.encode(), 1.0)
    for frame in (
        Frame(AodvKind.ROUTE_ERROR, 1, body=next(encode_errors([(7, 100)]))),
        Frame(AodvKind.ROUTE_REQUEST, 1, body=RouteRequest(0, 7, 0, 1).encode()),
        Frame(OverlayKind.LINK, 1),
    )
]


def encoded(*frames: Frame) -> list[bytes]:
    return [frame.encode() for frame in frames]


QUESTIONS: Final[dict[str, tuple[list[bytes], tuple[str, ...]]]] = {
    "header": (encoded(*GOOD), HEADER),
    "flags": (encoded(*GOOD), FLAGS),
    "geographic": (
        encoded(GREEDY, PERIMETER, HELLO._replace(route=b"\x09abc")),
        tuple(f"route.{name}" for name in ("mode", *POSITIONS, "edge_from", "edge_to", "entry")),
    ),
    "addressees": (
        encoded(*(HELLO._replace(route=ADDRESSEES[:end]) for end in (None, -1, 1))),
        ("route.mode", "route.addressee"),
    ),
    "sender": (
        encoded(*LOCATED, HELLO._replace(route=LOCATED[2].route[:-1])),
        tuple(
            f"route.{name}"
            for name in ("mode", "x", "entry", *(f"sender_{x}" for x in ("x", "y", "vx", "vy")))
        ),
    ),
    "cells": (
        encoded(*(HELLO._replace(route=x) for x in (CELL_GREEDY, CELL_PERIMETER, *ODD_CELLS))),
        ("route.mode", *(f"cells.{name}" for name in CELL_FIELDS)),
    ),
    "tree": (
        encoded(*(HELLO._replace(route=route) for route in (BEACON, BEACON[:-1]))),
        tuple(
            f"tree.{name}"
            for name in (
                *("flags.orphaned", "cost", "children", "root", "parent", "epoch", "age", "child"),
            )
        ),
    ),
    "aodv": (
        encoded(*(Frame(kind, 1, body=body) for kind, body in OF_AODV.items())),
        ("kind", *(f"aodv.{name}" for name in AODV_FIELDS)),
    ),
    "not aodv": (
        encoded(HELLO._replace(body=encode_hello(1.0, 2.0, 3.0, 4.0))),
        ("kind", "aodv.lifetime"),
    ),
    "seal": (SEALED, ("aodv.destination", "aodv.request", "seal", "body")),
    "no CBOR": (encoded(HELLO._replace(body=b"\xff\x00")), ("body",)),
}
"""Datagrams, and the fields that tests look at."""
Answers = dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What tshark says to all questions, asked at once: starting it takes longest."""
    names = list(dict.fromkeys(name for _, wanted in QUESTIONS.values() for name in wanted))
    datagrams = [datagram for several, _ in QUESTIONS.values() for datagram in several]
    rows = fields(tmp_path_factory.mktemp("questions"), datagrams, *names)
    assert len(rows) == len(datagrams)
    left = iter(rows)
    return {
        question: [
            [row[names.index(name)] for name in wanted]
            for row in itertools.islice(left, len(several))
        ]
        for question, (several, wanted) in QUESTIONS.items()
    }


def test_every_header_field(answers: Answers) -> None:
    for frame, values in zip(GOOD, answers["header"], strict=True):
        assert [int(value) for value in values] == [
            1,
            frame.kind,
            frame.ttl,
            frame.hops,
            frame.originator,
            frame.destination,
            frame.publisher,
            frame.sequence,
            len(frame.route),
            len(frame.body),
        ]
    assert answers["flags"] == [
        ["0x01", "1", "0", "3/17"],
        ["0x02", "0", "1", "3/17"],
        ["0x00", "0", "0", ""],
        ["0x00", "0", "0", f"4/{2**31}"],
    ]


def test_geographic_routes(answers: Answers) -> None:
    assert answers["geographic"] == [
        ["1", "1.5", "-20.25", "", "", "", "", "", "", ""],
        ["2", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        [""] * 10,
    ]


def test_lists_of_addressees(answers: Answers) -> None:
    assert answers["addressees"] == [["4", "7,300"], ["", ""], ["", ""]]


def test_where_the_sender_of_a_frame_is(answers: Answers) -> None:
    located = ["10.5", "-20.5", "3", "-4"]
    assert answers["sender"] == [
        ["129", "1.5", "", *located],
        ["130", "1", "9", *located],
        ["128", "", "", *located],
        [""] * 7,
    ]


def test_ways_from_cell_to_cell(answers: Answers) -> None:
    assert answers["cells"] == [
        [str(CELLS), "9", "600", "-3", "70000", "5", "-6", "", "", "", ""],
        [str(CELL_WALK), "9", "599", "-3", "70000", "5", "-6", "-1", "2", "0", "-3"],
        [""] * 11,
        [""] * 11,
    ]


def test_places_in_a_spanning_tree(answers: Answers) -> None:
    assert answers["tree"] == [["1", "3", "2", "2", "4", str(2**40), "1500", "5,6"], [""] * 8]


def test_messages_of_aodv(answers: Answers) -> None:
    assert answers["aodv"] == [
        ["4", "1", "0", "1", "", "", "7", "", "0", str(2**32 - 1), "", ""],
        ["5", "", "", "", "1", "", "", "9", "5", "", "3", "6000"],
        ["6", "", "", "", "", "1", "", "4,6", "5,7", "", "", ""],
        ["1", "", "", "", "", "", "", "", "", "8", "", "2000"],
    ]
    assert answers["not aodv"] == [["1", ""]]


def test_the_seal_of_a_frame_is_not_of_its_body(answers: Answers) -> None:
    rows = answers["seal"]
    assert [values[:2] for values in rows] == [["7", ""], ["", "7"], ["", ""]]
    assert [values[2] for values in rows] == [frame[-TRAILER:].hex() for frame in SEALED]
    assert rows[2][3] == ""


def test_bodies_that_are_not_cbor_and_frames_that_are_cut_short_are_shown(
    answers: Answers, tmp_path: Path
) -> None:
    assert answers["no CBOR"] == [["ff00"]]
    whole = GREEDY.encode()
    path = tmp_path / "cut.pcap"
    packet = ethernet(udp_ipv4(whole))
    path.write_bytes(file_header() + record(packet[:-9], length=len(packet)))
    tree = "\n".join(shown(path, "-V"))
    assert "cut short by the capture" in tree
    assert "Malformed frame" not in tree
    assert "Destination: 0 (any)" in tree


def test_every_kind_has_its_name(tmp_path: Path) -> None:
    frames = [Frame(kind, 1).encode() for kind in kinds().values()]
    lines = tshark(tmp_path, frames, "-T", "fields", "-e", "_ws.col.Info")
    assert [line.split()[0] for line in lines] == [kind.name for kind in kinds().values()]


def test_info_column_and_body(tmp_path: Path) -> None:
    datagrams = [frame.encode() for frame in GOOD]
    lines = tshark(tmp_path, datagrams, "-T", "fields", "-e", "_ws.col.Info")
    assert lines == [
        "EVENT 3/17 from 3 to any hop 2 ttl 14",
        "EVENT 3/17 from 3 to 9 hop 2 ttl 14",
        "HELLO from 12 to broadcast hop 1 ttl 0",
        f"NOTIFY 4/{2**31} from 3 to 1 hop 0 ttl 0",
    ]
    tree = "\n".join(tshark(tmp_path, datagrams[:1], "-V"))
    assert "Text String: traffic" in tree


def test_filters(tmp_path: Path) -> None:
    datagrams = [frame.encode() for frame in GOOD]
    matching = tshark(tmp_path, datagrams, "-Y", 'pubsub.kind == 2 && pubsub.event == "3/17"')
    assert len(matching) == 2


MALFORMED: Final = (
    (b"", None),  # an empty datagram has no payload to dissect
    (HELLO._replace(body=b"\x9f\xff\xff\x5b" + b"\xff" * 8).encode(), None),
    (b"\x01\x02", "shorter than the header"),
    (b"\x02" + HELLO.encode()[1:], "version 2 is not 1"),
    (b"\x01\x63" + HELLO.encode()[2:], "unknown kind 99"),
    (HELLO.encode() + b"x", "44 bytes, but the header says 43"),
    (HELLO.encode()[:-1], "42 bytes, but the header says 43"),
    (
        HELLO.encode()[:6]
        + (MAX_BODY + 1).to_bytes(2, "big")
        + HELLO.encode()[8:24]
        + bytes(MAX_BODY + 1),
        "body of 60001 bytes; at most 60000 are allowed",
    ),
)
"""Datagrams, and what is wrong with them; the last line that tshark writes is not empty."""


def test_malformed_frames_are_marked(tmp_path: Path) -> None:
    datagrams = [datagram for datagram, _ in MALFORMED]
    lines = tshark(tmp_path, datagrams, "-T", "fields", "-e", "_ws.expert.message")
    for line, (_, reason) in zip(lines, MALFORMED, strict=True):
        if reason is None:
            assert "Malformed frame:" not in line
        else:
            assert f"Malformed frame: {reason}" in line
