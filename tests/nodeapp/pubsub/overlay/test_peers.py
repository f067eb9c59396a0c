"""Peers on an ideal wired network: joining, rings, failures, what is refused."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from nodeapp import wire
from nodeapp.client_port import ClientTable
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.overlay import messages
from nodeapp.pubsub.overlay.identifiers import identifier
from nodeapp.pubsub.overlay.messages import Codec, Described, OverlayKind, OverlayRules
from nodeapp.pubsub.overlay.peer import SemanticOverlay
from nodeapp.pubsub.overlay.tables import Peer, with_shared
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import Frame, WireError
from tests.nodeapp.network import SimHost, SimNetwork, create_service

STOCKS = "ABCDE"


def overlay_of(
    count: int, protocol: str = "semantic-overlay", *, wired: bool = True, **parameters: Any
) -> SimNetwork:
    network = SimNetwork(seed=3)
    network.environment = dataclasses.replace(network.environment, wired=wired, nodes=count)
    for node in range(count):
        network.add((50.0 * (node % 4), 0.0), protocol, {"settle": 0.05, **parameters})
    return network


def service(host: SimHost) -> SemanticOverlay:
    assert isinstance(host.service, SemanticOverlay)
    return host.service


def subscribe_all(network: SimNetwork, seed: int = 1) -> dict[int, tuple[str, int, int]]:
    rng, wanted = random.Random(seed), {}
    for node, host in network.nodes.items():
        stock, low = rng.choice(STOCKS), rng.randrange(0, 800)
        wanted[node] = (stock, low, low + 200)
        assert host.subscribe(f"stock={stock}", f"price>={low}", f"price<={low + 200}") is None
        network.run(0.3)
    return wanted


def expected(wanted: dict[int, tuple[str, int, int]], stock: str, price: int) -> set[int]:
    return {
        node for node, (of, low, high) in wanted.items() if of == stock and low <= price <= high
    }


def got(network: SimNetwork, publisher: int, sequence: int) -> set[int]:
    return {
        node for node, host in network.nodes.items() if host.notified()[publisher, sequence] == 1
    }


@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [
        ("semantic-overlay", {"hashes": 1}),
        ("semantic-overlay", {"cover": "cells", "discovery": "static", "unmatched": "flood"}),
        ("semantic-overlay", {"hashes": 1, "discovery": "static", "messages": "split"}),
        ("mirinae", {}),
    ],
)
def test_events_reach_all_who_want_them(protocol: str, parameters: dict[str, Any]) -> None:
    network = overlay_of(24, protocol, **parameters)
    wanted = subscribe_all(network)
    network.run(15.0)
    for publisher in range(1, 25):
        stock, price = STOCKS[publisher % 5], 37 * publisher
        assert network.nodes[publisher].publish(f"stock={stock}", f"price={price}") is None
    network.run(5.0)
    for publisher in range(1, 25):
        want = expected(wanted, STOCKS[publisher % 5], 37 * publisher)
        assert got(network, publisher, 1) == want
    assert all(host.notified().total() == len(host.notified()) for host in network.nodes.values())


def test_an_overlay_on_an_ad_hoc_network_is_the_same() -> None:
    network = overlay_of(8, wired=False, hashes=1, discovery="static")
    network.environment = dataclasses.replace(network.environment, radio_range=60.0)
    wanted = subscribe_all(network)
    network.run(20.0)
    assert network.nodes[4].publish("stock=A", "price=500") is None
    network.run(3.0)
    assert got(network, 4, 1) == expected(wanted, "A", 500)
    assert network.frames(AodvKind.ROUTE_REQUEST)


def test_peers_of_equal_interests_are_a_ring_and_the_next_takes_over() -> None:
    network = overlay_of(6, heartbeat_interval=1.0, heartbeat_timeout=3.5)
    for node in (1, 2, 3):
        assert network.nodes[node].subscribe("stock=B", "price<100") is None
        network.run(0.5)
    for node in (4, 5, 6):
        assert network.nodes[node].subscribe("stock=B", f"price<{100 * node}") is None
        network.run(0.5)
    network.run(5.0)
    rings = [service(network.nodes[node]).membership.around for node in (1, 2, 3)]
    assert all(set(around.ring) == {1, 2, 3} for around in rings)
    assert [around.is_primary for around in rings] == [True, False, False]
    assert not rings[1].links()
    assert network.nodes[6].publish("stock=B", "price=10") is None
    network.run(1.0)
    assert got(network, 6, 1) == {1, 2, 3, 4, 5, 6}
    network.nodes[1].failed = True
    network.run(12.0)
    assert [around.is_primary for around in rings[1:]] == [True, False]
    assert network.nodes[6].publish("stock=B", "price=10") is None
    network.run(1.0)
    assert got(network, 6, 2) == {2, 3, 4, 5, 6}


class Jittery(SimNetwork):
    """Datagrams overtake each other."""

    def transmit(self, sender: SimHost, to: int, datagram: bytes) -> None:
        """Send a datagram that arrives after 5 to 25 ms."""
        assert len(self.sent) < 20_000, "a storm"
        self.sent.append((self.time, sender.node_id, to, datagram))
        receiver = self.nodes.get(to)
        if receiver is not None and receiver is not sender and not sender.failed:
            self.schedule(self._rng.uniform(0.005, 0.025), receiver.hear, datagram, sender.node_id)


def jittery(count: int, seed: int, discovery: str) -> Jittery:
    network = Jittery(seed=seed)
    network.environment = dataclasses.replace(network.environment, wired=True, nodes=count)
    for _ in range(count):
        join(network, discovery)
    return network


def join(network: SimNetwork, discovery: str) -> SimHost:
    return network.add((0.0, 0.0), "semantic-overlay", {"settle": 0.05, "discovery": discovery})


def restart(network: SimNetwork, node: int, discovery: str, **more: Any) -> SimHost:
    host = network.nodes[node] = SimHost(network, node, (0.0, 0.0))
    parameters = {"settle": 0.05, "discovery": discovery, **more}
    host.service = create_service("semantic-overlay", host, parameters, network.environment)
    host.clients = ClientTable(host, host.service, host.to_client, dict)
    host.service.start()
    return host


def ring(host: SimHost) -> dict[int, int]:
    return service(host).membership.around.ring


@pytest.mark.parametrize("discovery", ["join", "static"])
@pytest.mark.parametrize(("count", "gone"), [(4, (3, 4)), (5, (4, 5)), (6, (4, 5, 6))])
def test_members_of_a_ring_that_restart_are_members_again(
    discovery: str, count: int, gone: tuple[int, ...]
) -> None:
    network = jittery(count, 3, discovery)
    for host in network.nodes.values():
        assert host.subscribe("stock=B", "price<100") is None
        network.run(0.5)
    network.run(5.0)
    for node in gone:
        network.nodes[node].failed = True
    network.run(5.0)
    for node in gone:
        assert restart(network, node, discovery).subscribe("stock=B", "price<100") is None
    network.sent.clear()
    network.run(5.0)
    rings = [ring(host) for host in network.nodes.values()]
    assert all(each == rings[0] for each in rings)
    assert set(rings[0]) == set(network.nodes)
    assert len(network.frames(OverlayKind.RING)) < 5 * count**2


@pytest.mark.parametrize("discovery", ["join", "static"])
@pytest.mark.parametrize("seed", range(20))
def test_peers_that_change_their_interests_change_their_ring(discovery: str, seed: int) -> None:
    network, rng = jittery(9, seed, discovery), random.Random(seed)
    wanted: dict[int, str] = {}

    def change(node: int) -> None:
        host = network.nodes[node]
        if node in wanted:
            assert host.unsubscribe() is None
        wanted[node] = rng.choice("BC")
        assert host.subscribe(f"stock={wanted[node]}", "price<100") is None

    for node in range(2, 9):
        network.schedule(0.3 * node, change, node)
    for _ in range(6):  # together, while lists of members are under way
        network.schedule(6.0 + rng.uniform(0.0, 0.2), change, rng.randrange(2, 9))
    network.run(20.0)
    for node, stock in wanted.items():
        assert set(ring(network.nodes[node])) == {
            other for other, its in wanted.items() if its == stock
        }
    for number, stock in enumerate("BC", start=1):
        assert network.nodes[9].publish(f"stock={stock}", "price=5") is None
        network.run(2.0)
        assert got(network, 9, number) == {node for node, its in wanted.items() if its == stock}


@pytest.mark.parametrize("discovery", ["join", "static"])
def test_the_first_event_of_a_peer_waits_until_it_has_links(discovery: str) -> None:
    network = overlay_of(8, discovery=discovery)
    for node in (2, 3, 4, 5):
        assert network.nodes[node].subscribe("stock=C", f"price<{100 * node}") is None
        network.run(0.5)
    network.run(5.0)
    assert network.nodes[8].publish("stock=C", "price=5") is None  # it has no interests
    assert network.nodes[7].subscribe("stock=A", "price<100") is None
    assert network.nodes[7].publish("stock=C", "price=5") is None
    network.run(4.0)
    for publisher in (7, 8):
        assert got(network, publisher, 1) == {2, 3, 4, 5}


def test_a_farewell_that_comes_late_ends_nothing_new() -> None:
    network = overlay_of(3)
    for node in (1, 2):
        assert network.nodes[node].subscribe("stock=B", "price<100") is None
        network.run(1.0)
    mine = service(network.nodes[1]).membership.around
    joined = mine.ring[2]
    (late,) = mine.codec.leave(joined - 1)
    for body, left in ((late, {1, 2}), (mine.codec.leave(joined)[0], {1})):
        network.nodes[1].hear(Frame(OverlayKind.LEAVE, 2, 1, ttl=1, body=body).encode(), 2)
        assert set(mine.ring) == left
    described = service(network.nodes[2]).membership.around.me
    assert described is not None
    old = mine.codec.announcement(described)
    network.nodes[1].hear(Frame(OverlayKind.ANNOUNCE, 2, 1, ttl=1, body=old).encode(), 2)
    assert set(mine.ring) == {1}


def test_links_to_peers_that_leave_or_fail_are_repaired() -> None:
    network = overlay_of(16, hashes=1, heartbeat_interval=1.0, heartbeat_timeout=3.5)
    wanted = subscribe_all(network)
    network.run(10.0)
    assert network.nodes[5].unsubscribe() is None
    network.nodes[9].failed = True
    network.run(15.0)
    for host in network.nodes.values():
        if host.node_id not in (5, 9):
            assert not {5, 9} & service(host).membership.around.links().keys()
    assert network.frames(OverlayKind.LEAVE)
    assert network.frames(OverlayKind.PEER_FAILED)
    for number, stock in enumerate(STOCKS, start=1):
        assert network.nodes[1].publish(f"stock={stock}", "price=444") is None
        network.run(2.0)
        assert got(network, 1, number) == expected(wanted, stock, 444) - {5, 9}


def test_a_hypercube_goes_on_as_peers_leave_fail_and_come_back() -> None:
    network = overlay_of(16, "mirinae", heartbeat_interval=1.0, heartbeat_timeout=3.5)
    wanted = subscribe_all(network)
    network.run(5.0)

    def missed(sequence: int, gone: set[int]) -> int:
        found = 0
        for number, stock in enumerate(STOCKS):
            assert network.nodes[1].publish(f"stock={stock}", "price=444") is None
            network.run(0.5)
            want = expected(wanted, stock, 444) - gone
            there = got(network, 1, sequence + number)
            assert there <= want
            found += len(want - there)
        return found

    assert missed(1, set()) == 0
    assert network.nodes[5].unsubscribe() is None
    network.nodes[2].failed = network.nodes[3].failed = True
    network.run(1.0)
    assert missed(6, {2, 3, 5}) > 0  # those beyond the failed peers, which nobody has missed yet
    network.run(5.0)
    assert missed(11, {2, 3, 5}) == 0
    assert {frame.originator for frame in network.frames(OverlayKind.LEAVE)} == {5}
    news = {wire.decode_body(frame.body)[0] for frame in network.frames(OverlayKind.PEER_FAILED)}
    assert news == {2, 3}

    network.nodes[2].failed = False  # as it was: it has heard of nothing
    restarted = network.nodes[3] = SimHost(network, 3, (100.0, 0.0))
    parameters = {"settle": 0.05, "heartbeat_interval": 1.0, "heartbeat_timeout": 3.5}
    restarted.service = create_service("mirinae", restarted, parameters, network.environment)
    restarted.clients = ClientTable(restarted, restarted.service, restarted.to_client, dict)
    restarted.service.start()
    stock, low, high = wanted[3]
    assert restarted.subscribe(f"stock={stock}", f"price>={low}", f"price<={high}") is None
    network.run(5.0)
    assert missed(16, {5}) == 0
    assert restarted.publish("stock=B", "price=444") is None
    network.run(0.5)
    assert got(network, 3, 1) == expected(wanted, "B", 444) - {5}
    network.sent.clear()
    network.run(5.0)
    assert not network.frames(OverlayKind.PEER_FAILED)
    beats = [
        each.destination for each in network.frames(OverlayKind.HEARTBEAT) if each.originator == 1
    ]
    assert len(set(beats)) < 12  # along links alone


def test_a_hypercube_does_not_believe_that_a_peer_has_failed_whose_heartbeats_come() -> None:
    network = overlay_of(16, "mirinae", heartbeat_interval=1.0, heartbeat_timeout=3.5)
    subscribe_all(network)
    network.run(8.0)
    network.sent.clear()
    network.run(1.0)
    chosen = {
        (frame.originator, node)
        for frame in network.frames(OverlayKind.HEARTBEAT)
        for node in messages.read_heartbeat(frame.body)[0]
    }
    chooser, host = min(pair for pair in chosen if pair[::-1] not in chosen)
    victim = network.nodes[host]
    liar = next(node for node in network.nodes if node not in (chooser, host))
    news = messages.failed(chooser, ())
    victim.hear(Frame(OverlayKind.PEER_FAILED, liar, host, ttl=1, body=news).encode(), liar)
    assert victim.service.counters["failures not believed"] == 1
    network.sent.clear()
    network.run(2.0)
    assert not network.frames(
        OverlayKind.PEER_FAILED
    )  # nor does it tell the peer that it counts so


def test_a_hypercube_peer_that_leaves_twice_lingers_both_times() -> None:
    network = overlay_of(8, "mirinae")
    wanted = subscribe_all(network)
    network.run(3.0)
    host = network.nodes[3]
    stock, low, high = wanted[3]

    def links() -> int:
        count = host.service.status()["overlay"]["links"]
        assert isinstance(count, int)
        return count

    assert host.unsubscribe() is None
    network.run(0.4)
    assert host.subscribe(f"stock={stock}", f"price>={low}", f"price<={high}") is None
    network.run(0.4)
    assert host.unsubscribe() is None
    network.run(0.7)  # 1.5 s after the first time
    assert links() > 0
    network.run(0.5)
    assert links() == 0


def test_a_hypercube_has_no_place_for_lies_garbage_and_other_rules() -> None:
    network = overlay_of(4, "mirinae", heartbeat_interval=1.0, heartbeat_timeout=3.5)
    wanted = subscribe_all(network)
    stranger = network.add((0.0, 0.0), "mirinae", {"bits": 512, "settle": 0.05})
    assert stranger.subscribe("stock=A") is None
    network.run(3.0)
    peer = Peer(3, 0, identifier(frozenset(), 1024, 3), with_shared(frozenset()))
    space = stranger.service.parameters.space  # type: ignore[attr-defined]
    lie = Codec(OverlayRules(1024, 3, space)).announcement(Described(peer, 0))
    for kind in (
        OverlayKind.ANNOUNCE,
        OverlayKind.JOIN_QUERY,
        OverlayKind.HEARTBEAT,
        OverlayKind.LEAVE,
        OverlayKind.PEER_FAILED,
    ):
        for body in (lie, b"", wire.encode_body([3]), wire.encode_body({"node": 3})):
            network.nodes[1].hear(Frame(kind, 2, 1, ttl=1, body=body).encode(), 2)
    news = wire.encode_body([3, []])
    network.nodes[1].hear(Frame(OverlayKind.PEER_FAILED, 2, 1, ttl=1, body=news).encode(), 2)
    counters = network.nodes[1].service.counters
    assert counters["malformed"] >= 17
    assert counters["other rules"] >= 1
    assert counters["failures not believed"] == 1
    assert "internal errors" not in counters
    for number, stock in enumerate(STOCKS, start=1):
        assert network.nodes[1].publish(f"stock={stock}", "price=444") is None
        network.run(0.5)
        assert got(network, 1, number) == expected(wanted, stock, 444)


def test_other_rules_are_refused_at_the_join() -> None:
    network = overlay_of(2)
    stranger = network.add((0.0, 0.0), "semantic-overlay", {"bits": 512, "settle": 0.05})
    assert stranger.subscribe("stock=A") is None
    network.run(3.0)
    refused = stranger.publish("stock=A", "price=1")
    assert refused is not None
    assert "bits=1024" in refused
    assert "bits=512" in refused
    assert "set them alike" in refused


def test_a_bootstrap_peer_that_is_not_there_is_asked_again_and_then_named() -> None:
    network = overlay_of(3, bootstrap="2", query_timeout=0.5, join_attempts=3)
    network.nodes[2].failed = True
    assert network.nodes[1].subscribe("stock=A") is None
    network.run(1.0)
    assert network.nodes[1].publish("stock=A", "price=1") is None  # it may still come
    network.run(5.0)
    refused = network.nodes[1].publish("stock=A", "price=2")
    assert refused is not None
    assert "no answer from bootstrap peer 2" in refused
    assert len(network.frames(OverlayKind.JOIN_QUERY)) == 3


def test_what_is_outside_the_space_is_refused() -> None:
    network = overlay_of(2)
    refused = network.nodes[1].subscribe("price>5000")
    assert refused is not None
    assert "outside" in refused
    refused = network.nodes[1].publish("stock=A", "price=5000")
    assert refused is not None
    assert "price (a number from 0" in refused


def test_a_peer_that_lies_or_sends_garbage_changes_nothing() -> None:
    network = overlay_of(4)
    wanted = subscribe_all(network)
    network.run(5.0)
    victim = service(network.nodes[1])
    before = dict(victim.membership.around.known)
    codec = Codec(OverlayRules(1024, 3, victim.parameters.space))
    liar = Described(Peer(3, 7, (1 << 1024) - 1, with_shared({5})), 0)  # all bits, one cell
    other = Described(Peer(2, 7, codec_identifier({5}), with_shared({5})), 0)  # as if it were 2
    bodies = [codec.link(liar, added=True), codec.link(other, added=True), b"", b"\xff" * 40]
    rng = random.Random(4)
    for kind in (*range(20, 30), CommonKind.EVENT):
        samples = [*bodies, rng.randbytes(60), wire.encode_body([[1, -1], "x", {"a": 1}])]
        for body in samples:
            frame = Frame(kind, 3, 1, 3, 1, ttl=0, hops=1, body=body)
            network.nodes[1].hear(frame.encode(), 3)
    network.run(5.0)
    around = victim.membership.around
    assert {node: around.known[node].peer for node in before} == {
        node: each.peer for node, each in before.items()
    }
    assert victim.counters["malformed"] > 40
    with pytest.raises(WireError, match="not that of its cells"):
        codec.read_link(codec.link(liar, added=True))
    assert network.nodes[2].publish("stock=B", "price=444") is None
    network.run(2.0)
    assert got(network, 2, 1) == expected(wanted, "B", 444)


def codec_identifier(cells: set[int]) -> int:
    from nodeapp.pubsub.overlay.identifiers import identifier

    return identifier(cells, 1024, 3)


def test_news_that_a_peer_has_failed_is_not_believed_while_it_is_heard() -> None:
    network = overlay_of(3, heartbeat_interval=1.0, heartbeat_timeout=3.5)
    for host in network.nodes.values():
        assert host.subscribe("stock=A", f"price<{300 * host.node_id}") is None
        network.run(0.5)
    network.run(5.0)
    around = service(network.nodes[1]).membership.around
    assert 2 in around.links()
    body = wire.encode_body([2, [1]])
    news = Frame(OverlayKind.PEER_FAILED, 3, 1, hops=1, body=body)
    network.nodes[1].hear(news.encode(), 3)
    assert 2 in around.links()
    assert service(network.nodes[1]).counters["failures not believed"] == 1
