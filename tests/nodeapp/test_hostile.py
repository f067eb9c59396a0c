"""Broken or hostile neighbours: linear work, bounded memory, and a STATUS that still answers."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nodeapp import budget, wire
from nodeapp.auth import Seal
from nodeapp.budget import Budgets
from nodeapp.events import Event, Filter, Subscription
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.node import Node, NodeOptions
from nodeapp.predicates import Predicate
from nodeapp.pubsub import interests, rendezvous, subscription_table
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.interests import InterestTable, encode_interests
from nodeapp.pubsub.messages import Subscriber, TopicKind, encode_advertisement
from nodeapp.pubsub.registry import typed
from nodeapp.pubsub.rendezvous import Rendezvous
from nodeapp.pubsub.subscription_table import SubscriptionTable
from nodeapp.routing import aodv_links, aodv_wire
from nodeapp.routing.aodv_table import RouteTable
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.routing.neighbours import MAX_NEIGHBOURS, encode_hello
from nodeapp.wire import Frame
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.schemes import WARM_UP, hashed, network_of
from tests.nodeapp.routing.aodv_lab import Graph
from tests.nodeapp.routing.test_gpsr import GpsrField

WIDE = "\U0001f600"
"""A character of four bytes."""
FORGED = 10_000
"""The first of the ids that a hostile neighbour makes up."""


def large(number: int) -> bytes:
    """Return a subscription of some 50 kB."""
    words = ["traffic", *(f"k{n}!={number}{'x' * 800}" for n in range(60))]
    return Subscription(Filter.parse(words)).encode()


def test_beacons_of_thousands_cost_little_and_the_nearest_are_kept() -> None:
    field = GpsrField([(0.0, 0.0)])
    (station,) = field.stations
    for number in range(4096):
        turn = number * 2 * math.pi / 4096
        radius = 90.0 if number % 2 else 91.0
        body = encode_hello(radius * math.cos(turn), radius * math.sin(turn), 0.0, 0.0)
        node = FORGED + number
        station.router.neighbours.hello_received(Frame(CommonKind.HELLO, node, body=body), node)
    near = Frame(CommonKind.HELLO, 2, body=encode_hello(10.0, 0.0, 0.0, 0.0))
    station.router.neighbours.hello_received(near, 2)
    kept = station.router.neighbours.current()
    assert len(kept) == MAX_NEIGHBOURS
    assert 2 in kept
    assert sum(math.hypot(each.x, each.y) < 90.5 for each in kept.values()) == MAX_NEIGHBOURS
    assert station.router.status()["neighbours turned away"] > 3000
    began = time.process_time()
    station.router.send(Frame(CommonKind.EVENT, 1, 9, hops=0), (-500.0, 1.0))
    assert time.process_time() - began < 0.1


def test_neighbours_that_fall_silent_together_cost_one_look_at_the_table() -> None:
    graph = Graph(2, [(1, 2)])
    router = graph.stations[1].router
    for number in range(8000):
        hello = Frame(CommonKind.HELLO, FORGED + number, body=aodv_wire.Hello(1, 3.0).encode())
        graph.stations[1].hear(hello, FORGED + number)
    assert len(router._links._lost_at) == aodv_links.MAX_HEARD
    for number in range(16_000):  # routes over them
        router.table.learn(50_000 + number, 1, 2, FORGED + number % 1000, 0.0, 1e9)
    began = time.process_time()
    graph.run(10.0)
    assert time.process_time() - began < 0.5
    assert not any(route.valid for _, route in router.table.items())


def test_a_sequence_number_half_of_all_ahead_is_not_believed() -> None:
    table = RouteTable(10.0)
    table.learn(9, 100, 2, 3, 0.0, 60.0)
    assert not table.learn(9, 0x7FFFFFF0, 1, 4, 1.0, 60.0)
    table.break_route(9, 3, 0x7FFFFFF0, 2.0)
    assert table.learn(9, 102, 2, 3, 3.0, 60.0)  # the destination's own next one
    graph = Graph(2, [(1, 2)])
    own = graph.stations[1].router.sequence
    request = aodv_wire.RouteRequest(0, 1, (own + 0x7FFFFFF0) % 2**32, 5)
    graph.stations[1].hear(Frame(AodvKind.ROUTE_REQUEST, 2, 1, body=request.encode()), 2)
    assert graph.stations[1].router.sequence == own


@pytest.mark.parametrize(
    ("low", "high", "infix"),
    [
        ("b" * 1024, "c" * 1024, "0" + "x" * 848),  # a part of the first of the 61
        ("a" + "b" * 1023, "a" + "c" * 1023, "a"),  # what all texts in the interval begin with
    ],
)
def test_long_bounds_and_many_infixes_are_compared_at_once(low: str, high: str, infix: str) -> None:
    predicates = [Predicate("k", ">=", low), Predicate("k", "<=", high)]
    predicates += [Predicate("k", "contains", f"{n:02}{'x' * 848}") for n in range(61)]
    narrow, wide = Filter(tuple(predicates)), Filter((Predicate("k", "contains", infix),))
    assert len(Subscription(narrow).encode()) < wire.MAX_BODY
    began = time.process_time()
    assert wide.covers(narrow)
    assert time.process_time() - began < 0.5


def test_large_subscriptions_do_not_fill_the_memory() -> None:
    table = SubscriptionTable(3.5)
    counters: Counter[str] = Counter()
    told = InterestTable(3.5, 0.1, 65_536, counters)
    for number in range(200):
        item = large(number)
        table.store(Subscriber(FORGED + number, item, (0.0, 0.0), 1, 0.0))
        for body in encode_interests(1, [item]):
            told.store(FORGED + number, body, 2, 1, 0.0)
    assert 80 < len(table) == 200 - table.refused
    assert len(table) <= subscription_table.MAX_BYTES // len(large(0))
    assert len(told) <= interests.MAX_BYTES // len(large(0)) + 1
    assert counters["table full"] > 50
    for soft in (table, told):  # and there is room again when they have timed out
        soft.expire(4.0)
        assert len(soft) == 0
    table.store(Subscriber(1, large(1), (0.0, 0.0), 1, 5.0))
    assert len(table) == 1


def test_an_advertisement_is_answered_by_a_bounded_list_that_goes_on() -> None:
    x, y = hashed("traffic")
    network = network_of([(x, y), (x + 100.0, y)], "rendezvous-gpsr", parameters={})
    network.run(WARM_UP)
    service = network.nodes[1].service
    assert isinstance(service, Rendezvous)
    for number in range(2000):
        item = Subscription(Filter.parse(["traffic", f"road!={number}{'x' * 150}"])).encode()
        service.subscriptions.store(Subscriber(FORGED + number, item, (x, y), 1, network.time))
    told: set[int] = set()
    frames = 0
    for stamp in range(40):
        sent = len(network.sent)
        body = encode_advertisement("traffic", (x + 100.0, y), stamp)
        service.arrived(Frame(TopicKind.ADVERTISEMENT, 2, hops=1, body=body))
        answers = [wire.decode(datagram) for _, _, _, datagram in network.sent[sent:]]
        assert len(answers) <= 2 * rendezvous.MAX_LIST_BYTES // 1200
        frames += len(answers)
        for answer in answers:
            told |= {entry[0] for entry in wire.decode_body(answer.body)[3]}
    assert len(told) == 2000  # in the lists of several answers
    assert frames <= rendezvous.MAX_LIST_RATE + 2 * rendezvous.MAX_LIST_BYTES // 1200
    assert service.counters["lists held back"] > 0


def test_status_answers_whatever_is_subscribed() -> None:
    network = SimNetwork()
    node: SimHost = network.add((0.0, 0.0), "flooding")
    sent: list[bytes] = []
    node.clients._send = lambda client, datagram: sent.append(datagram)
    for number in range(1, 61):
        words = ["traffic", *(f"k{n}!={number}{WIDE * 200}" for n in range(20))]
        body = Subscription(Filter.parse(words)).encode()
        frame = Frame(ClientKind.SUBSCRIBE, 5, 0, 0, number, hops=0, body=body)
        node.clients.datagram_received(frame.encode(), ("client", 1))
    sent.clear()
    node.clients.datagram_received(Frame(ClientKind.STATUS, 1, 0, hops=0).encode(), ("client", 1))
    (reply,) = sent
    assert len(reply) < 40_000
    status = wire.decode_body(wire.decode(reply).body)
    assert isinstance(status, dict)
    assert status["subscriptions in all"] == 60
    assert 0 < len(status["subscriptions"]) < 60


def test_a_neighbour_has_a_budget_a_second() -> None:
    budgets = Budgets(3)
    assert [budgets.takes(7, 0.1 * n) for n in range(5)] == [True, True, True, False, False]
    assert budgets.takes(8, 0.5)
    assert budgets.takes(7, 1.0)
    assert budgets.dropped == {7: 2}
    for node in range(1, 100):
        for _ in range(4):
            budgets.takes(node, 2.0)
    assert len(budgets.dropped) == budget.SHOWN + 1  # and one for all others
    assert budgets.dropped.total() == 2 + 99


@contextmanager
def listening(key: bytes | None) -> Iterator[tuple[Node, Callable[[bytes], None]]]:
    """Yield a node app, and what gives it a datagram that comes from node 2."""
    loop = asyncio.new_event_loop()
    loop.time = lambda: 5.5  # type: ignore[method-assign]
    radio, air, client_port = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    for each in (radio, client_port):
        each.bind(("127.0.0.1", 0))
        each.setblocking(False)
    air.bind(("127.0.0.2", 0))
    environment = Environment((0.0, 0.0, 9.0, 9.0), 250.0)
    options = NodeOptions(1, "lo", "flooding", environment, typed("flooding", {}), key=key)
    node = Node(options, loop, radio, client_port)

    def hear(datagram: bytes) -> None:
        air.sendto(datagram, radio.getsockname())
        node._read_radio()

    try:
        node.start()
        node._sender = lambda address: 2  # type: ignore[method-assign]
        yield node, hear
    finally:
        node.close()
        air.close()
        loop.close()


def test_a_node_drops_and_tells_what_is_beyond_the_budget() -> None:
    with listening(None) as (node, hear):
        for _ in range(budget.FRAMES + 50):
            hear(b"no frame")
        assert node.service.counters["malformed"] == budget.FRAMES
        assert node._about()["over budget"] == {"2": 50}


def test_what_a_stranger_sends_is_not_of_a_neighbours_budget() -> None:
    key = b"a key that neighbours share"
    neighbour = Seal(key, 2)
    event = Frame(
        CommonKind.EVENT, 2, publisher=2, sequence=1, body=Event(2, 1, {}).encode()
    ).encode()
    with listening(key) as (node, hear):
        for _ in range(budget.FRAMES + 1):
            hear(b"no frame")
        for number in range(5):
            hear(neighbour.seal(event, 1.0 + number))
        assert node._about()["over budget"] == {}
        assert node.counters["refused: not sealed"] == budget.FRAMES + 1
        assert node.service.counters["duplicates"] == 4
    with listening(None) as (node, hear):
        hear(neighbour.seal(event, 9.0))
        assert node.counters["refused: sealed, and this node has no key"] == 1
        assert not node.service.counters
