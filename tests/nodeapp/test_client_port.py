"""The node's side of the client port, without sockets."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import client_port, wire
from nodeapp.client_port import LEASE, RENEWAL, Address
from nodeapp.events import Event, Filter, Subscription
from nodeapp.kinds import FIRST_CLIENT_KIND, ClientKind
from nodeapp.pubsub.registry import kinds
from nodeapp.wire import NODE_PORT, Frame, WireError
from tests.nodeapp.network import CLIENT, SimHost, SimNetwork
from tests.nodeapp.strategies import HOSTILE_CBOR, frames, hostile

OTHER: Address = ("client", 2)


class Desk:
    """One node and what it sent to which client."""

    def __init__(self, protocol: str = "flooding") -> None:
        self.network = SimNetwork()
        self.node: SimHost = self.network.add((0.0, 0.0), protocol)
        self.sent: list[tuple[Address, Frame]] = []
        self.node.clients._send = self.send

    def send(self, client: Address, datagram: bytes) -> None:
        self.sent.append((client, wire.decode(datagram)))

    def ask(self, frame: Frame, client: Address = CLIENT) -> object:
        """Send a request and return what the ACK says."""
        self.sent.clear()
        self.node.clients.datagram_received(frame.encode(), client)
        acks = [frame for to, frame in self.sent if frame.kind == ClientKind.ACK and to == client]
        (ack,) = acks
        assert (ack.originator, ack.destination) == (frame.originator, frame.kind)
        return wire.decode_body(ack.body)

    def subscribe(self, words: str, number: int = 1, client: Address = CLIENT) -> object:
        body = Subscription(Filter.parse(words.split())).encode()
        return self.ask(Frame(ClientKind.SUBSCRIBE, 5, 0, 0, number, hops=0, body=body), client)

    def publish(self, topic: str, sequence: int, publisher: int = 1) -> object:
        body = Event(publisher, sequence, {"topic": topic}).encode()
        return self.ask(Frame(ClientKind.PUBLISH, 6, 0, publisher, sequence, hops=0, body=body))

    def notified(self) -> list[tuple[Address, int]]:
        return [(to, f.destination) for to, f in self.sent if f.kind == ClientKind.NOTIFY]

    def local(self) -> int:
        return len(self.node.service.local)


def test_an_event_goes_to_each_client_once() -> None:
    desk = Desk()
    desk.subscribe("traffic", 1)
    desk.subscribe("", 2)
    desk.subscribe("traffic", 9, OTHER)
    assert desk.publish("traffic", 1) is None
    assert desk.notified() == [(CLIENT, 1), (OTHER, 9)]
    notice = next(frame for _, frame in desk.sent if frame.kind == ClientKind.NOTIFY)
    assert (notice.originator, notice.publisher, notice.sequence, notice.hops) == (1, 1, 1, 0)
    assert Event.decode(1, 1, notice.body).topic == "traffic"
    desk.publish("weather", 2)
    assert desk.notified() == [(CLIENT, 2)]


def test_equal_subscriptions_are_one_to_the_service() -> None:
    desk = Desk()
    for client in (CLIENT, OTHER):
        for number in (1, 2):
            desk.subscribe("traffic", number, client)
    assert desk.local() == 1
    for client in (CLIENT, OTHER):
        for number in (1, 2):
            assert desk.local() == 1
            assert desk.ask(Frame(ClientKind.UNSUBSCRIBE, 5, 0, 0, number, hops=0), client) is None
    assert desk.local() == 0


def test_a_number_that_is_used_again_replaces_its_subscription() -> None:
    desk = Desk()
    desk.subscribe("traffic")
    desk.subscribe("weather")
    assert desk.local() == 1
    desk.publish("traffic", 1)
    assert not desk.notified()
    desk.publish("weather", 2)
    assert desk.notified() == [(CLIENT, 1)]


def test_a_lease_lapses_unless_it_is_renewed() -> None:
    desk = Desk()
    desk.subscribe("traffic", 1)
    desk.subscribe("weather", 2)
    for _ in range(6):
        desk.network.run(RENEWAL)
        desk.subscribe("weather", 2)
    assert desk.local() == 1
    desk.network.run(LEASE + 6)
    assert desk.local() == 0
    assert desk.node.clients.counters["lapsed"] == 2


def test_all_subscriptions_with_a_filter_end_and_their_clients_are_told() -> None:
    desk = Desk()
    desk.subscribe("traffic speed>5", 3)
    desk.subscribe("speed>5.0 traffic", 4, OTHER)
    desk.subscribe("traffic", 5, OTHER)
    body = wire.encode_body(Filter.parse(["traffic", "speed>5"]).encode())
    by_hand: Address = ("client", 3)
    request = Frame(ClientKind.UNSUBSCRIBE, 9, 0, hops=0, body=body)
    assert desk.ask(request, by_hand) is None
    told = {(to, f.sequence) for to, f in desk.sent if f.kind == ClientKind.UNSUBSCRIBE}
    assert told == {(CLIENT, 3), (OTHER, 4)}
    assert desk.local() == 1
    refusal = desk.ask(request, by_hand)
    assert refusal == "nobody at this node subscribes to traffic 'speed>5'"


def test_refusals_say_why() -> None:
    desk = Desk("broker-gpsr")
    assert "give the filter a topic" in str(desk.subscribe("speed>5"))
    assert "give the event a topic" in str(
        desk.ask(Frame(ClientKind.PUBLISH, 1, 0, 1, 1, body=Event(1, 1, {}).encode()))
    )
    assert desk.publish("traffic", 1, publisher=7) == "this is node 1, not 7"
    assert "numbered from 1" in str(desk.publish("traffic", 0))
    assert "numbered from 1" in str(desk.subscribe("traffic", 0))
    assert desk.ask(Frame(ClientKind.UNSUBSCRIBE, 1, 0, 0, 8, hops=0)) is None, "sent twice"
    assert desk.local() == 0
    desk.node.clients.closed = "not yet"
    assert desk.subscribe("traffic") == "not yet"


def test_a_refused_replacement_leaves_the_old_subscription() -> None:
    desk = Desk("broker-gpsr")
    desk.subscribe("traffic")
    assert desk.subscribe("speed>5") is not None
    assert desk.local() == 1


def test_a_replacement_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_port, "MAX_SUBSCRIPTIONS", 1)
    desk = Desk()
    assert desk.subscribe("traffic") is None
    assert desk.subscribe("news", 2) == "this node has 1 subscriptions already"
    assert desk.subscribe("weather") is None
    assert desk.publish("weather", 1) is None
    assert desk.notified() == [(CLIENT, 1)]
    assert desk.local() == 1


def test_long_refusals_fit_a_datagram() -> None:
    desk = Desk()
    body = wire.encode_body([{"\x01" * 30_000: 1}, None, b""])
    refusal = desk.ask(Frame(ClientKind.PUBLISH, 1, 0, 1, 1, body=body))
    assert isinstance(refusal, str)
    assert len(refusal) <= 500


def test_status_tells_of_the_node_and_fits_a_datagram() -> None:
    desk = Desk("broker-gpsr")
    for number in range(1, 300):
        desk.subscribe(f"traffic street={'x' * 1000}{number}", number)
    desk.sent.clear()
    desk.node.clients.datagram_received(Frame(ClientKind.STATUS, 77, 0).encode(), CLIENT)
    ((to, reply),) = desk.sent
    assert (to, reply.originator, reply.kind) == (CLIENT, 77, ClientKind.STATUS)
    status = wire.decode_body(reply.body)
    assert status["local subscriptions"] == 299
    assert status["neighbours"] == {}


@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr", "rendezvous-gpsr"])
def test_whoever_is_going_to_publish_may_say_so(protocol: str) -> None:
    desk = Desk(protocol)

    def advertise(topic: object, publisher: int = 0) -> object:
        body = wire.encode_body(topic)
        return desk.ask(Frame(ClientKind.ADVERTISE, 6, 0, publisher, hops=0, body=body))

    assert advertise("traffic") is None
    assert advertise("traffic", publisher=1) is None
    assert "must be a topic" in str(advertise(5))
    assert "this is node 1" in str(advertise("traffic", publisher=9))
    assert (advertise("x" * 5000) is None) == (protocol == "flooding")


def test_a_status_reply_is_not_a_request() -> None:
    desk = Desk()
    desk.node.clients.datagram_received(
        Frame(ClientKind.STATUS, 1, 0, body=b"\xa0").encode(), CLIENT
    )
    assert not desk.sent


requests = st.builds(
    Frame,
    st.sampled_from(list(ClientKind)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 2),
    st.just(0),
    st.just(0),
    st.just(0),
    st.just(b""),
    hostile,
)


@given(st.lists(st.binary(max_size=60) | (requests | frames).map(Frame.encode), max_size=8))
def test_nothing_from_a_client_does_harm(datagrams: list[bytes]) -> None:
    for protocol in ("flooding", "broker-gpsr"):
        desk = Desk(protocol)
        for datagram in datagrams:
            desk.node.clients.datagram_received(datagram, CLIENT)
        desk.network.run(LEASE + 10)
        assert desk.local() == 0
        assert desk.subscribe("traffic") is None
        assert desk.publish("traffic", NODE_PORT) is None
        assert desk.notified() == [(CLIENT, 1)]


from_neighbours = st.builds(
    Frame,
    st.sampled_from([kind for kind in kinds() if kind < FIRST_CLIENT_KIND]),
    st.sampled_from([1, 2, 3, 0xFFFFFFFF]),
    st.sampled_from([0, 1, 2, 0xFFFFFFFF]),
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from([0, 1, 255]),
    st.sampled_from([0, 1, 255]),
    st.integers(0, 3),
    st.binary(max_size=20)
    | st.builds(
        wire.GeoRoute,
        st.floats(-300, 300),
        st.floats(-300, 300),
        st.none() | st.tuples(st.floats(-300, 300), st.floats(-300, 300)),
        st.tuples(st.floats(-300, 300), st.floats(-300, 300)),
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
        st.integers(0, 3),
    ).map(wire.GeoRoute.encode),
    hostile
    | st.builds(lambda x, y: wire.encode_body([x, y, 0.0, 1.0]), st.floats(), st.floats())
    | st.builds(
        lambda x, y, rest: wire.encode_body([[x, y], rest]),
        st.floats(),
        st.floats(),
        st.just([[["topic", "=", "a"]], {}]) | st.just([[], {}]),
    )
    | st.just(Event(1, 1, {"topic": "a"}).encode()),
)


@given(
    st.sampled_from(["flooding", "broker-gpsr"]),
    st.lists(
        st.tuples(
            st.binary(max_size=60) | (from_neighbours | frames).map(Frame.encode),
            st.integers(2, 4),
        ),
        max_size=12,
    ),
)
def test_nothing_from_a_neighbour_does_harm(
    protocol: str, datagrams: list[tuple[bytes, int]]
) -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), protocol)
    node.subscribe("a")
    node.send = lambda to, datagram: None  # type: ignore[method-assign]
    for datagram, sender in datagrams:
        node.hear(datagram, sender)
    network.run(5)
    assert node.publish("a", sequence=2**31) is None
    assert node.notified()[1, 2**31] == 1


@pytest.mark.parametrize("body", HOSTILE_CBOR, ids=lambda body: body[:6].hex())
def test_hostile_bodies_are_no_subscriptions(body: bytes) -> None:
    with contextlib.suppress(WireError):
        raise AssertionError(Subscription.decode(body))
