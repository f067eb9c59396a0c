"""AODV over links that are one-way: acknowledged replies and the blacklist (6.8 of RFC 3561)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from nodeapp.routing.aodv_blacklist import Blacklist
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_wire import ACK_BODY, ACKNOWLEDGE, AodvKind, RouteRequest, decode_reply
from nodeapp.wire import Frame, WireError
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.routing.aodv_lab import Graph, line


def around(**parameters: Any) -> Graph:
    """Return a way from 1 to 3 by 2 and 4; 3 hears 1, too, and 1 does not hear 3.

    So the first copy of each request that 3 hears is that of 1, and its reply is lost.
    """
    graph = Graph(4, [(1, 2), (2, 4), (4, 3)], **parameters)
    graph.links.add((1, 3))
    return graph


@pytest.mark.parametrize("how", ["link_feedback", "reply_ack"])
def test_a_link_that_carries_one_way_is_avoided(how: str) -> None:
    found = {}
    for blacklist in (True, False):
        # Otherwise 4, which hears hellos of 3, would answer for it.
        graph = around(**{how: True}, blacklist=blacklist, destination_only=True)
        graph.send(1, 3)
        graph.run(30.0)
        found[blacklist] = bool(graph.stations[3].arrived)
        assert graph.stations[3].counters["blacklisted"] > 0 or not blacklist
    assert found == {True: True, False: False}


def test_a_neighbour_is_on_the_list_for_as_long_as_a_search_may_last() -> None:
    graph = Graph(3, (), link_feedback=True, rreq_retries=2, hello_interval=100.0)
    station = graph.stations[3]

    def ask(number: int, neighbour: int = 1) -> int:
        """Let 3 hear a request; return how many replies it has sent by then."""
        body = RouteRequest(0, number, 1, number).encode()
        station.hear(Frame(AodvKind.ROUTE_REQUEST, 1, 3, ttl=5, body=body), neighbour)
        replies = len(graph.frames(AodvKind.ROUTE_REPLY))
        graph.run(0.01)
        return replies

    assert ask(1) == 1  # is not acknowledged
    assert station.counters["blacklisted"] == 1
    assert station.route(1) is None
    assert ask(2) == 1
    assert station.route(1) is None, "nothing is learned from what it sends"
    assert ask(2, neighbour=2) == 2, "the first copy that counts is another's"
    graph.run(2 * 2.8 - 0.1)  # RREQ_RETRIES * NET_TRAVERSAL_TIME
    assert ask(3) == 2
    graph.run(0.1)
    assert ask(4) == 3
    assert station.counters["requests of blacklisted neighbours"] == 2


def test_replies_are_acknowledged_if_they_ask_for_it() -> None:
    for ask in (True, False):
        graph = Graph(4, line(4), reply_ack=ask)
        graph.send(1, 4)
        graph.run(2.0)
        replies = graph.frames(AodvKind.ROUTE_REPLY)
        assert all(decode_reply(f.body).flags == (ACKNOWLEDGE if ask else 0) for *_, f in replies)
        acks = [(sender, to) for _, sender, to, _ in graph.frames(AodvKind.ROUTE_REPLY_ACK)]
        assert acks == [(to, sender) for _, sender, to, _ in replies] if ask else not acks
        assert len(graph.stations[4].arrived) == 1
        assert not any(station.counters["blacklisted"] for station in graph.stations.values())


def test_a_reply_that_failed_says_nothing_of_the_next_one() -> None:
    network = SimNetwork()
    parameters, counters = AodvParameters(reply_ack=True, link_feedback=True), Counter[str]()
    blacklist = Blacklist(SimHost(network, 1, (0.0, 0.0)), parameters, counters)
    blacklist.expect(2)
    network.run(parameters.next_hop_wait / 4)
    blacklist.failed(2)  # as the link layer tells
    network.run(parameters.next_hop_wait / 4)
    blacklist.expect(2)
    network.run(parameters.next_hop_wait * 0.75)  # that of the first reply would be over
    assert counters["blacklisted"] == 1
    blacklist.acknowledged(2)
    network.run(10.0)
    assert counters["blacklisted"] == 1


def test_an_acknowledgement_says_nothing() -> None:
    graph = Graph(2, line(2))
    node = graph.stations[1]
    node.hear(Frame(AodvKind.ROUTE_REPLY_ACK, 2, 1, body=ACK_BODY), 2)
    with pytest.raises(WireError):
        node.hear(Frame(AodvKind.ROUTE_REPLY_ACK, 2, 1, body=b""), 2)
    assert not graph.sent
