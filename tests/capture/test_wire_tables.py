"""What the Wireshark dissector and the scapy layers declare again is what `nodeapp.wire` says.

The dissector's tables are read from its source, so that this needs no tshark: a kind, a flag or a
header field that is in one of them only makes these tests fail.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from capture.layers import PubSub
from nodeapp import wire
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.registry import kinds
from nodeapp.routing import aodv_wire, tree_beacon
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.routing.cells import Walk
from nodeapp.routing.tree_beacon import TreeBeacon
from nodeapp.wire import Frame, GeoRoute

SOURCE = (Path(__file__).parents[2] / "capture" / "dissector" / "pubsub.lua").read_text("utf-8")
FLAGS = {
    name.removeprefix("FLAG_").lower(): value
    for name, value in vars(wire).items()
    if name.startswith("FLAG_")
}
FRAME = Frame(CommonKind.EVENT, 3, 4, 5, 6, ttl=7, hops=8, flags=9, route=b"10", body=b"eleven")
FIELDS = {
    "version": wire.VERSION,
    "kind": FRAME.kind,
    "flags": FRAME.flags,
    "ttl": FRAME.ttl,
    "hops": FRAME.hops,
    "route_length": len(FRAME.route),
    "body_length": len(FRAME.body),
    "originator": FRAME.originator,
    "destination": FRAME.destination,
    "publisher": FRAME.publisher,
    "sequence": FRAME.sequence,
}


def table(name: str) -> str:
    """Return what stands between the braces of `local NAME = { ... }`."""
    match = re.search(rf"^local {name} = \{{\n(.*?)^\}}", SOURCE, re.MULTILINE | re.DOTALL)
    assert match is not None, f"the dissector has no table {name}"
    return match[1]


def constants() -> dict[str, int]:
    """Return the numbers that the dissector declares as `local A, B = 1, 2`."""
    found: dict[str, int] = {}
    for names, values in re.findall(r"^local ([A-Z_, ]+) = ([0-9A-Fx, ]+)$", SOURCE, re.MULTILINE):
        numbers = [int(value, 0) for value in values.split(", ")]
        found.update(zip(names.split(", "), numbers, strict=True))
    return found


def flags(prefix: str) -> dict[str, int]:
    """Return the masks of the flags whose display filter names begin with a prefix."""
    pattern = rf'ProtoField\.bool\("{re.escape(prefix)}\.(\w+)", "[^"]*", \d+, nil, (0x\w+)\)'
    return {name: int(mask, 16) for name, mask in re.findall(pattern, SOURCE)}


def test_the_dissector_knows_exactly_the_kinds_of_messages() -> None:
    shown = re.findall(r'\[(\d+)\] = "(\w+)"', table("KINDS"))
    assert len(shown) == table("KINDS").count("=")
    assert {int(number): name for number, name in shown} == {
        number: kind.name for number, kind in kinds().items()
    }


def test_the_dissector_names_only_kinds_that_there_are() -> None:
    named = set(re.findall(r"\bKIND\.(\w+)", SOURCE))
    assert named >= {"HELLO", "ROUTE_REQUEST", "ROUTE_REPLY", "ROUTE_ERROR"}
    assert named <= {kind.name for kind in kinds().values()}


def test_the_dissectors_header_is_that_of_the_wire() -> None:
    rows = re.findall(r"(\w+) = \{ (\d+), (\d+) \}", table("HEADER"))
    header = {name: (int(offset), int(width)) for name, offset, width in rows}
    datagram = FRAME.encode()
    read = {
        name: int.from_bytes(datagram[offset : offset + width], "big")
        for name, (offset, width) in header.items()
    }
    assert read == FIELDS
    covered = sorted(i for offset, width in header.values() for i in range(offset, offset + width))
    assert covered == list(range(wire.HEADER_LENGTH))


def test_the_dissectors_flags_are_those_of_the_wire() -> None:
    assert flags("pubsub.flags") == FLAGS
    assert flags("pubsub.aodv.flags") == {
        "gratuitous": aodv_wire.GRATUITOUS,
        "destination_only": aodv_wire.DESTINATION_ONLY,
        "unknown": aodv_wire.UNKNOWN,
    }
    assert flags("pubsub.aodv.reply.flags") == {"acknowledge": aodv_wire.ACKNOWLEDGE}
    assert flags("pubsub.aodv.error.flags") == {"no_delete": aodv_wire.NO_DELETE}
    assert flags("pubsub.tree.flags") == {"orphaned": tree_beacon.ORPHANED}


def test_the_dissectors_constants_are_those_of_the_wire() -> None:
    names = ("VERSION", "NODE_PORT", "CLIENT_PORT", "HEADER_LENGTH", "MAX_BODY", "BROADCAST")
    greedy, perimeter = GeoRoute(1, 2), GeoRoute(1, 2, (3, 4), (5, 6), (7, 8), 9)
    cells = CellRoute((1, 2), 3, (4, 5))
    modes = ("GREEDY", "PERIMETER", "ADDRESSEES", "CELLS", "CELL_WALK")
    expected = {name: getattr(wire, name) for name in (*names, *modes)} | {
        "GREEDY_LENGTH": len(greedy.encode()),
        "PERIMETER_LENGTH": len(perimeter.encode()),
        "WITH_SENDER": wire.WITH_SENDER,
        "TREE": wire.TREE,
        "TREE_LENGTH": len(TreeBeacon(1, 2, 3, 4).encode()),
        "CELLS_LENGTH": len(cells.encode()),
        "CELL_WALK_LENGTH": len(cells._replace(walk=Walk((1, 2), (3, 4), (5, 6))).encode()),
        "SENDER_LENGTH": len(wire.with_sender(greedy.encode(), wire.Whereabouts(1, 2)))
        - len(greedy.encode()),
    }
    declared = constants()
    assert {name: declared.get(name) for name in expected} == expected


def test_the_scapy_layer_has_the_header_the_kinds_and_the_flags_of_the_wire() -> None:
    layer = PubSub(FRAME.encode())
    assert {name: int(getattr(layer, name)) for name in FIELDS} == FIELDS
    names = [field.name for field in PubSub.fields_desc]
    assert names == [*FIELDS, "routing", "body"]
    by_name: dict[str, Any] = {field.name: field for field in PubSub.fields_desc}
    assert by_name["kind"].i2s == {number: kind.name for number, kind in kinds().items()}
    shown = {name.replace("-", "_"): 1 << bit for bit, name in enumerate(by_name["flags"].names)}
    assert shown == FLAGS
