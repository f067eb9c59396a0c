"""AODV: how routes are found, and what others may send (section numbers are RFC 3561's)."""

from __future__ import annotations

import itertools

import pytest

from nodeapp.kinds import CommonKind
from nodeapp.routing.aodv_wire import (
    DESTINATION_ONLY,
    GRATUITOUS,
    UNKNOWN,
    AodvKind,
    Hello,
    RouteReply,
    RouteRequest,
    decode_reply,
    decode_request,
)
from nodeapp.wire import BROADCAST, Frame, WireError
from tests.nodeapp.routing.aodv_lab import Graph, discovered, line, rings

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


def test_a_search_that_fails_backs_off_and_drops_what_waits() -> None:
    graph = Graph(2, ())
    graph.send(1, 2)
    graph.run(60.0)
    assert [ttl for _, ttl in rings(graph, 1)] == [1, 3, 5, 7, 35, 35, 35]
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(rings(graph, 1))]
    assert gaps == pytest.approx([0.24, 0.4, 0.56, 0.72, 2.8, 5.6])
    assert graph.stations[1].counters["destination unreachable"] == 1
    requests = [decode_request(frame.body) for *_, frame in graph.frames(AodvKind.ROUTE_REQUEST)]
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
    *_, frame = graph.frames(AodvKind.ROUTE_REQUEST, before)[0]
    assert not decode_request(frame.body).flags & UNKNOWN


def test_each_node_relays_a_request_once_after_a_jitter() -> None:
    graph = Graph(5, itertools.combinations(range(1, 5), 2), jitter=0.05)
    graph.send(1, 5)
    graph.run(0.6)
    others = [
        (time, sender)
        for time, sender, _, frame in graph.frames(AodvKind.ROUTE_REQUEST)
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
    repliers = {sender for _, sender, _, f in graph.frames(AodvKind.ROUTE_REPLY, since)}
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
        node.hear(Frame(AodvKind.ROUTE_REQUEST, 1, 3, ttl=5, body=request.encode()), 1)
        assert node.counters["replies for others"] == number - 50


def test_a_relayed_request_asks_for_the_newest_number_on_the_way() -> None:
    graph = Graph(3, ())
    node = graph.stations[2]
    node.router.table.learn(3, 70, 4, 1, 0.0, 0.5)  # over 1, which asks: no answer
    request = RouteRequest(UNKNOWN | GRATUITOUS, 1, 0, 9)
    node.hear(Frame(AodvKind.ROUTE_REQUEST, 1, 3, ttl=5, body=request.encode()), 1)
    graph.run(0.1)
    ((_, sender, to, frame),) = graph.frames(AodvKind.ROUTE_REQUEST)
    assert (sender, to, frame.ttl, frame.hops) == (2, BROADCAST, 4, 2)
    assert decode_request(frame.body) == (GRATUITOUS, 1, 70, 9)


def test_the_destination_catches_up_with_the_number_asked_for() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[2]
    for asked, number in ((500, 500), (400, 500)):
        request = RouteRequest(DESTINATION_ONLY, asked, asked, asked)
        node.hear(Frame(AodvKind.ROUTE_REQUEST, 1, 2, ttl=5, body=request.encode()), 1)
        *_, frame = graph.frames(AodvKind.ROUTE_REPLY)[-1]
        assert decode_reply(frame.body) == (2, number, 0, 6.0, 0)


def test_a_better_route_is_sent_on_instead_of_a_worse_reply() -> None:
    graph = Graph(5, ())
    node = graph.stations[2]
    node.router.table.learn(1, 5, 1, 1, 0.0, 6.0)
    node.router.table.learn(4, 8, 2, 3, 0.0, 6.0)
    for sequence in (8, 7):
        reply = RouteReply(4, sequence, 6, 6.0)
        node.hear(Frame(AodvKind.ROUTE_REPLY, 4, 1, ttl=30, hops=7, body=reply.encode()), 5)
        _, _, to, frame = graph.frames(AodvKind.ROUTE_REPLY)[-1]
        assert to == 1
        assert decode_reply(frame.body) == (4, 8, 2, 6.0, 0)
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
        Frame(CommonKind.EVENT, 2, BROADCAST),
        Frame(CommonKind.EVENT, 2, 0),
        Frame(AodvKind.ROUTE_REQUEST, 2, BROADCAST, body=request),
        Frame(AodvKind.ROUTE_REQUEST, 0, 1, body=request),
        Frame(AodvKind.ROUTE_REPLY, 2, BROADCAST, body=reply),
        Frame(CommonKind.HELLO, 7, body=Hello(1, 2.0).encode()),
        Frame(CommonKind.HELLO, 2, body=b"\x80"),
    ):
        with pytest.raises(WireError):
            node.hear(frame, 2)
    with pytest.raises(ValueError, match="to one node"):
        graph.send(1, BROADCAST)


def test_a_node_learns_no_route_to_itself_and_takes_its_own_frames() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[1]
    node.hear(Frame(AodvKind.ROUTE_REPLY, 2, 1, body=RouteReply(1, 99, 1, 6.0).encode()), 2)
    request = RouteRequest(0, 1, 1, 1).encode()
    node.hear(Frame(AodvKind.ROUTE_REQUEST, 1, 2, ttl=3, body=request), 2)
    assert [destination for destination, _ in node.router.table.items()] == [2]
    assert not graph.sent
    graph.send(1, 1)
    assert len(node.arrived) == 1


def test_frames_do_not_travel_endlessly() -> None:
    graph = Graph(8, line(8), net_diameter=5, ttl_threshold=5)
    graph.send(1, 8)
    graph.run(60.0)
    assert not graph.stations[8].arrived
    assert max(ttl for _, ttl in rings(graph, 1)) == 5
    node = graph.stations[4]
    node.router.table.learn(8, 1, 3, 5, graph.time, graph.time + 5)
    node.hear(Frame(CommonKind.EVENT, 1, 8, ttl=0, hops=5), 3)
    assert node.counters["time to live used up"] == 1


def test_status() -> None:
    graph = discovered(4)
    assert graph.stations[1].router.status() == {
        "routes": {"2": [2, 1], "4": [2, 3]},
        "searches": 0,
    }
