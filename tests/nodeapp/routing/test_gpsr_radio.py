"""GPSR with what its published form has from the radio (docs/papers.md#gpsr, sections 2.1, 2.5)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.host import Position
from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError
from nodeapp.pubsub import registry
from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.messages import TopicKind
from nodeapp.routing.gpsr import Gpsr
from nodeapp.wire import (
    BROADCAST,
    FLAG_REPLICA,
    Frame,
    GeoRoute,
    WireError,
    decode,
    decode_geo_route,
    split_sender,
)
from tests.nodeapp.network import (
    AS_PUBLISHED,
    SimHost,
    SimNetwork,
    connected_network,
    create_service,
)

SCHEME = "broker-gpsr"


def router(node: SimHost) -> Gpsr:
    assert isinstance(node.service, DecisionPoint)
    assert isinstance(node.service.router, Gpsr)
    return node.service.router


def neighbours(node: SimHost) -> set[int]:
    return set(router(node).neighbours.positions())


def send(network: SimNetwork, source: int, to: int, sequence: int) -> None:
    """Send an event from node to node, to where that is now."""
    at = network.nodes[to].position()
    body = b"\x83\xa1etopicgtraffic\xf6\x40"
    frame = Frame(CommonKind.EVENT, source, to, source, sequence, hops=0, body=body)
    router(network.nodes[source]).send(frame, (at.x, at.y))


def reached(network: SimNetwork, to: int) -> set[tuple[int, int]]:
    return set(network.nodes[to].notified())


def data_sent(network: SimNetwork, since: float = 0.0) -> list[tuple[int, int, Frame]]:
    found = [(at, to, decode(data)) for time, at, to, data in network.sent if time >= since]
    return [(at, to, frame) for at, to, frame in found if frame.kind == CommonKind.EVENT]


@pytest.mark.slow
@given(
    st.integers(0, 10_000),
    st.sampled_from(
        [
            AS_PUBLISHED,
            {"link_feedback": True},
            {"piggyback": True},
            AS_PUBLISHED | {"replanarize": "positions", "prediction": True},
        ]
    ),
)
@settings(max_examples=8)
def test_everything_arrives_in_a_static_connected_network(
    seed: int, parameters: dict[str, Any]
) -> None:
    network = connected_network(24, SCHEME, seed=seed, **parameters)
    for node in network.nodes.values():
        node.subscribe("traffic")
    network.run(6)
    pairs = random.Random(seed).sample([(a, b) for a in range(1, 25) for b in range(1, 25)], 20)
    pairs = [(a, b) for a, b in pairs if a != b]
    for sequence, (source, to) in enumerate(pairs, start=1):
        send(network, source, to, sequence)
        network.run(0.1)
    network.run(1)
    for sequence, (source, to) in enumerate(pairs, start=1):
        assert (source, sequence) in reached(network, to)
    assert sum(node.service.counters["malformed"] for node in network.nodes.values()) == 0


def taken_away(seed: int, **parameters: Any) -> tuple[SimNetwork, int, int] | None:
    """Return a network that lost a node on the way from one node to another, and those two.

    Everyone had the same beacons from it as from others.  None if they need it.
    """
    network = connected_network(30, SCHEME, seed=seed, **parameters)
    rng = random.Random(seed)
    source, to = rng.sample(range(1, 31), 2)
    network.nodes[to].subscribe("traffic")
    network.run(6)
    send(network, source, to, 1)
    network.run(0.5)
    assert reached(network, to) == {(source, 1)}
    way = [at for at, _, frame in data_sent(network) if frame.sequence == 1 and at != source]
    if not way:
        return None
    gone = network.nodes.pop(rng.choice(way))
    connected = network.connected()
    network.nodes[gone.node_id] = gone
    gone.failed = True
    return (network, source, to) if connected else None


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_a_node_that_is_taken_away_is_done_without(seed: int) -> None:
    case = taken_away(seed, **AS_PUBLISHED)
    if case is None:
        return
    network, source, to = case
    send(network, source, to, 2)
    network.run(0.5)
    told = [node for node in network.nodes.values() if count(node, "frames not acknowledged")]
    for node in told:
        assert all(not network.nodes[other].failed for other in neighbours(node))
    network.run(5)  # all have noticed, and none has more than its beacons say
    send(network, source, to, 3)
    network.run(0.5)
    assert (source, 3) in reached(network, to)


def test_the_next_frame_goes_around_a_node_that_is_taken_away_if_feedback_tells() -> None:
    arrived = {}
    for feedback in (False, True):
        parameters = AS_PUBLISHED | {"link_feedback": feedback, "withdraw_queue": feedback}
        made = (taken_away(seed, **parameters) for seed in itertools.count())
        cases = list(itertools.islice(filter(None, made), 12))
        for network, source, to in cases:
            send(network, source, to, 2)  # no beacon has been missed yet
            network.run(0.5)
        arrived[feedback] = sum(
            (source, 2) in reached(network, to) for network, source, to in cases
        )
    # A walk through planar graphs that still hold the node may end early.
    assert arrived[True] >= 0.9 * len(cases)
    assert arrived[False] <= 0.1 * len(cases)


def count(node: SimHost, counter: str) -> int:
    return node.service.counters[counter]


def diamond(**parameters: object) -> SimNetwork:
    """1 reaches 4 over 2 (nearer, preferred) or 3."""
    network = SimNetwork()
    for at in ((0.0, 0.0), (200.0, 10.0), (180.0, -60.0), (390.0, 0.0)):
        network.add(at, SCHEME, parameters)
    network.nodes[4].subscribe("traffic")
    network.run(4)
    return network


def test_a_frame_that_is_not_acknowledged_takes_another_way_at_once() -> None:
    for feedback in (False, True):
        network = diamond(link_feedback=feedback)
        network.nodes[2].failed = True
        start = network.time
        send(network, 1, 4, 1)
        network.run(0.1)
        ways = [(at, to, frame.hops) for at, to, frame in data_sent(network, start)]
        if feedback:
            assert ways == [(1, 2, 1), (1, 3, 1), (3, 4, 2)]
            assert reached(network, 4) == {(1, 1)}
            assert neighbours(network.nodes[1]) == {3}
        else:
            assert ways == [(1, 2, 1)]
            assert neighbours(network.nodes[1]) == {2, 3}


def test_attempts_end() -> None:
    network = diamond(link_feedback=True, ttl=2)
    for number in (2, 3):
        network.nodes[number].failed = True
    send(network, 1, 4, 1)
    network.run(1)
    assert len(data_sent(network)) == 2
    assert router(network.nodes[1])._counters["destination unreachable"] == 1


def test_a_walk_goes_on_from_the_edge_that_it_came_by() -> None:
    # A void between 1 and 7: the walk 1, 2, 3, 4 has a second way from 3, over 5.
    network = SimNetwork()
    positions = [(0, 0), (-40, 220), (100, 400), (320, 350), (310, 430), (480, 280), (560, 60)]
    for x, y in positions:
        network.add((float(x), float(y)), SCHEME, {"link_feedback": True})
    network.nodes[7].subscribe("traffic")
    network.run(4)
    send(network, 1, 7, 1)
    network.run(0.5)
    assert [at for at, _, _ in data_sent(network)] == [1, 2, 3, 4, 6]
    network.nodes[4].failed = True
    start = network.time
    send(network, 1, 7, 2)
    network.run(0.5)
    ways = [(at, to) for at, to, _ in data_sent(network, start)]
    assert ways == [(1, 2), (2, 3), (3, 4), (3, 5), (5, 6), (6, 7)]
    assert reached(network, 7) == {(1, 1), (1, 2)}
    (before, after) = [frame for at, _, frame in data_sent(network, start) if at == 3]
    assert after.hops == before.hops
    assert after.ttl == before.ttl - 1
    assert decode_geo_route(after.route).entered == decode_geo_route(before.route).entered


def test_a_frame_that_entered_its_walk_here_is_greedy_again() -> None:
    network = diamond(link_feedback=True)
    one = router(network.nodes[1])
    geo = GeoRoute(390, 0, (0.0, 0.0), (0.0, 0.0), (1, 2), 1)
    frame = Frame(CommonKind.EVENT, 1, 4, 1, 5, ttl=9, hops=3, route=geo.encode(), body=b"\x80")
    start = network.time
    one._unacknowledged(2, frame.encode())
    ((_, to, again),) = data_sent(network, start)
    assert (to, again.hops, again.ttl) == (3, 3, 8)
    assert decode_geo_route(again.route).entered is None


def test_data_carry_their_senders_position_and_are_beacons_to_who_gets_them() -> None:
    network = diamond(piggyback=True, hello_interval=100.0, hello_timeout=1)
    assert not neighbours(network.nodes[3])
    at = router(network.nodes[1]).neighbours.position()
    router(network.nodes[1]).neighbours.learn(3, 180.0, -60.0, 0.0, 0.0)
    router(network.nodes[3]).neighbours.learn(4, 390.0, 0.0, 0.0, 0.0)
    send(network, 1, 4, 1)
    network.run(0.1)
    for sender, _, frame in data_sent(network):
        _, whereabouts = split_sender(frame.route)
        assert whereabouts is not None
        expected = router(network.nodes[sender]).neighbours.position()
        assert (whereabouts.x, whereabouts.y) == expected
    assert router(network.nodes[3]).neighbours.positions()[1] == at
    assert neighbours(network.nodes[4]) == {3}
    assert not neighbours(network.nodes[2])  # hears no frames for others


def test_data_without_piggybacking_are_as_they_were() -> None:
    network = diamond()
    send(network, 1, 4, 1)
    network.run(0.1)
    assert all(len(frame.route) == 17 for _, _, frame in data_sent(network))


def test_all_in_range_take_positions_from_data_and_data_put_off_beacons() -> None:
    beacons = {}
    for promiscuous in (False, True):
        network = diamond(piggyback=True, promiscuous=promiscuous)
        router(network.nodes[2]).neighbours.lost(1)
        heard = 1 in neighbours(network.nodes[2])
        assert not heard
        start = network.time
        router(network.nodes[1]).neighbours.lost(2)
        send(network, 1, 4, 1)  # over 3
        network.run(0.01)
        assert (1 in neighbours(network.nodes[2])) == promiscuous
        for sequence in range(2, 100):
            send(network, 1, 4, sequence)
            network.run(0.2)
        beacons[promiscuous] = [
            time
            for time, sender, _, data in network.sent
            if time > start and sender == 1 and data[1] == CommonKind.HELLO
        ]
        assert neighbours(network.nodes[2]) >= {1, 3, 4}
    assert not beacons[True]
    assert len(beacons[False]) > 12


def test_a_beacon_comes_an_interval_after_the_last_data() -> None:
    network = diamond(piggyback=True, promiscuous=True)
    for sequence in range(1, 30):
        send(network, 1, 4, sequence)
        network.run(0.1)
    network.run(20)
    own = [(time, data[1]) for time, at, _, data in network.sent if at == 1]
    gaps = [
        (later - earlier, kind)
        for (earlier, _), (later, kind) in itertools.pairwise(own)
        if later > earlier
    ]
    assert max(gap for gap, _ in gaps) <= 1.5
    assert min(gap for gap, kind in gaps if kind == CommonKind.HELLO) >= 0.5
    assert sum(kind == CommonKind.HELLO for _, kind in gaps) >= 6


def test_a_replica_says_where_its_sender_is() -> None:
    network = SimNetwork()
    middle = registry.PROTOCOLS[SCHEME].service.hashing(network.environment)("traffic").location  # type: ignore[attr-defined]
    for dx in (0.0, 60.0, 120.0):
        network.add((middle[0] + dx, middle[1]), SCHEME, {"piggyback": True})
    network.nodes[1].subscribe("traffic")
    network.run(5)
    replicas = [f for f in network.frames(TopicKind.SUBSCRIPTION) if f.flags & FLAG_REPLICA]
    assert replicas
    assert all(f.destination == BROADCAST and len(f.route) == 25 for f in replicas)
    router(network.nodes[2]).neighbours.lost(1)
    network.nodes[2].hear(replicas[0].encode(), 1)
    assert 1 in neighbours(network.nodes[2])
    broken = replicas[0]._replace(route=replicas[0].route[:-1])
    network.nodes[2].hear(broken.encode(), 1)
    assert network.nodes[2].service.counters["malformed"] == 1


def test_what_is_overheard_and_malformed_is_counted() -> None:
    network = diamond(piggyback=True, promiscuous=True)
    node = network.nodes[2]
    node.overhear_now(Frame(CommonKind.EVENT, 1, 4, route=b"\x81abc").encode(), 1)
    assert node.service.counters["malformed"] == 1
    with pytest.raises(WireError):
        router(node).overheard(Frame(CommonKind.EVENT, 1, 4, route=b"\x81abc"), 1)


def test_when_the_planar_graph_is_renewed() -> None:
    kept = {}
    for when in ("positions", "neighbours"):
        network = SimNetwork()
        network.add((0.0, 0.0), SCHEME, {"replanarize": when, "prediction": False})
        network.add((200.0, 0.0), SCHEME)
        # Moves between the two, so that the edge from 1 to 2 leaves the Gabriel graph.
        network.add(lambda t: Position(100.0, 150.0 - 30.0 * min(t, 4.0)), SCHEME)
        network.run(1.6)
        one = router(network.nodes[1])
        own = one.neighbours.position()
        assert set(one._planar_neighbours(own)) == {2, 3}
        network.run(5)
        kept[when] = set(one._planar_neighbours(own))
        one.neighbours.lost(2)
        assert set(one._planar_neighbours(own)) == {3}
        one.neighbours.learn(2, 200.0, 0.0, 0.0, 0.0)
        assert set(one._planar_neighbours(own)) == {3}
    assert kept == {"positions": {3}, "neighbours": {2, 3}}


class Deaf(SimHost):
    """A host whose radio tells of nothing."""

    def watch_links(self, failed: object) -> bool:
        return False

    def overhear(self, heard: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link_feedback": True}, "link_feedback: this link layer does not tell"),
        ({"piggyback": True, "promiscuous": True}, "promiscuous: radios here get no frames"),
        ({"withdraw_queue": True}, "withdraw_queue: needs link_feedback"),
        ({"promiscuous": True}, "promiscuous: needs piggyback"),
    ],
)
def test_what_the_radio_cannot_do_is_refused(parameters: dict[str, Any], message: str) -> None:
    network = SimNetwork()
    host = Deaf(network, 1, (0.0, 0.0))
    with pytest.raises(ParameterError, match=message):
        create_service(SCHEME, host, parameters, network.environment)


def test_frames_that_wait_for_a_lost_neighbour_take_another_way_too() -> None:
    network = diamond(link_feedback=True, withdraw_queue=True)
    one = network.nodes[1]
    waiting = [
        Frame(CommonKind.EVENT, 1, 4, 1, n, ttl=9, hops=1, route=GeoRoute(390, 0).encode()).encode()
        for n in (1, 2, 3)
    ]
    one.withdraw = lambda to: waiting[1:] if to == 2 else []  # type: ignore[method-assign]
    start = network.time
    router(one)._unacknowledged(2, waiting[0])
    assert [(to, f.sequence) for _, to, f in data_sent(network, start)] == [(3, 1), (3, 2), (3, 3)]
    assert one.service.counters["frames withdrawn"] == 2


def test_an_edge_along_which_a_frame_was_not_acknowledged_may_be_taken_again() -> None:
    network = diamond(link_feedback=True, edges_once=True)
    one, start = network.nodes[1], network.time
    router(one).neighbours.learn(9, -50.0, 0.0, 0.0, 0.0)
    # On a walk around a void far to the left, which 9 has sent here.
    route = GeoRoute(-500.0, 0.0, (-400.0, 0.0), (-400.0, 0.0), (9, 8), 9).encode()
    one.hear(Frame(CommonKind.EVENT, 9, 77, 9, 1, ttl=20, route=route).encode(), 9)
    for _ in range(3):
        _, to, frame = data_sent(network, start)[-1]
        router(one)._unacknowledged(to, frame.encode())
        at = network.nodes[to].position()
        router(one).neighbours.learn(to, at.x, at.y, 0.0, 0.0)  # it is heard again
    assert [to for _, to, _ in data_sent(network, start)] == [3, 2, 3, 2]
