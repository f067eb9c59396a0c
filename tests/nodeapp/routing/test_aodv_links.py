"""AODV: hellos, broken links and errors (sections 6.9 and 6.11 of RFC 3561)."""

from __future__ import annotations

import itertools

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.routing.aodv_wire import AodvKind, decode_errors, decode_hello, encode_errors
from nodeapp.wire import BROADCAST, FLAG_ONE_WAY, Frame
from tests.nodeapp.routing.aodv_lab import Graph, discovered, line, rings


def test_a_break_is_told_to_the_source_which_searches_again() -> None:
    graph = Graph(5, [*line(4), (1, 5), (5, 3)])
    graph.links -= {(1, 5), (5, 1)}
    graph.send(1, 4)
    graph.run(1.0)
    for number in range(1, 25):
        graph.send(1, 4, number)
        graph.run(0.25)
        if number == 4:
            graph.cut(2, 3)
            graph.connect(1, 5)
            cut = graph.time
    errors = graph.frames(AodvKind.ROUTE_ERROR)
    (time, sender, to, error) = errors[0]
    assert (sender, to) == (2, 1)
    assert 1.0 <= time - cut <= 2.3  # ALLOWED_HELLO_LOSS intervals after the last hello
    assert {node for node, _ in decode_errors(error.body).unreachable} == {3, 4}
    route = graph.stations[1].route(4)
    assert route is not None
    assert route.next_hop == 5
    arrived = {frame.sequence for frame in graph.stations[4].arrived}
    assert {0, 1, 2, 3, 4, 20, 21, 22, 23, 24} <= arrived
    assert graph.stations[2].counters["links broken"] == 1


def test_a_frame_that_is_not_acknowledged_breaks_the_link_at_once() -> None:
    graph = Graph(5, [*line(4), (1, 5), (5, 3)], link_feedback=True)
    graph.links -= {(1, 5), (5, 1)}
    graph.send(1, 4)
    graph.run(1.0)
    graph.cut(2, 3)
    graph.connect(1, 5)
    graph.send(1, 4, 1)
    graph.run(0.1)
    ((time, sender, to, error),) = graph.frames(AodvKind.ROUTE_ERROR)
    assert (sender, to) == (2, 1)
    assert time - 1.0 < 0.01
    assert {node for node, _ in decode_errors(error.body).unreachable} == {3, 4}
    graph.send(1, 4, 2)
    graph.run(1.0)
    # Frame 1 was another node's when it was lost.
    assert [frame.sequence for frame in graph.stations[4].arrived] == [0, 2]
    assert graph.stations[2].counters["frames not acknowledged"] == 1


def test_there_are_no_hellos_if_the_link_layer_tells() -> None:
    graph = discovered(4, link_feedback=True, active_route_timeout=10.0)
    graph.run(30.0)
    assert not graph.frames(CommonKind.HELLO)
    graph.stations[1].router.send(Frame(CommonKind.EVENT, 1, 4, hops=0))
    graph.run(8.0)
    assert graph.stations[1].route(4), "nobody is lost by silence"


def test_a_node_sends_its_own_frames_another_way_but_not_endlessly() -> None:
    graph = Graph(4, [*line(3), (1, 4), (4, 3)], link_feedback=True, net_diameter=9)
    graph.links -= {(1, 4), (4, 1)}
    graph.send(1, 3)
    graph.run(1.0)
    graph.cut(1, 2)
    graph.connect(1, 4)
    graph.send(1, 3, 1)
    graph.run(1.0)
    assert [(frame.sequence, frame.hops) for frame in graph.stations[3].arrived] == [(0, 2), (1, 2)]
    graph.links -= {(1, 4)}  # it hears the others, and none of them hears it
    graph.send(1, 3, 2)
    graph.run(60.0)
    tries = [
        each for each in graph.frames(CommonKind.EVENT) if each[1] == 1 and each[3].sequence == 2
    ]
    assert 1 <= len(tries) <= 9
    assert not graph.stations[1].router.status()["searches"]


def test_an_error_is_for_routes_over_its_sender_and_goes_on_to_precursors() -> None:
    graph = discovered(5)
    middle = graph.stations[3]
    route = middle.route(5)
    assert route is not None
    assert route.precursors == {2}
    number = route.sequence
    body = next(encode_errors([(5, number + 3), (1, 99)]))
    middle.hear(Frame(AodvKind.ROUTE_ERROR, 2, 3, body=body), 2)  # 5 is not over 2
    assert middle.route(5) is route
    since = graph.time
    middle.hear(Frame(AodvKind.ROUTE_ERROR, 4, 3, body=body), 4)
    assert middle.route(5) is None
    assert middle.route(1) is None  # over 2, which said so first
    graph.run(0.1)
    told = [
        (sender, to, decode_errors(frame.body).unreachable)
        for _, sender, to, frame in graph.frames(AodvKind.ROUTE_ERROR, since)
    ]
    assert told[-2:] == [(3, 2, [(5, number + 3)]), (2, 1, [(5, number + 3)])]
    assert graph.stations[1].route(5) is None


def test_an_error_to_several_precursors_is_broadcast() -> None:
    graph = Graph(4, ())
    node = graph.stations[1]
    for destination, precursors in ((2, {3, 4}), (9, {3}), (8, set[int]())):
        node.router.table.learn(destination, 5, 2, 2, 0.0, 5.0)
        route = node.route(destination)
        assert route is not None
        route.precursors |= precursors
    body = next(encode_errors([(2, 6), (9, 0), (8, 6)]))
    node.hear(Frame(AodvKind.ROUTE_ERROR, 2, BROADCAST, body=body), 2)
    ((_, _, to, frame),) = graph.frames(AodvKind.ROUTE_ERROR)
    assert to == BROADCAST
    assert decode_errors(frame.body).unreachable == [(2, 6), (9, 6)]  # nobody uses the route to 8


def test_a_frame_without_a_route_is_answered_with_an_error_at_a_limited_rate() -> None:
    graph = discovered(3, rerr_ratelimit=3)
    graph.stations[2].router.table.break_route(3, 3, None, graph.time)
    since = graph.time
    for _ in range(5):
        graph.stations[2].hear(Frame(CommonKind.EVENT, 1, 3, ttl=5), 1)
    errors = graph.frames(AodvKind.ROUTE_ERROR, since)
    assert [(sender, to) for _, sender, to, _ in errors] == [(2, 1)] * 3
    assert len({frame.body for *_, frame in errors}) == 1  # the number grows no further
    assert graph.stations[2].counters["route errors held back"] == 2


@pytest.mark.parametrize("repaired", [False, True])
def test_an_error_that_was_held_back_is_sent_later_if_it_is_still_true(repaired: bool) -> None:
    graph = Graph(4, [(1, 2), (1, 3)], rerr_ratelimit=1)
    table = graph.stations[1].router.table
    for destination in (7, 8, 9):
        table.learn(destination, 5, 2, 4, 0.0, 60.0)
        route = graph.stations[1].route(destination)
        assert route is not None
        route.precursors |= {2, 3} if destination == 9 else {2}
        body = next(encode_errors([(destination, 6)]))
        graph.stations[1].hear(Frame(AodvKind.ROUTE_ERROR, 4, BROADCAST, body=body), 4)
    if repaired:
        table.learn(8, 7, 2, 3, 0.0, 60.0)
    graph.run(0.9)
    assert len(graph.frames(AodvKind.ROUTE_ERROR)) == 1
    graph.run(1.0)
    (_, _, _, first), (time, _, to, second) = graph.frames(AodvKind.ROUTE_ERROR)
    assert decode_errors(first.body).unreachable == [(7, 6)]
    assert decode_errors(second.body).unreachable == ([(9, 6)] if repaired else [(8, 6), (9, 6)])
    assert time == pytest.approx(1.0)
    assert to == BROADCAST


def test_only_nodes_on_active_routes_say_hello_and_say_when_they_stop() -> None:
    graph = Graph(5, [*line(3), (4, 5), (3, 4)])
    graph.send(1, 3)
    graph.run(30.0)
    hellos = [(time, sender, f) for time, sender, _, f in graph.frames(CommonKind.HELLO)]
    assert {sender for _, sender, _ in hellos} == {1, 2, 3}
    for node in (1, 2, 3):
        *said, last = [(t, decode_hello(f.body)) for t, sender, f in hellos if sender == node]
        assert all(hello.lifetime == 2.0 for _, hello in said)
        assert last[1].lifetime == 0.0
        assert last[0] < 9.0
    assert not any(station.counters["links broken"] for station in graph.stations.values())
    times = [time for time, sender, _ in hellos if sender == 2]
    assert all(
        1.0 <= later - earlier <= 1.05 + 1e-9 for earlier, later in itertools.pairwise(times)
    )


def test_a_next_hop_that_was_never_heard_is_lost_too() -> None:
    graph = Graph(2, ())
    node = graph.stations[1]
    node.router.table.learn(2, 5, 1, 2, 0.0, 60.0)
    for _ in range(10):
        graph.send(1, 2)
        graph.run(0.25)
    assert node.route(2) is None
    assert node.counters["searches"] == 1


def test_routes_last_for_as_long_as_they_are_used() -> None:
    graph = discovered(4)
    for _ in range(20):
        graph.run(2.0)
        graph.send(1, 4)
    graph.run(0.1)
    assert len(graph.stations[4].arrived) == 21
    assert len(rings(graph, 1)) == 2
    assert graph.stations[4].route(1) is not None  # used by frames the other way
    graph.run(3.0)
    assert graph.stations[2].route(4) is None


def test_frames_that_come_another_way_keep_no_route_back_alive() -> None:
    graph = Graph(4, [*line(4)])
    last = graph.stations[4]
    for station in (graph.stations[3], last):
        station.router.table.learn(1, 5, 5 - station.node_id, station.node_id - 1, 0.0, 3.0)
    graph.stations[3].router.table.learn(4, 5, 1, 4, 0.0, 9.0)
    graph.run(1.0)
    graph.stations[3].hear(Frame(CommonKind.EVENT, 1, 4, ttl=5), 2)
    graph.run(0.1)
    route = last.route(1)
    assert route is not None
    assert route.expires == pytest.approx(4.0, abs=0.01)
    graph.run(1.0)
    graph.stations[3].hear(Frame(CommonKind.EVENT, 1, 4, ttl=5), 4)  # not by its next hop to 1
    graph.run(0.1)
    assert [frame.flags for frame in last.arrived] == [0, FLAG_ONE_WAY]
    assert route.expires == pytest.approx(4.0, abs=0.01)
