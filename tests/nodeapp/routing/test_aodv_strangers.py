"""What a stranger without the key makes up about AODV's routes does not outlive its frames."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.kinds import CommonKind
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_table import FORGOTTEN, LEAP, MAX_AHEAD, REACH, RouteTable, ahead, raised
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import Frame
from tests.nodeapp.routing.aodv_lab import Graph, line

NODES = 4
STRANGER = 99
AHEAD = (
    1,
    5,
    1000,
    LEAP - 1,
    LEAP,
    LEAP + 1,
    3 * LEAP,
    REACH,
    REACH + 1,
    2**28,
    MAX_AHEAD,
    MAX_AHEAD + 1,
    2**31 - 1,
    2**31,
)


def request(victim: int, sequence: int, *, id_: int = 2**31, target: int = 98) -> Frame:
    flags = aodv_wire.UNKNOWN
    body = aodv_wire.RouteRequest(flags, id_, 0, sequence % 2**32).encode()
    return Frame(AodvKind.ROUTE_REQUEST, victim, target, ttl=35, body=body)


def reply(victim: int, sequence: int, *, to: int = 1) -> Frame:
    body = aodv_wire.RouteReply(victim, sequence % 2**32, 1, 6.0).encode()
    return Frame(AodvKind.ROUTE_REPLY, STRANGER, to, ttl=34, body=body)


def error(victim: int, sequence: int) -> Frame:
    (body,) = aodv_wire.encode_errors([(victim, sequence % 2**32)], 0)
    return Frame(AodvKind.ROUTE_ERROR, STRANGER, body=body)


def hello(victim: int, sequence: int) -> Frame:
    return Frame(
        CommonKind.HELLO, STRANGER, body=aodv_wire.Hello(sequence % 2**32, 3.0).encode()
    )._replace(originator=victim)


def arrived(graph: Graph, seconds: float = 8.0) -> int:
    """Send a frame from every station to every other; return how many arrive."""
    before = sum(len(each.arrived) for each in graph.stations.values())
    for one, other in itertools.permutations(graph.stations, 2):
        graph.send(one, other)
        graph.run(seconds / 12)
    graph.run(seconds)
    return sum(len(each.arrived) for each in graph.stations.values()) - before


def network(**parameters: Any) -> Graph:
    """Return a line of stations whose stranger's frames go nowhere."""
    graph = Graph(NODES, line(NODES), **parameters)
    carried = graph.transmit

    def transmit(sender: Any, to: int, datagram: bytes) -> None:
        if to != STRANGER:
            carried(sender, to, datagram)

    graph.transmit = transmit  # type: ignore[method-assign]
    return graph


@pytest.mark.parametrize("make", [request, reply])
@pytest.mark.parametrize("by", AHEAD)
def test_one_forged_frame_cuts_nobody_off_for_good(make: Any, by: int) -> None:
    graph = network()
    assert arrived(graph) == 12
    for victim, witness in ((1, 3), (4, 2), (3, 1)):
        own = graph.stations[victim].router.sequence
        graph.stations[witness].hear(make(victim, own + by), STRANGER)
        graph.run(0.1)
    arrived(graph)
    graph.run(20.0)
    arrived(graph)
    assert arrived(graph) == 12


FORGERIES = st.lists(
    st.tuples(
        st.sampled_from([request, reply, error, hello]),
        st.integers(1, NODES),
        st.integers(1, NODES),
        st.sampled_from([*AHEAD, *(-by for by in AHEAD)]),
        st.sampled_from([STRANGER, *range(1, NODES + 1)]),
        st.sampled_from([0.0, 0.1, 4.0, 20.0]),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(FORGERIES, st.booleans())
@settings(max_examples=150, deadline=None)
def test_all_arrives_a_minute_after_whatever_was_forged(
    forgeries: list[tuple[Any, int, int, int, int, float, bool]], began_before: bool
) -> None:
    graph = network()
    if began_before:
        assert arrived(graph) == 12
    for number, (make, victim, witness, by, name, wait, alone) in enumerate(forgeries):
        sender = victim if make is hello else name
        if witness in (victim, sender):
            continue
        forged = make(victim, graph.stations[victim].router.sequence + by)
        if make is request:
            forged = request(victim, graph.stations[victim].router.sequence + by, id_=number + 9)
        if alone:
            forged = forged._replace(ttl=0)
        graph.stations[witness].hear(forged, sender)
        graph.run(wait)
    arrived(graph)
    graph.run(20.0)
    arrived(graph)
    assert arrived(graph) == 12


def test_a_node_goes_above_what_others_say_that_its_number_is() -> None:
    graph = network()
    router = graph.stations[1].router
    own = router.sequence
    graph.stations[1].hear(request(1, own + 1), 2)  # others have it of a broken route
    assert router.sequence == own
    graph.stations[1].hear(request(1, own + 700, id_=2), 2)
    assert router.sequence == own + 700
    graph.stations[1].hear(reply(1, own + 900, to=2), 2)
    assert router.sequence == own + 900
    graph.stations[1].hear(reply(1, own + 900 + REACH + 2, to=2), 2)  # others do not believe it
    assert router.sequence == own + 900
    assert raised(2**32 - 1, 5) == 5
    assert ahead(5, 2**32 - 1) == 6


def test_numbers_of_two_counts_are_not_compared() -> None:
    table = RouteTable(delete_period=15.0)
    table.learn(9, 100, 3, 1, 0.0, 4.0)
    assert table.learn(9, 100 + 2 * LEAP, 3, 2, 1.0, 4.0)  # it has started again, or a stranger
    assert table.learn(9, 101, 3, 1, 2.0, 4.0)  # it has not
    assert not table.learn(9, 100, 3, 2, 2.0, 4.0)
    assert not table.learn(9, 101 + MAX_AHEAD + 1, 3, 2, 2.0, 4.0)
    assert table.learn(9, 101 + MAX_AHEAD + 1, 3, 2, 5.0, 9.0)  # the old route is not valid
    table.learn_neighbour(9, 103, 6.0, 9.0)
    route = table.valid(9, 6.0)
    assert route is not None
    assert route.sequence == 103


def test_an_invalid_route_that_is_newer_than_all_requests_of_its_node_is_forgotten() -> None:
    table = RouteTable(delete_period=15.0)
    table.learn(9, 700, 3, 1, 0.0, 4.0)
    assert not table.learn(9, 100, 3, 2, 1.0, 9.0, own=True)  # the route is valid
    assert not table.learn(9, 101, 3, 2, 5.0, 9.0, own=True)
    assert not table.learn(9, 102, 3, 2, 19.9, 25.0, own=True)
    assert not table.learn(9, 103, 3, 2, 20.1, 25.0)  # what others have of it is no sign
    assert table.learn(9, 103, 3, 2, 20.1, 25.0, own=True)
    assert not table.learn(9, 102, 3, 2, 26.0, 30.0, own=True)  # from the beginning


def test_invalid_routes_age() -> None:
    table = RouteTable(delete_period=15.0)
    table.learn(9, 5, 3, 1, 0.0, 4.0)
    for now in (10.0, 1000.0, 3.0 + FORGOTTEN):
        table.expire(now)
        assert len(table) == 1
    table.expire(20.0 + FORGOTTEN)
    table.expire(20.0 + FORGOTTEN)
    assert len(table) == 0
