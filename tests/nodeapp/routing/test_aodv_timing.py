"""AODV's lifetimes, timeouts and waiting frames, RFC 3561's and ns-2's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.routing.aodv_wire import AodvKind, RouteRequest, decode_hello, decode_reply
from nodeapp.wire import Frame
from tests.nodeapp.routing.aodv_lab import Graph, discovered, line, rings

NS2: dict[str, Any] = {
    "link_feedback": True,
    "active_route_timeout": 10.0,
    "my_route_timeout": 10.0,
    "rev_route_life": 6.0,
    "net_diameter": 30,
    "node_traversal_time": 0.03,
    "ttl_start": 30,
    "rreq_retries": 3,
    "gratuitous_reply": False,
    "adaptive_timeout": True,
    "max_rreq_timeout": 10.0,
    "buffer_timeout": 30.0,
    "salvage": False,
    "local_repair": True,
    "repair_one": True,
    "blacklist": False,
}
"""aodv.h of ns-2.35 and what aodv.cc does with it."""


def gaps(graph: Graph, node: int) -> list[float]:
    return [later - earlier for (earlier, _), (later, _) in itertools.pairwise(rings(graph, node))]


def request(number: int, sequence: int, originator: int = 1, hops: int = 2) -> Frame:
    body = RouteRequest(0, number, 1, sequence).encode()
    return Frame(AodvKind.ROUTE_REQUEST, originator, 9, ttl=5, hops=hops, body=body)


# Lifetimes (6.5, section 10).


@pytest.mark.parametrize(("lasts", "kept"), [(10.0, 10.0), (1.0, 5.44)])
def test_a_request_never_shortens_a_route_back(lasts: float, kept: float) -> None:
    graph = Graph(3, ())
    node = graph.stations[3]
    node.router.table.learn(1, 5, 2, 2, 0.0, lasts)
    node.hear(request(1, 6), 2)  # newer: the route is replaced
    route = node.route(1)
    assert route is not None
    assert route.sequence == 6
    assert route.expires == pytest.approx(kept)  # 2 * 2.8 s - 2 * 2 hops * 40 ms
    node.hear(request(2, 6), 2)  # not newer: the route is extended at most
    assert route.expires == pytest.approx(kept)


def test_a_route_that_has_expired_lengthens_nothing() -> None:
    graph = Graph(3, ())
    node = graph.stations[3]
    node.router.table.learn(1, 5, 2, 2, 0.0, 10.0)
    assert node.router.table.break_route(1, 2, None, 0.0) is not None
    node.hear(request(1, 7), 2)
    route = node.route(1)
    assert route is not None
    assert route.expires == pytest.approx(5.44)


def test_lifetimes_can_be_those_of_ns_2() -> None:
    graph = Graph(3, line(3), my_route_timeout=10.0, rev_route_life=6.0, active_route_timeout=2.0)
    node = graph.stations[2]
    node.hear(request(1, 6), 1)
    route = node.route(1)
    assert route is not None
    assert route.expires == pytest.approx(6.0)
    graph.send(1, 3)
    graph.run(1.0)
    *_, reply = graph.frames(AodvKind.ROUTE_REPLY)[0]
    assert decode_reply(reply.body).lifetime == 10.0


# Hellos (6.9).


def test_a_hello_comes_only_after_an_interval_without_a_broadcast() -> None:
    graph = discovered(3)
    station = graph.stations[2]
    for number in range(60):  # relays a request of 1 each 0.4 s, which is a broadcast
        graph.send(1, 3, number)
        graph.run(0.4)
        station.hear(request(10**6 + number, 10**6 + number), 1)
    graph.run(1.0)
    times = [time for time, sender, to, _ in graph.sent if sender == 2 and to == 0xFFFFFFFF]
    hellos = [time for time, sender, *_ in graph.frames(CommonKind.HELLO) if sender == 2]
    assert hellos
    for hello in hellos:
        before = [time for time in times if time < hello]
        assert not before or hello - before[-1] >= 1.0
    assert not [time for time in hellos if 4.0 < time < 26.0]
    assert decode_hello(graph.frames(CommonKind.HELLO)[0][3].body).lifetime == 2.0


def test_one_lost_hello_breaks_no_link() -> None:
    graph = Graph(2, line(2))
    lost: list[bool] = []
    carried = graph.transmit

    def transmit(sender: Any, to: int, datagram: bytes) -> None:
        hello = datagram[1] == CommonKind.HELLO and sender.node_id == 2
        if hello and not (lost and lost[-1]):
            lost.append(True)
            return
        if hello:
            lost.append(False)
        carried(sender, to, datagram)

    graph.transmit = transmit  # type: ignore[method-assign]
    for number in range(200):  # both are on an active route; data is one-way, and no sign of life
        graph.send(1, 2, number)
        graph.run(0.3)
    assert lost.count(True) > 20
    assert graph.stations[1].counters["links broken"] == 0


# Searches as ns-2 makes them.


def test_a_request_waits_for_as_long_as_the_last_ones_took() -> None:
    graph = Graph(2, (), adaptive_timeout=True, rreq_retries=2)
    graph.send(1, 2)
    graph.run(60.0)
    assert [ttl for _, ttl in rings(graph, 1)] == [1, 3, 5, 7, 35, 35, 35]
    # 2 * ttl * 40 ms, times the requests to all; looked at each half second.
    waits = [0.08, 0.24, 0.4, 0.56, 2.8, 2 * 2.8]
    time = 0.0
    for wait, gap in zip(waits, gaps(graph, 1), strict=True):
        assert time + wait <= time + gap < time + wait + 0.5 + 1e-9
        time += gap
        assert (2 * time) % 1.0 == pytest.approx(0.0, abs=1e-9)


def test_the_time_a_hop_took_is_that_of_the_last_three_searches() -> None:
    graph = discovered(4, adaptive_timeout=True, latency=0.01, ttl_start=7, jitter=0.0)
    graph.run(10.0)
    graph.links.clear()
    since = graph.time
    graph.send(1, 4, 1)
    first, *_ = rings(graph, 1, since)
    graph.run(0.3)  # 2 * 5 hops at 20 ms each, less than the 0.4 s of NODE_TRAVERSAL_TIME
    graph.send(1, 4, 2)  # comes after that, and does not wait for the half second
    assert [ttl for _, ttl in rings(graph, 1, since)] == [5, 7]
    assert rings(graph, 1, since)[1][0] - first[0] == pytest.approx(0.3)


def test_no_request_waits_longer_than_the_limit() -> None:
    graph = Graph(2, (), max_rreq_timeout=3.0)
    graph.send(1, 2)
    graph.run(13.0)
    assert gaps(graph, 1) == pytest.approx([0.24, 0.4, 0.56, 0.72, 2.8, 3.0])


def test_after_a_search_that_failed_frames_wait_for_the_next() -> None:
    graph = Graph(2, (), max_rreq_timeout=5.0, ttl_start=35, rreq_retries=0)
    graph.send(1, 2, 0)
    graph.run(3.0)
    assert graph.stations[1].counters["destination unreachable"] == 1
    graph.connect(1, 2)
    graph.send(1, 2, 1)
    graph.run(4.7)  # until 2.8 + 5 s
    assert len(rings(graph, 1)) == 1
    graph.run(0.3)
    assert len(rings(graph, 1)) == 2
    assert [frame.sequence for frame in graph.stations[2].arrived] == [1]
    assert graph.stations[1].router.status()["searches"] == 0


def test_a_pause_ends_when_a_route_is_there_or_nobody_wants_one() -> None:
    graph = Graph(3, (), max_rreq_timeout=5.0, ttl_start=35, rreq_retries=0)
    for destination in (2, 3):
        graph.send(1, destination, 0)
    graph.run(3.0)
    graph.send(1, 2, 1)
    graph.connect(1, 2)
    graph.send(2, 1, 9)  # brings 1 a route to 2
    graph.run(0.5)
    assert [frame.sequence for frame in graph.stations[2].arrived] == [1]
    graph.run(10.0)
    assert len(rings(graph, 1)) == 2
    assert graph.stations[1].router.status()["searches"] == 0


def test_frames_wait_no_longer_than_they_may() -> None:
    graph = Graph(2, (), buffer_timeout=1.0)
    graph.send(1, 2, 0)
    graph.run(0.6)
    graph.send(1, 2, 1)
    graph.run(0.6)
    graph.connect(1, 2)
    graph.run(3.0)
    assert [frame.sequence for frame in graph.stations[2].arrived] == [1]
    assert graph.stations[1].counters["waited too long"] == 1


def test_a_frame_whose_sending_failed_is_dropped_without_salvage() -> None:
    for salvage in (True, False):
        graph = Graph(4, [*line(3), (1, 4), (4, 3)], link_feedback=True, salvage=salvage)
        graph.links -= {(1, 4), (4, 1)}
        graph.send(1, 3)
        graph.run(1.0)
        graph.cut(1, 2)
        graph.connect(1, 4)
        graph.send(1, 3, 1)
        graph.run(1.0)
        graph.send(1, 3, 2)
        graph.run(1.0)
        arrived = [frame.sequence for frame in graph.stations[3].arrived]
        assert arrived == ([0, 1, 2] if salvage else [0, 2])


def test_all_of_ns_2_together_carries_frames_over_a_break() -> None:
    graph = Graph(7, [*line(5), (3, 6), (6, 7), (7, 4)], **NS2)
    graph.after_event = graph.check
    graph.cut(3, 6)
    for number in range(30):
        graph.send(1, 5, number)
        graph.run(0.5)
        if number == 10:
            graph.cut(3, 4)
            graph.connect(3, 6)
    arrived = {frame.sequence for frame in graph.stations[5].arrived}
    assert arrived == set(range(30)) - {11}  # 3 is as near to 1 as to 5: the frame is dropped
    assert not graph.frames(CommonKind.HELLO)
    assert [ttl for _, ttl in rings(graph, 1)] == [30, 6]


# What waits.


def test_only_the_newest_of_frames_with_one_key_waits() -> None:
    def key(frame: Frame) -> object:
        return None if frame.sequence >= 100 else (frame.destination, frame.sequence % 2)

    graph = Graph(3, (), buffer=3, replaces=key)
    station = graph.stations[1]
    for number in range(20):
        graph.send(1, 2, number)
    graph.send(1, 2, 100)
    assert station.counters["dropped from a full buffer"] == 0
    assert station.counters["replaced by newer ones"] == 18
    graph.connect(1, 2)
    graph.run(2.0)
    assert sorted(frame.sequence for frame in graph.stations[2].arrived) == [18, 19, 100]
