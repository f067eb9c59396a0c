from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.kinds import CommonKind, Kind, TrafficClass
from nodeapp.pubsub.mesh.messages import MeshKind
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.registry import kinds
from nodeapp.wire import Frame, GeoRoute, WireError
from tests.nodeapp.strategies import HOSTILE_CBOR, frames

coordinates = st.floats(-9e8, 9e8)
points = st.tuples(coordinates, coordinates)
words = st.integers(0, 2**32 - 1)


@given(frames)
def test_frames_survive_the_wire(frame: Frame) -> None:
    assert wire.decode(frame.encode()) == frame


@given(st.binary(max_size=80))
def test_random_bytes_are_refused_or_decoded(datagram: bytes) -> None:
    try:
        frame = wire.decode(datagram)
    except WireError:
        return
    assert frame.encode() == datagram


@given(frames, st.integers(1, 30), st.binary(min_size=1, max_size=3))
def test_short_and_overlong_frames_are_refused(frame: Frame, cut: int, more: bytes) -> None:
    datagram = frame.encode()
    for bad in (
        datagram[:-cut],
        datagram + more,
        b"\x02" + datagram[1:],
        b"\x01\x00" + datagram[2:],
    ):
        with pytest.raises(WireError):
            wire.decode(bad)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(CommonKind.EVENT, 2**32),
        Frame(CommonKind.EVENT, -1),
        Frame(CommonKind.EVENT, 1, ttl=256),
        Frame(CommonKind.EVENT, 1, hops=256),
        Frame(CommonKind.EVENT, 1, sequence=2**32),
        Frame(CommonKind.EVENT, 1, route=bytes(256)),
    ],
)
def test_fields_that_do_not_fit_are_refused(frame: Frame) -> None:
    with pytest.raises(WireError):
        frame.encode()


def test_a_body_that_does_not_fit_a_datagram_is_refused() -> None:
    assert Frame(CommonKind.EVENT, 1, body=bytes(wire.MAX_BODY)).encode()
    with pytest.raises(WireError):
        Frame(CommonKind.EVENT, 1, body=bytes(wire.MAX_BODY + 1)).encode()


def test_a_forwarded_frame_has_a_hop_more_and_one_less_to_live() -> None:
    frame = Frame(CommonKind.EVENT, 1, ttl=2, hops=3).forwarded(b"route")
    assert (frame.ttl, frame.hops, frame.route) == (1, 4, b"route")
    for worn in (frame._replace(ttl=0), frame._replace(hops=255)):
        with pytest.raises(WireError):
            worn.forwarded()


@given(points, points | st.none(), points, st.tuples(words, words), words)
def test_geographic_extensions_survive_the_wire(
    location: tuple[float, float],
    entered: tuple[float, float] | None,
    face: tuple[float, float],
    edge: tuple[int, int],
    entry: int,
) -> None:
    route = (
        GeoRoute(*location) if entered is None else GeoRoute(*location, entered, face, edge, entry)
    )
    assert wire.decode_geo_route(route.encode()) == route


velocities = st.floats(-1e6, 1e6, width=32)


@given(
    st.one_of(
        st.just(b""),
        points.map(lambda at: GeoRoute(*at).encode()),
        st.tuples(points, points, words).map(
            lambda each: GeoRoute(*each[0], each[1], each[0], (1, 2), each[2]).encode()
        ),
    ),
    points,
    st.tuples(velocities, velocities),
)
def test_where_the_sender_is_survives_the_wire(
    route: bytes, at: tuple[float, float], velocity: tuple[float, float]
) -> None:
    sender = wire.Whereabouts(*at, *velocity)
    data = wire.with_sender(route, sender)
    assert wire.split_sender(data) == (route, sender)
    assert len(data) == max(len(route), 1) + 24
    assert wire.split_sender(route) == (route, None)
    with pytest.raises(WireError):
        wire.decode_geo_route(data)


@given(st.binary(max_size=90).map(lambda tail: b"\x80" + tail) | st.binary(max_size=90))
def test_random_senders_are_refused_or_finite(route: bytes) -> None:
    with contextlib.suppress(WireError):
        _, sender = wire.split_sender(route)
        assert sender is None or all(abs(value) < 1e9 for value in sender)


nodes = st.integers(1, wire.BROADCAST - 1)


@given(st.lists(nodes, min_size=1, max_size=wire.MAX_ADDRESSEES), st.binary(max_size=60))
def test_addressees_survive_the_wire_and_leave_the_body_untouched(
    addressees: list[int], body: bytes
) -> None:
    route = wire.encode_addressees(addressees)
    assert wire.decode_addressees(route) == tuple(addressees)
    plain = Frame(CommonKind.EVENT, 1, publisher=1, sequence=2, ttl=3, body=body)
    listed = wire.decode(plain._replace(route=route).encode())
    assert listed.route == route
    assert listed.forwarded(b"").encode() == plain.forwarded().encode()
    assert listed.body == body
    with pytest.raises(WireError):
        wire.decode_geo_route(route)
    assert wire.split_sender(route) == (route, None)


@given(st.binary(max_size=255) | st.binary(max_size=254).map(lambda tail: b"\x04" + tail))
def test_random_addressees_are_refused_or_decoded(route: bytes) -> None:
    with contextlib.suppress(WireError):
        assert wire.encode_addressees(wire.decode_addressees(route)) == route


@pytest.mark.parametrize(
    "bad", [[], [0], [wire.BROADCAST], [1, 0], [-1], list(range(1, wire.MAX_ADDRESSEES + 2))]
)
def test_addressees_that_are_no_nodes_or_too_many_are_refused(bad: list[int]) -> None:
    with pytest.raises(WireError):
        wire.encode_addressees(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e9])
def test_a_sender_from_nowhere_is_refused(bad: float) -> None:
    for index in range(4):
        values = [0.0] * 4
        values[index] = bad
        with pytest.raises(WireError):
            wire.split_sender(wire.with_sender(b"", wire.Whereabouts(*values)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e9])
def test_coordinates_that_are_no_metres_are_refused(bad: float) -> None:
    for route in (
        GeoRoute(bad, 0),
        GeoRoute(0, bad),
        GeoRoute(0, 0, (0, bad)),
        GeoRoute(0, 0, (0, 0), (bad, 0)),
    ):
        with pytest.raises(WireError):
            wire.decode_geo_route(route.encode())


@pytest.mark.parametrize("body", HOSTILE_CBOR, ids=lambda body: body[:6].hex())
def test_hostile_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        wire.decode_body(body)


def test_every_tag_is_refused() -> None:
    for tag in [*range(300), 1004, 43000, 55799]:
        head = bytes([0xD9]) + tag.to_bytes(2, "big")
        for item in (b"\x01", b"\x61x", b"\x41x", b"\x82\x01\x02", b"\xa0"):
            with pytest.raises(WireError):
                wire.decode_body(head + item)


@given(st.binary(max_size=40))
def test_random_bodies_are_refused_or_decoded(body: bytes) -> None:
    with contextlib.suppress(WireError):
        wire.decode_body(body)


@pytest.mark.parametrize("kind", kinds().values())
def test_a_message_has_the_class_of_its_kind(kind: Kind) -> None:
    routing = {
        CommonKind.HELLO,
        *(kind for kind in kinds().values() if kind.name.startswith("ROUTE_")),
    }
    wanted = TrafficClass.PUBSUB_CONTROL
    if kind in (
        CommonKind.EVENT,
        MeshKind.DELIVERY,
        OverlayKind.SEARCH,
        OverlayKind.CUBE_EVENT,
    ):  # all carry one
        wanted = TrafficClass.EVENTS
    elif kind in routing:
        wanted = TrafficClass.ROUTING_CONTROL
    assert wire.traffic_class(Frame(kind, 1).encode()) == wanted


def test_all_classes_are_best_effort_in_802_11() -> None:
    assert all(each >> 3 == 0 for each in TrafficClass)


@pytest.mark.parametrize("datagram", [b"", b"\x01", b"\x01\xff"])
def test_what_is_no_frame_has_the_class_of_plain_traffic(datagram: bytes) -> None:
    assert wire.traffic_class(datagram) == 0
