"""ns-2's AODV, clause by clause: each setting does what RFC 3561's default does not."""

from __future__ import annotations

from typing import Any

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.pubsub.registry import typed
from nodeapp.routing.aodv_ns2 import NEVER_BROKEN, NS2
from nodeapp.routing.aodv_wire import (
    UNKNOWN,
    AodvKind,
    RouteReply,
    RouteRequest,
    decode_errors,
    encode_errors,
)
from nodeapp.wire import BROADCAST, Frame
from tests.nodeapp.routing.aodv_lab import AodvStation, Graph, discovered, line, rings

EITHER = pytest.mark.parametrize("ns2", [False, True])


def learn(station: AodvStation, to: int, over: int, hops: int, lasts: float = 60.0) -> None:
    assert station.router.table.learn(to, 5, hops, over, 0.0, lasts)


def event(originator: int, destination: int, **changes: Any) -> Frame:
    return Frame(CommonKind.EVENT, originator, destination, originator, 7, ttl=9)._replace(
        **changes
    )


def test_the_profile_has_all_clauses_from_which_single_settings_depart() -> None:
    default, profile = typed("broker-aodv", {}), typed("broker-aodv", {"aodv": "ns2"})
    assert {name: getattr(profile, name) for name in NS2} == NS2
    assert all(getattr(default, name) != value for name, value in NS2.items())
    single = typed("broker-aodv", {"aodv": "ns2", "ttl_start": "5"})
    assert (single.ttl_start, single.drop_loops) == (5, True)


@EITHER
def test_frames_queued_for_a_lost_neighbour_are_dropped(ns2: bool) -> None:
    graph = Graph(3, (), link_feedback=True, salvage=False, withdraw_queue=ns2)
    one = graph.stations[1]
    for over in (2, 3):
        learn(one, over + 5, over, 2)
        one.queued[over] = [event(1, over + 5).encode()]
    graph.send(1, 7)
    graph.run(0.1)
    assert bool(one.queued[2]) != ns2
    one.hear(Frame(AodvKind.ROUTE_ERROR, 3, BROADCAST, body=next(encode_errors([(8, 6)]))), 3)
    assert bool(one.queued[3]) != ns2


@EITHER
def test_a_lost_control_frame_breaks_no_route(ns2: bool) -> None:
    graph = Graph(3, (), link_feedback=True, control_breaks=not ns2)
    one = graph.stations[1]
    learn(one, 9, 2, 2)
    one.send(2, Frame(AodvKind.ROUTE_REPLY, 1, 3, ttl=5).encode())
    graph.run(0.1)
    assert (one.route(9) is not None) == ns2


@EITHER
def test_errors_are_broadcast_and_of_a_broken_link_whoever_uses_it(ns2: bool) -> None:
    graph = Graph(
        3, (), link_feedback=True, salvage=False, errors_to="all" if ns2 else "precursors"
    )
    one = graph.stations[1]
    for destination in (8, 9):
        learn(one, destination, 2, 2)
    graph.send(1, 9)
    graph.run(0.1)
    told = [sorted(n for n, _ in decode_errors(f.body).unreachable) for f in errors(graph)]
    assert told == ([[8, 9]] if ns2 else [])
    one.hear(event(3, 9), 3)
    *_, last = graph.frames(AodvKind.ROUTE_ERROR)
    assert last[2] == (BROADCAST if ns2 else 3)
    # What others report is passed on if somebody uses it, after a random time.
    learn(one, 7, 2, 2)
    route = one.route(7)
    assert route is not None
    route.precursors.add(3)
    since = graph.time
    one.hear(Frame(AodvKind.ROUTE_ERROR, 2, BROADCAST, body=next(encode_errors([(7, 6)]))), 2)
    graph.run(0.02)
    ((time, _, to, _),) = graph.frames(AodvKind.ROUTE_ERROR, since)[-1:]
    assert (to == BROADCAST, time > since) == (ns2, ns2)


def errors(graph: Graph) -> list[Frame]:
    return [frame for *_, frame in graph.frames(AodvKind.ROUTE_ERROR)]


@pytest.mark.parametrize(
    ("kind", "hops", "ttls"),
    [("rfc", 4, [6, 7, 30]), ("ns2", 4, [6, 8, 30]), ("ns2", 7, [30]), ("rfc", 7, [9, 30])],
)
def test_rings_of_a_search(kind: str, hops: int, ttls: list[int]) -> None:
    graph = Graph(1, (), rings=kind, net_diameter=30, rreq_retries=0)
    one = graph.stations[1]
    learn(one, 9, 2, hops)
    one.router.table.break_route(9, 2, None, 0.0)
    graph.send(1, 9)
    graph.run(60.0)
    assert [ttl for _, ttl in rings(graph, 1)][: len(ttls)] == ttls


def test_a_ring_begins_where_the_last_search_ended() -> None:
    graph = Graph(2, (), rings="ns2", net_diameter=30, rreq_retries=0, max_rreq_timeout=1.0)
    for wait in (60.0, 0.0):
        graph.send(1, 2)
        graph.run(wait)
    first, *_, last = [ttl for _, ttl in rings(graph, 1)]
    assert (first, last) == (1, 30)


REPAIR: dict[str, Any] = {"link_feedback": True, "local_repair": True, "salvage": False}


@EITHER
def test_a_repair_is_of_one_route_which_stays_on_offer(ns2: bool) -> None:
    graph = Graph(4, [(2, 3)], **REPAIR, repair_one=ns2)
    two = graph.stations[2]
    graph.run(30.0)  # what is not repaired ends in as long again
    for destination in (8, 9):
        learn(two, destination, 4, 2)
        route = two.route(destination)
        assert route is not None
        assert route.last_hops == NEVER_BROKEN
        route.precursors.add(3)
    two.hear(event(1, 9, ttl=29), 3)  # has come six hops of 35, and has two to go
    graph.run(20.0)  # the link to 4 is broken, and nobody answers
    for destination in (8, 9):
        assert (two.route(destination) is not None) == ns2
    assert bool(errors(graph)) != ns2
    if ns2:
        route = two.route(9)
        assert route is not None
        assert route.in_repair
        since = graph.time
        two.hear(event(1, 9, sequence=8), 3)
        graph.run(0.5)
        assert not [frame for *_, frame in graph.frames(CommonKind.EVENT, since)]  # it waits
        newer = two.router.table.learn(9, 9, 1, 3, graph.time, graph.time + 60.0)
        assert newer
        assert not route.in_repair


def test_a_frame_that_has_farther_to_go_is_not_repaired() -> None:
    graph = Graph(4, [(2, 3)], **REPAIR, repair_one=True, errors_to="all")
    two = graph.stations[2]
    for destination in (8, 9):
        learn(two, destination, 4, 7)
    two.hear(event(1, 9, ttl=29), 3)
    graph.run(1.0)
    assert two.route(8) is two.route(9) is None
    assert len(errors(graph)) == 1


@EITHER
def test_what_waits_for_a_route_is_replaced_or_not_and_sent_at_once_or_not(ns2: bool) -> None:
    pace = 0.5 if ns2 else 0.0
    replaces: dict[str, Any] = {"buffer_replaces": not ns2, "buffer_pacing": pace}
    graph = Graph(3, [(2, 3)], replaces=lambda frame: frame.destination, **replaces)
    for number in range(3):
        graph.send(1, 3, number)
    graph.connect(1, 2)
    graph.run(10.0)
    sent = [
        (time, frame.sequence)
        for time, node, _, frame in graph.frames(CommonKind.EVENT)
        if node == 1
    ]
    assert [number for _, number in sent] == ([0, 1, 2] if ns2 else [2])
    assert sent[-1][0] - sent[0][0] == pytest.approx(2 * pace)


@EITHER
def test_each_reply_of_a_destination_is_newer(ns2: bool) -> None:
    graph = Graph(2, line(2), reply_raises=ns2)
    before = graph.stations[2].router.sequence
    for number in (1, 2):
        graph.stations[2].hear(asked(number, 2), 1)
    assert graph.stations[2].router.sequence == before + (2 if ns2 else 0)


def asked(number: int, target: int, sequence: int = 0) -> Frame:
    body = RouteRequest(UNKNOWN, number, sequence, number).encode()
    return Frame(AodvKind.ROUTE_REQUEST, 1, target, ttl=5, body=body)


@EITHER
def test_replies_with_a_route_over_who_asked(ns2: bool) -> None:
    graph = Graph(2, line(2), reply_checks=not ns2)
    learn(graph.stations[2], 9, 1, 3)
    graph.stations[2].hear(asked(1, 9), 1)
    assert len(graph.frames(AodvKind.ROUTE_REPLY)) == ns2


@EITHER
def test_a_reply_that_is_no_better_is_dropped(ns2: bool) -> None:
    graph = Graph(3, line(3), better_replies=not ns2)
    two = graph.stations[2]
    learn(two, 9, 3, 2)
    learn(two, 1, 1, 1)
    reply = RouteReply(9, 5, 4, 5.0).encode()
    two.hear(Frame(AodvKind.ROUTE_REPLY, 9, 1, ttl=5, body=reply), 3)
    assert len(graph.frames(AodvKind.ROUTE_REPLY)) == (0 if ns2 else 1)


@EITHER
def test_a_request_leaves_no_route_to_who_relayed_it(ns2: bool) -> None:
    graph = Graph(3, line(3), neighbour_routes=not ns2)
    graph.stations[3].hear(asked(1, 9)._replace(hops=2), 2)
    assert (graph.stations[3].route(2) is None) == ns2
    assert graph.stations[3].route(1) is not None


@EITHER
def test_data_keep_only_the_route_that_they_take(ns2: bool) -> None:
    graph = discovered(3, data_refreshes=not ns2, data_precursors=not ns2)
    two = graph.stations[2]
    for _ in range(5):
        graph.run(1.0)
        two.hear(event(1, 3), 1)
    ahead, back = two.route(3), two.route(1)
    assert ahead is not None
    assert (back is None) == ns2


@EITHER
def test_who_sends_data_over_a_route_hears_of_its_end(ns2: bool) -> None:
    graph = Graph(4, line(4), data_precursors=not ns2)
    learn(graph.stations[2], 9, 3, 2)
    graph.stations[2].hear(event(1, 9), 1)
    route = graph.stations[2].route(9)
    assert route is not None
    assert route.precursors == (set() if ns2 else {1})


@EITHER
def test_own_frames_that_come_back_are_dropped(ns2: bool) -> None:
    graph = Graph(3, line(3), drop_loops=ns2)
    learn(graph.stations[1], 9, 2, 2)
    graph.stations[1].hear(event(1, 9, hops=3), 2)
    assert len(graph.frames(CommonKind.EVENT)) == (not ns2)
