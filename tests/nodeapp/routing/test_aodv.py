"""AODV's rules one by one, on small graphs (section numbers are RFC 3561's)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nodeapp.routing import aodv_table
from nodeapp.routing.aodv_table import RouteTable, newer
from nodeapp.routing.aodv_wire import (
    DESTINATION_ONLY,
    GRATUITOUS,
    UNKNOWN,
    Hello,
    RouteReply,
    RouteRequest,
    decode_errors,
    decode_hello,
    decode_reply,
    decode_request,
    encode_errors,
)
from nodeapp.wire import BROADCAST, FLAG_ONE_WAY, Frame, Kind, WireError
from tests.nodeapp.routing.aodv_lab import Graph, line


def rings(graph: Graph, node: int, since: float = 0.0) -> list[tuple[float, int]]:
    """Return when a node sent requests, and their TTLs as an IP header has them."""
    return [
        (time, frame.ttl + 1)
        for time, sender, _, frame in graph.frames(Kind.ROUTE_REQUEST, since)
        if sender == node == frame.originator
    ]


def discovered(count: int = 4, **parameters: Any) -> Graph:
    """Return a line with a route from its first station to its last."""
    graph = Graph(count, line(count), **parameters)
    graph.send(1, count)
    graph.run(3.0)
    assert len(graph.stations[count].arrived) == 1
    return graph


# Discovery (6.3 to 6.7).


def test_a_search_grows_ring_by_ring_until_the_destination_hears_it() -> None:
    graph = Graph(7, line(7))
    graph.send(1, 7)
    graph.run(3.0)
    assert [ttl for _, ttl in rings(graph, 1)] == [1, 3, 5, 7]
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(rings(graph, 1))]
    assert gaps == pytest.approx([0.24, 0.4, 0.56])  # 2 * 40 ms * (ttl + 2)
    (frame,) = graph.stations[7].arrived
    assert (frame.hops, frame.ttl, frame.originator) == (6, 35 - 6, 1)
    forward, back = graph.stations[1].route(7), graph.stations[7].route(1)
    assert forward is not None
    assert back is not None
    assert (forward.next_hop, forward.hops) == (2, 6)
    assert (back.next_hop, back.hops) == (6, 6)
    assert not rings(graph, 1, 2.0)


def test_a_search_in_vain_backs_off_and_drops_what_waits() -> None:
    graph = Graph(2, ())
    graph.send(1, 2)
    graph.run(60.0)
    assert [ttl for _, ttl in rings(graph, 1)] == [1, 3, 5, 7, 35, 35, 35]
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(rings(graph, 1))]
    assert gaps == pytest.approx([0.24, 0.4, 0.56, 0.72, 2.8, 5.6])
    assert graph.stations[1].counters["destination unreachable"] == 1
    requests = [decode_request(frame.body) for *_, frame in graph.frames(Kind.ROUTE_REQUEST)]
    assert len({request.request for request in requests}) == 7
    numbers = [request.originator_sequence for request in requests]
    assert numbers == list(range(numbers[0], numbers[0] + 7))
    assert all(request.flags & UNKNOWN for request in requests)
    graph.connect(1, 2)
    graph.send(1, 2)
    graph.run(1.0)
    assert len(graph.stations[2].arrived) == 1


def test_the_next_search_begins_with_the_last_known_hop_count() -> None:
    graph = discovered(4)
    graph.run(10.0)
    assert graph.stations[1].route(4) is None
    before = graph.time
    graph.send(1, 4)
    assert [ttl for _, ttl in rings(graph, 1, before)] == [3 + 2]
    *_, frame = graph.frames(Kind.ROUTE_REQUEST, before)[0]
    assert not decode_request(frame.body).flags & UNKNOWN


def test_each_node_relays_a_request_once_after_a_jitter() -> None:
    graph = Graph(5, itertools.combinations(range(1, 5), 2), jitter=0.05)
    graph.send(1, 5)
    graph.run(0.6)
    others = [
        (time, sender)
        for time, sender, _, frame in graph.frames(Kind.ROUTE_REQUEST)
        if frame.originator != sender
    ]
    assert sorted(sender for _, sender in others) == [2, 3, 4]  # of the second: the first has TTL 1
    assert all(0.24 < time < 0.24 + 0.05 + 0.01 for time, _ in others)
    assert max(time for time, _ in others) > 0.25


@pytest.mark.parametrize("only", [False, True])
def test_a_node_on_the_way_replies_unless_it_must_not(only: bool) -> None:
    graph = Graph(5, [*line(4), (2, 5)], destination_only=only)
    graph.send(1, 4)
    graph.run(2.0)
    since = graph.time
    graph.send(5, 4)
    graph.run(1.0)
    assert len(graph.stations[4].arrived) == 2
    repliers = {sender for _, sender, _, f in graph.frames(Kind.ROUTE_REPLY, since)}
    assert graph.stations[2].counters["replies for others"] == (0 if only else 1)
    assert (4 in repliers) == only


@pytest.mark.parametrize("gratuitous", [False, True])
def test_a_gratuitous_reply_gives_the_destination_a_route_back(gratuitous: bool) -> None:
    graph = Graph(5, [*line(4), (2, 5)], gratuitous_reply=gratuitous)
    graph.send(1, 4)
    graph.run(2.0)
    graph.send(5, 4)
    graph.run(0.1)
    back = graph.stations[4].route(5)
    assert (back is not None) == gratuitous
    assert back is None or back.hops == 3


def test_a_stale_route_is_no_answer() -> None:
    graph = discovered(3)
    node = graph.stations[2]
    route = node.route(3)
    assert route is not None
    graph.links.clear()
    for number, sequence in ((50, route.sequence + 1), (51, route.sequence)):
        request = RouteRequest(0, number, sequence, 90 + number)
        node.hear(Frame(Kind.ROUTE_REQUEST, 1, 3, ttl=5, body=request.encode()), 1)
        assert node.counters["replies for others"] == number - 50


def test_a_relayed_request_asks_for_the_newest_number_on_the_way() -> None:
    graph = Graph(3, ())
    node = graph.stations[2]
    node.router.table.learn(3, 70, 4, 1, 0.0, 0.5)  # over 1, which asks: no answer
    request = RouteRequest(UNKNOWN | GRATUITOUS, 1, 0, 9)
    node.hear(Frame(Kind.ROUTE_REQUEST, 1, 3, ttl=5, body=request.encode()), 1)
    graph.run(0.1)
    ((_, sender, to, frame),) = graph.frames(Kind.ROUTE_REQUEST)
    assert (sender, to, frame.ttl, frame.hops) == (2, BROADCAST, 4, 2)
    assert decode_request(frame.body) == (GRATUITOUS, 1, 70, 9)


def test_the_destination_catches_up_with_the_number_asked_for() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[2]
    for asked, number in ((500, 500), (400, 500)):
        request = RouteRequest(DESTINATION_ONLY, asked, asked, asked)
        node.hear(Frame(Kind.ROUTE_REQUEST, 1, 2, ttl=5, body=request.encode()), 1)
        *_, frame = graph.frames(Kind.ROUTE_REPLY)[-1]
        assert decode_reply(frame.body) == (2, number, 0, 6.0)


def test_a_better_route_is_sent_on_instead_of_a_worse_reply() -> None:
    graph = Graph(5, ())
    node = graph.stations[2]
    node.router.table.learn(1, 5, 1, 1, 0.0, 6.0)
    node.router.table.learn(4, 8, 2, 3, 0.0, 6.0)
    for sequence in (8, 7):
        reply = RouteReply(4, sequence, 6, 6.0)
        node.hear(Frame(Kind.ROUTE_REPLY, 4, 1, ttl=30, hops=7, body=reply.encode()), 5)
        _, _, to, frame = graph.frames(Kind.ROUTE_REPLY)[-1]
        assert to == 1
        assert decode_reply(frame.body) == (4, 8, 2, 6.0)
    route = node.route(4)
    assert route is not None
    assert route.precursors == {1}


def test_requests_are_limited() -> None:
    graph = Graph(40, (), rreq_ratelimit=5, buffer=100)
    for node in range(2, 41):
        graph.send(1, node)
    graph.run(10.0)
    times = [time for time, _ in rings(graph, 1)]
    assert len(times) > 40
    assert all(
        later - earlier >= 1.0 - 1e-9 for earlier, later in zip(times, times[5:], strict=False)
    )


def test_a_full_buffer_drops_the_oldest() -> None:
    graph = Graph(3, (), buffer=3)
    for number in range(5):
        graph.send(1, 2 + number % 2, number)
    graph.connect(1, 2)
    graph.connect(1, 3)
    graph.run(2.0)
    arrived = {frame.sequence for node in (2, 3) for frame in graph.stations[node].arrived}
    assert arrived == {2, 3, 4}
    assert graph.stations[1].counters["dropped from a full buffer"] == 2


# Breaks (6.9, 6.11).


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
    errors = graph.frames(Kind.ROUTE_ERROR)
    (time, sender, to, error) = errors[0]
    assert (sender, to) == (2, 1)
    assert 1.0 <= time - cut <= 2.3  # ALLOWED_HELLO_LOSS intervals after the last hello
    assert {node for node, _ in decode_errors(error.body)} == {3, 4}
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
    ((time, sender, to, error),) = graph.frames(Kind.ROUTE_ERROR)
    assert (sender, to) == (2, 1)
    assert time - 1.0 < 0.01
    assert {node for node, _ in decode_errors(error.body)} == {3, 4}
    graph.send(1, 4, 2)
    graph.run(1.0)
    # Frame 1 was another node's when it was lost.
    assert [frame.sequence for frame in graph.stations[4].arrived] == [0, 2]
    assert graph.stations[2].counters["frames not acknowledged"] == 1


def test_there_are_no_hellos_where_the_link_layer_tells() -> None:
    graph = discovered(4, link_feedback=True, active_route_timeout=10.0)
    graph.run(30.0)
    assert not graph.frames(Kind.HELLO)
    graph.stations[1].router.send(Frame(Kind.EVENT, 1, 4, hops=0))
    graph.run(8.0)
    assert graph.stations[1].route(4), "nobody is lost by silence"


def test_a_node_sends_its_own_frames_another_way_but_not_for_ever() -> None:
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
    tries = [each for each in graph.frames(Kind.EVENT) if each[1] == 1 and each[3].sequence == 2]
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
    middle.hear(Frame(Kind.ROUTE_ERROR, 2, 3, body=body), 2)  # 5 is not over 2
    assert middle.route(5) is route
    since = graph.time
    middle.hear(Frame(Kind.ROUTE_ERROR, 4, 3, body=body), 4)
    assert middle.route(5) is None
    assert middle.route(1) is None  # over 2, which said so first
    graph.run(0.1)
    told = [
        (sender, to, decode_errors(frame.body))
        for _, sender, to, frame in graph.frames(Kind.ROUTE_ERROR, since)
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
    node.hear(Frame(Kind.ROUTE_ERROR, 2, BROADCAST, body=body), 2)
    ((_, _, to, frame),) = graph.frames(Kind.ROUTE_ERROR)
    assert to == BROADCAST
    assert decode_errors(frame.body) == [(2, 6), (9, 6)]  # nobody uses the route to 8


def test_a_frame_without_a_route_is_answered_with_an_error_at_a_limited_rate() -> None:
    graph = discovered(3, rerr_ratelimit=3)
    graph.stations[2].router.table.break_route(3, 3, None, graph.time)
    since = graph.time
    for _ in range(5):
        graph.stations[2].hear(Frame(Kind.EVENT, 1, 3, ttl=5), 1)
    errors = graph.frames(Kind.ROUTE_ERROR, since)
    assert [(sender, to) for _, sender, to, _ in errors] == [(2, 1)] * 3
    assert len({frame.body for *_, frame in errors}) == 1  # the number grows no further
    assert graph.stations[2].counters["route errors held back"] == 2


def test_only_nodes_on_active_routes_say_hello_and_say_when_they_stop() -> None:
    graph = Graph(5, [*line(3), (4, 5), (3, 4)])
    graph.send(1, 3)
    graph.run(30.0)
    hellos = [(time, sender, f) for time, sender, _, f in graph.frames(Kind.HELLO)]
    assert {sender for _, sender, _ in hellos} == {1, 2, 3}
    for node in (1, 2, 3):
        *said, last = [(t, decode_hello(f.body)) for t, sender, f in hellos if sender == node]
        assert all(hello.lifetime == 2.0 for _, hello in said)
        assert last[1].lifetime == 0.0
        assert last[0] < 9.0
    assert not any(station.counters["links broken"] for station in graph.stations.values())
    times = [time for time, sender, _ in hellos if sender == 2]
    assert all(later - earlier <= 1.0 + 1e-9 for earlier, later in itertools.pairwise(times))


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
    graph.stations[3].hear(Frame(Kind.EVENT, 1, 4, ttl=5), 2)
    graph.run(0.1)
    route = last.route(1)
    assert route is not None
    assert route.expires == pytest.approx(4.0, abs=0.01)
    graph.run(1.0)
    graph.stations[3].hear(Frame(Kind.EVENT, 1, 4, ttl=5), 4)  # not by its next hop to 1
    graph.run(0.1)
    assert [frame.flags for frame in last.arrived] == [0, FLAG_ONE_WAY]
    assert route.expires == pytest.approx(4.0, abs=0.01)


# Sequence numbers and the table (6.1, 6.2).


def test_sequence_numbers_roll_over() -> None:
    assert newer(1, 0)
    assert not newer(0, 0)
    assert newer(0, 2**32 - 1)
    assert not newer(2**32 - 1, 0)
    graph = Graph(3, line(3))
    for station in graph.stations.values():
        station.router.sequence = 2**32 - 2
    for _ in range(4):
        graph.send(1, 3)
        graph.run(8.0)
    assert len(graph.stations[3].arrived) == 4
    assert 0 < graph.stations[1].router.sequence < 10


def test_which_routes_are_taken() -> None:
    table = RouteTable(delete_period=15.0)
    assert table.learn(9, 5, 3, 1, 0.0, 4.0)
    assert not table.learn(9, 4, 1, 2, 0.0, 4.0)  # older
    assert not table.learn(9, 5, 3, 2, 0.0, 4.0)  # as new, and no shorter
    assert table.learn(9, 5, 2, 2, 0.0, 4.0)
    assert table.learn(9, 6, 7, 3, 0.0, 4.0)
    assert table.valid(9, 3.9) is not None
    assert table.valid(9, 4.0) is None
    route = table.known(9, 4.0)
    assert route is not None
    assert (route.sequence, route.hops) == (7, 7)
    assert not table.learn(9, 6, 1, 1, 4.0, 9.0)  # that number's routes may lead here
    assert table.learn(9, 7, 9, 1, 4.0, 9.0)


def test_a_neighbour_has_a_route_of_one_hop_with_the_number_it_had() -> None:
    table = RouteTable(delete_period=15.0)
    table.learn(9, 5, 3, 1, 0.0, 4.0)
    table.learn_neighbour(9, None, 5.0, 8.0)
    route = table.valid(9, 5.0)
    assert route is not None
    assert (route.sequence, route.hops, route.next_hop) == (5, 1, 9)
    table.learn_neighbour(9, 4, 5.0, 8.0)
    assert route.sequence == 5
    table.learn_neighbour(9, 6, 5.0, 8.0)
    assert route.sequence == 6


def test_an_error_takes_no_number_back() -> None:
    # A late error, from before the route that its sender has now.
    table = RouteTable(delete_period=15.0)
    table.learn(9, 5, 3, 1, 0.0, 4.0)
    broken = table.break_route(9, 1, 3, 1.0)
    assert broken is not None
    assert broken[0].sequence == 6
    table.learn(9, 6, 3, 1, 1.0, 4.0)
    broken = table.break_route(9, 1, 9, 2.0)
    assert broken is not None
    assert broken[0].sequence == 9


def test_what_expired_long_ago_is_forgotten_where_the_table_is_crowded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = RouteTable(delete_period=15.0)
    for destination in range(8):
        table.learn(destination, 5, 3, 1, 0.0, 4.0 + destination)
    table.expire(1000.0)
    assert len(table) == 8
    monkeypatch.setattr(aodv_table, "CROWDED", 7)
    table.expire(18.9)
    assert len(table) == 8
    table.expire(19.0)
    assert [destination for destination, _ in table.items()] == list(range(1, 8))


@pytest.mark.parametrize(("left", "replies"), [(0.2, 1), (0.1, 0)])
def test_a_node_does_not_reply_with_a_route_that_is_about_to_expire(
    left: float, replies: int
) -> None:
    graph = Graph(4, [(1, 2), (2, 3), (4, 2)])
    graph.send(1, 3)
    graph.run(1.0)
    route = graph.stations[2].route(3)
    assert route is not None
    route.expires = graph.time + left
    graph.send(4, 3)
    graph.run(1.0)
    assert graph.stations[2].counters["replies for others"] == replies
    assert len(graph.stations[3].arrived) == 2


# What others may send.


def test_nonsense_is_refused() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[1]
    request = RouteRequest(0, 1, 1, 1).encode()
    reply = RouteReply(2, 1, 1, 1.0).encode()
    for frame in (
        Frame(Kind.EVENT, 2, BROADCAST),
        Frame(Kind.EVENT, 2, 0),
        Frame(Kind.ROUTE_REQUEST, 2, BROADCAST, body=request),
        Frame(Kind.ROUTE_REQUEST, 0, 1, body=request),
        Frame(Kind.ROUTE_REPLY, 2, BROADCAST, body=reply),
        Frame(Kind.HELLO, 7, body=Hello(1, 2.0).encode()),
        Frame(Kind.HELLO, 2, body=b"\x80"),
    ):
        with pytest.raises(WireError):
            node.hear(frame, 2)
    with pytest.raises(ValueError, match="to one node"):
        graph.send(1, BROADCAST)


def test_a_node_learns_no_route_to_itself_and_takes_its_own_frames() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[1]
    node.hear(Frame(Kind.ROUTE_REPLY, 2, 1, body=RouteReply(1, 99, 1, 6.0).encode()), 2)
    request = RouteRequest(0, 1, 1, 1).encode()
    node.hear(Frame(Kind.ROUTE_REQUEST, 1, 2, ttl=3, body=request), 2)
    assert [destination for destination, _ in node.router.table.items()] == [2]
    assert not graph.sent
    graph.send(1, 1)
    assert len(node.arrived) == 1


def test_frames_do_not_travel_for_ever() -> None:
    graph = Graph(8, line(8), net_diameter=5, ttl_threshold=5)
    graph.send(1, 8)
    graph.run(60.0)
    assert not graph.stations[8].arrived
    assert max(ttl for _, ttl in rings(graph, 1)) == 5
    node = graph.stations[4]
    node.router.table.learn(8, 1, 3, 5, graph.time, graph.time + 5)
    node.hear(Frame(Kind.EVENT, 1, 8, ttl=0, hops=5), 3)
    assert node.counters["time to live used up"] == 1


def test_status() -> None:
    graph = discovered(4)
    assert graph.stations[1].router.status() == {
        "routes": {"2": [2, 1], "4": [2, 3]},
        "searches": 0,
    }
