"""AODV's local repair (section 6.12 of RFC 3561)."""

from __future__ import annotations

from typing import Any

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.routing.aodv_wire import (
    NO_DELETE,
    AodvKind,
    decode_errors,
    decode_request,
    encode_errors,
)
from nodeapp.wire import BROADCAST, Frame
from tests.nodeapp.routing.aodv_lab import Graph, line, rings


def broken(**parameters: Any) -> Graph:
    """Return a line of five with a way around 3-4 by 6 and 7, from when 3-4 has just broken.

    Stations 1 to 5 had sent a frame from 1 to 5 on.
    """
    graph = Graph(7, [*line(5), (3, 6), (6, 7), (7, 4)], local_repair=True, **parameters)
    graph.links -= {(3, 6), (6, 3)}
    graph.after_event = graph.check
    graph.send(1, 5, 0)
    graph.run(2.0)
    assert len(graph.stations[5].arrived) == 1
    graph.cut(3, 4)
    graph.connect(3, 6)
    return graph


def arrived(graph: Graph, node: int = 5) -> list[int]:
    return [frame.sequence for frame in graph.stations[node].arrived]


def errors(graph: Graph, since: float) -> list[tuple[int, int, int, list[int]]]:
    """Return sender, receiver, flags and destinations of all errors."""
    told = []
    for _, sender, to, frame in graph.frames(AodvKind.ROUTE_ERROR, since):
        said = decode_errors(frame.body)
        told.append((sender, to, said.flags, sorted(node for node, _ in said.unreachable)))
    return told


def test_a_node_on_the_way_repairs_a_route_and_loses_no_frame() -> None:
    graph = broken(link_feedback=True)
    before = graph.stations[3].route(5)
    assert before is not None
    number, since = before.sequence, graph.time
    graph.send(1, 5, 1)
    graph.run(0.002)
    graph.send(1, 5, 2)  # waits with the first
    graph.run(1.0)
    assert sorted(arrived(graph)) == [0, 1, 2]
    ((_, ttl),) = rings(graph, 3, since)
    assert ttl == 2 + 2  # hops of the route, LOCAL_ADD_TTL
    assert not rings(graph, 1, since)
    request = decode_request(graph.frames(AodvKind.ROUTE_REQUEST, since)[0][3].body)
    assert request.destination_sequence == number + 1
    assert graph.stations[3].counters["repaired"] == 1
    # Four hops by 6 and 7 instead of two: precursors are told so, and keep their routes.
    assert errors(graph, since) == [(3, 2, NO_DELETE, [5]), (2, 1, NO_DELETE, [5])]
    for node in (1, 2):
        route = graph.stations[node].route(5)
        assert route is not None
        assert route.next_hop == node + 1


def test_without_the_option_the_frame_is_lost_and_the_originator_searches() -> None:
    graph = broken(link_feedback=True)
    plain = Graph(7, graph.links, link_feedback=True)
    plain.connect(3, 4)
    plain.cut(3, 6)
    plain.send(1, 5, 0)
    plain.run(2.0)
    plain.cut(3, 4)
    plain.connect(3, 6)
    since = plain.time
    plain.send(1, 5, 1)
    plain.run(0.1)
    plain.send(1, 5, 2)
    plain.run(2.0)
    assert arrived(plain) == [0, 2]
    assert errors(plain, since)[0][:3] == (3, 2, 0)
    assert rings(plain, 1, since)
    assert not rings(plain, 3, since)


def test_a_route_as_long_as_before_is_repaired_in_silence() -> None:
    graph = broken(link_feedback=True)
    graph.connect(6, 5)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(1.0)
    assert arrived(graph) == [0, 1]
    assert not errors(graph, since)


@pytest.mark.parametrize("own", [False, True])
def test_a_node_is_unreachable_if_a_search_has_failed_and_not_if_a_repair_has(own: bool) -> None:
    graph = broken(link_feedback=True)
    graph.cut(3, 6)
    station = graph.stations[3]
    graph.send(1, 5, 1)
    graph.run(0.1)
    if own:
        graph.send(3, 5, 1)
    graph.run(0.9)
    assert station.counters["repairs failed"] == 1
    assert station.unreachable == []
    graph.run(60.0)
    assert station.unreachable == ([5] if own else [])
    assert station.counters["searches failed"] == own


def test_a_repair_that_fails_is_told_as_the_break_would_have_been() -> None:
    graph = broken(link_feedback=True)
    graph.cut(3, 6)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(0.2)
    assert not errors(graph, since), "the repair is still under way"
    graph.run(0.5)  # RING_TRAVERSAL_TIME of 4 hops is 0.48 s
    assert errors(graph, since) == [(3, 2, 0, [5]), (2, 1, 0, [5])]
    assert graph.stations[1].route(5) is None
    assert graph.stations[3].counters["repairs failed"] == 1
    assert graph.stations[3].counters["destination unreachable"] == 1
    assert not graph.stations[3].router.status()["searches"]
    graph.send(2, 5, 2)
    graph.run(0.01)
    graph.stations[3].hear(
        Frame(CommonKind.EVENT, 1, 5, ttl=30), 2
    )  # late, and nobody waits any more
    assert graph.stations[3].counters["no route"] == 1


def test_a_repair_goes_on_for_a_frame_of_the_nodes_own() -> None:
    graph = broken(link_feedback=True)
    graph.cut(3, 6)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(0.1)
    graph.send(3, 5, 2)
    graph.run(1.0)
    assert errors(graph, since)[0] == (3, 2, 0, [5]), "others are told when the repair has failed"
    graph.connect(3, 6)
    graph.run(5.0)
    assert arrived(graph) == [0, 2]


def test_a_search_that_began_as_a_repair_ends_like_any_other() -> None:
    graph = broken(link_feedback=True)
    graph.cut(3, 6)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(0.1)
    graph.send(3, 5, 2)
    graph.run(40.0)
    station = graph.stations[3]
    assert [ttl for _, ttl in rings(graph, 3, since)] == [4, 6, 7, 35, 35, 35]
    assert station.counters["repairs failed"] == station.counters["searches failed"] == 1
    assert station.router.status()["searches"] == 0


@pytest.mark.parametrize(("limit", "repairs"), [(1, 0), (2, 1)])
def test_what_is_far_away_is_not_repaired(limit: int, repairs: int) -> None:
    graph = broken(link_feedback=True, max_repair_ttl=limit)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(1.0)
    assert graph.stations[3].counters["repairs"] == repairs
    assert (errors(graph, since)[0][2] == NO_DELETE) == bool(repairs)
    assert arrived(graph) == ([0, 1] if repairs else [0])


def test_a_break_noticed_by_silence_is_repaired_for_the_next_frame() -> None:
    graph = broken()
    since = graph.time
    for number in range(1, 25):
        graph.send(1, 5, number)
        graph.run(0.25)
    lost = set(range(25)) - set(arrived(graph))
    assert lost
    assert max(lost) < 12  # what the silent link swallowed
    assert [told[:3] for told in errors(graph, since) if 5 in told[3]] == [
        (3, 2, NO_DELETE),
        (2, 1, NO_DELETE),
    ]
    assert not rings(graph, 1, since)


def test_other_routes_over_a_broken_link_are_repaired_when_a_frame_comes_for_them() -> None:
    graph = Graph(6, [*line(4), (4, 5), (3, 6)], local_repair=True, link_feedback=True)
    graph.cut(3, 6)
    for destination in (4, 5):
        graph.send(1, destination)
        graph.run(1.0)
    graph.cut(3, 4)
    graph.connect(3, 6)
    graph.connect(6, 4)
    since = graph.time
    graph.send(1, 5, 1)
    graph.run(0.1)
    assert {frame.destination for *_, frame in graph.frames(AodvKind.ROUTE_REQUEST, since)} == {5}
    graph.send(1, 4, 2)
    graph.run(0.5)
    assert arrived(graph, 4) == [0, 2]
    assert arrived(graph) == [0, 1]
    assert not any(flags == 0 for _, _, flags, _ in errors(graph, since))


@pytest.mark.parametrize(("wait", "repairs"), [(2.9, 1), (3.0, 0)])
def test_what_would_have_expired_by_now_is_not_repaired(wait: float, repairs: int) -> None:
    graph = Graph(5, (), local_repair=True, link_feedback=True)
    node = graph.stations[3]
    node.router.table.learn(5, 8, 2, 4, 0.0, 3.0)
    route = node.route(5)
    assert route is not None
    route.precursors.add(2)
    assert not node.router.table.break_link(4, 0.0, repairable_hops=2)
    graph.run(wait)
    node.hear(Frame(CommonKind.EVENT, 1, 5, ttl=30), 2)
    assert node.counters["repairs"] == repairs
    assert node.counters["no route"] == 1 - repairs


def test_a_longer_way_is_told_to_precursors_alone_and_only_by_the_next_hop() -> None:
    graph = Graph(5, ())
    node = graph.stations[1]
    for destination, precursors in ((2, {3, 4}), (9, {3}), (8, set[int]())):
        node.router.table.learn(destination, 5, 2, 2, 0.0, 5.0)
        route = node.route(destination)
        assert route is not None
        route.precursors |= precursors
    body = next(encode_errors([(2, 6), (9, 7), (8, 6), (7, 1)], NO_DELETE))
    node.hear(Frame(AodvKind.ROUTE_ERROR, 5, BROADCAST, body=body), 5)
    assert not graph.sent
    node.hear(Frame(AodvKind.ROUTE_ERROR, 2, BROADCAST, body=body), 2)
    ((_, _, to, frame),) = graph.frames(AodvKind.ROUTE_ERROR)
    assert to == BROADCAST
    assert decode_errors(frame.body) == (NO_DELETE, [(2, 6), (9, 7)])
    assert all(node.route(destination) is not None for destination in (2, 9, 8))
