"""AODV's route table and sequence numbers (sections 6.1 and 6.2 of RFC 3561)."""

from __future__ import annotations

from nodeapp.routing.aodv_table import RouteTable, newer
from tests.nodeapp.routing.aodv_lab import Graph, line


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


def test_what_expired_long_ago_is_forgotten_if_the_table_is_crowded() -> None:
    roomy, table = RouteTable(delete_period=15.0), RouteTable(delete_period=15.0, crowded=7)
    for destination in range(8):
        for each in (roomy, table):
            each.learn(destination, 5, 3, 1, 0.0, 4.0 + destination)
    roomy.expire(1000.0)
    assert len(roomy) == 8
    table.expire(18.9)
    assert len(table) == 8
    table.expire(19.0)
    assert [destination for destination, _ in table.items()] == list(range(1, 8))
