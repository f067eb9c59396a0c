"""scapy layers: what is built is what the nodes speak; what they refuse is Raw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from capture.layers import (
    AddresseesRoute,
    CellsRoute,
    GreedyRoute,
    PerimeterRoute,
    PubSub,
    SenderRoute,
)
from nodeapp import wire
from nodeapp.auth import TRAILER, Seal
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.routing.aodv_wire import AodvKind, RouteReply
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.routing.cells import Walk


def test_a_packet_built_by_hand_is_a_frame() -> None:
    built = PubSub(kind="EVENT", originator=3, publisher=3, sequence=17, hops=2, ttl=14)
    built.flags = "replica"
    built.routing = GreedyRoute(x=1.5, y=-2)
    built.body = [{"topic": "traffic"}, None, b"payload"]
    frame = wire.decode(bytes(built))
    assert (frame.kind, frame.originator, frame.flags) == (CommonKind.EVENT, 3, wire.FLAG_REPLICA)
    assert (frame.publisher, frame.sequence, frame.hops, frame.ttl) == (3, 17, 2, 14)
    assert frame.destination == wire.BROADCAST
    assert wire.decode_geo_route(frame.route) == wire.GeoRoute(1.5, -2)
    assert wire.decode_body(frame.body) == [{"topic": "traffic"}, None, b"payload"]


def test_a_perimeter_route_has_its_fields() -> None:
    geo = wire.GeoRoute(1, 2, (3, 4), (5, 6), (7, 8), 9)
    layer = PubSub(wire.Frame(CommonKind.EVENT, 1, route=geo.encode(), body=b"\x01").encode())
    route = layer.routing
    assert isinstance(route, PerimeterRoute)
    assert (route.x, route.y) == (1, 2)
    assert (route.entered_x, route.entered_y, route.face_x, route.face_y) == (3, 4, 5, 6)
    assert (route.edge_from, route.edge_to, route.entry) == (7, 8, 9)
    assert bytes(PubSub(kind="EVENT", originator=1, routing=route, body=1)) == bytes(layer)


def test_where_the_sender_is_has_fields_and_is_built() -> None:
    at = wire.Whereabouts(10.5, -20.5, 3, -4)
    for layer, geo in (
        (GreedyRoute, wire.GeoRoute(1.5, -2)),
        (PerimeterRoute, wire.GeoRoute(1, 2, (3, 4), (5, 6), (7, 8), 9)),
    ):
        data = wire.with_sender(geo.encode(), at)
        route = PubSub(wire.Frame(CommonKind.EVENT, 1, route=data, body=b"\x01").encode()).routing
        assert isinstance(route, layer)
        assert (route.x, route.y) == (geo.x, geo.y)
        shown = (route.sender_x, route.sender_y, route.sender_vx, route.sender_vy)
        assert shown == at
        assert bytes(route) == data
        assert "with sender" in str(route.show(dump=True))
    built = SenderRoute(sender_x=10.5, sender_y=-20.5, sender_vx=3, sender_vy=-4)
    replica = PubSub(bytes(PubSub(kind="SUBSCRIPTION", originator=1, routing=built, body=1)))
    assert isinstance(replica.routing, SenderRoute)
    assert wire.split_sender(bytes(replica.routing)) == (b"", at)


def test_a_list_of_addressees_has_its_nodes_and_is_built() -> None:
    route = wire.encode_addressees([7, 300, 2**32 - 2])
    layer = PubSub(wire.Frame(CommonKind.EVENT, 1, route=route, body=b"\x01").encode())
    assert isinstance(layer.routing, AddresseesRoute)
    assert layer.routing.addressees == [7, 300, 2**32 - 2]
    assert "addressees" in str(layer.show(dump=True))
    assert bytes(AddresseesRoute(addressees=[7, 300, 2**32 - 2])) == route
    for bad in (route[:-1], b"\x04", b"\x04" + bytes(4)):
        odd = PubSub(wire.Frame(CommonKind.EVENT, 1, route=bad).encode())
        assert isinstance(odd.routing, Raw)


@pytest.mark.parametrize("walk", [None, Walk((-1, 2), (0, 3), (5, -6))])
def test_cells_have_fields_and_are_built(walk: Walk | None) -> None:
    data = CellRoute((-3, 70_000), 9, (5, -6), 600, walk).encode()
    layer = PubSub(wire.Frame(CellKind.DEMAND, 1, route=data, body=b"\x01").encode())
    route = layer.routing
    assert isinstance(route, CellsRoute)
    assert (route.column, route.row, route.key, route.left) == (-3, 70_000, 9, 600)
    assert (route.sender_column, route.sender_row) == (5, -6)
    if walk is not None:
        assert (route.entry_column, route.entry_row) == walk.entry
        assert (route.first_column, route.first_row) == walk.first
    assert bytes(PubSub(kind="DEMAND", originator=1, routing=route, body=1)) == bytes(layer)
    odd = PubSub(wire.Frame(CellKind.DEMAND, 1, route=data[:-1]).encode())
    assert isinstance(odd.routing, Raw)


def test_messages_of_aodv_have_names_and_show_their_numbers() -> None:
    reply = RouteReply(9, 5, 3, 6.0)
    layer = PubSub(wire.Frame(AodvKind.ROUTE_REPLY, 4, 1, ttl=34, body=reply.encode()).encode())
    assert layer.summary() == "ROUTE_REPLY from 4 to 1 hop 1 ttl 34"
    assert "[0, 9, 5, 3, 6000]" in str(layer.show(dump=True))
    event = wire.Frame(CommonKind.EVENT, 4, 1, flags=wire.FLAG_ONE_WAY)
    assert str(PubSub(event.encode()).flags) == "one-way"


def test_an_unknown_route_and_a_body_that_is_not_cbor_are_kept() -> None:
    datagram = wire.Frame(CommonKind.HELLO, 1, route=b"\x09abc", body=b"\xff").encode()
    layer = PubSub(datagram)
    assert isinstance(layer.routing, Raw)
    assert "b'\\xff'" in str(layer.show(dump=True))
    assert bytes(layer) == datagram


def test_summaries() -> None:
    event = PubSub(kind="EVENT", originator=4, publisher=3, sequence=17, hops=2, ttl=14)
    sent = IP(bytes(IP(src="10.0.0.4", dst="10.255.255.255") / UDP() / event))
    assert sent.summary() == "IP / UDP / EVENT 3/17 from 4 to broadcast hop 2 ttl 14"
    assert PubSub(kind="HELLO", originator=4, destination=9).summary() == (
        "HELLO from 4 to 9 hop 1 ttl 0"
    )
    assert (sent[UDP].sport, sent[UDP].dport) == (wire.NODE_PORT, wire.NODE_PORT)


def test_both_ports_in_both_directions() -> None:
    datagram = wire.Frame(ClientKind.STATUS, 5).encode()
    for ports in ((5550, 9), (9, 5550), (5551, 9), (9, 5551)):
        assert PubSub in UDP(bytes(UDP(sport=ports[0], dport=ports[1]) / datagram))
    assert PubSub not in UDP(bytes(UDP(sport=9, dport=9) / datagram))


def test_the_seal_is_shown_beside_the_body() -> None:
    frame = wire.Frame(CommonKind.EVENT, 1, body=wire.encode_body(["speed", 10]))
    sealed = Seal(b"a key of sixteen bytes", 1).seal(frame.encode(), 1.0)
    shown = str(PubSub(sealed).show(dump=True))
    assert f"['speed', 10] sealed {sealed[-TRAILER:].hex()}" in shown


def test_the_body_is_shown_decoded() -> None:
    layer = PubSub(wire.Frame(ClientKind.PUBLISH, 1, body=wire.encode_body(["speed", 10])).encode())
    assert "['speed', 10]" in str(layer.show(dump=True))


@given(st.binary(max_size=100))
def test_malformed_input_is_raw(datagram: bytes) -> None:
    packet = UDP(bytes(UDP(sport=5550, dport=5550) / datagram))
    packet.show(dump=True)
    try:
        wire.decode(datagram)
    except wire.WireError:
        assert PubSub not in packet
