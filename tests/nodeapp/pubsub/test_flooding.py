from __future__ import annotations

from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import BROADCAST, Frame
from tests.nodeapp.network import SimNetwork, connected_network


def test_an_event_reaches_every_connected_node_once_and_is_sent_once_by_each() -> None:
    for seed in range(5):
        network = connected_network(40, "flooding", seed=seed)
        for node in network.nodes.values():
            assert node.subscribe("traffic") is None
        assert network.nodes[1].publish("traffic", "speed=5") is None
        network.run(10)
        for node in network.nodes.values():
            assert node.notified() == {(1, 1): 1}
        senders = [sender for _, sender, _, _ in network.sent]
        assert sorted(senders) == sorted(network.nodes)


def test_hops_count_transmissions_and_ttl_bounds_them() -> None:
    network = SimNetwork()
    for i in range(6):
        network.add((200.0 * i, 0.0), "flooding", {"ttl": 3, "max_jitter": 0})
        network.nodes[i + 1].subscribe("traffic")
    network.nodes[1].publish("traffic")
    network.run(1)
    hops = {
        node.node_id: [reply.hops for reply in node.replies if reply.kind == ClientKind.NOTIFY]
        for node in network.nodes.values()
    }
    assert hops == {1: [0], 2: [1], 3: [2], 4: [3], 5: [], 6: []}


def test_only_matching_and_admitted_clients_are_told() -> None:
    network = SimNetwork()
    for i in range(4):
        network.add((50.0 * i, 0.0), "flooding")
    network.nodes[2].subscribe("traffic", "speed>10", attributes=["role=police"])
    network.nodes[3].subscribe("traffic", "speed>10")
    network.nodes[4].subscribe("traffic", "speed>50", attributes=["role=police"])
    network.nodes[1].publish("traffic", "speed=20", policy=["role=police"])
    network.run(1)
    told = {node.node_id for node in network.nodes.values() if node.notified()}
    assert told == {2}


def test_rebroadcasts_are_spread_over_the_jitter() -> None:
    network = SimNetwork()
    for i in range(20):
        network.add((float(i), 0.0), "flooding", {"max_jitter": 1.0})
    network.nodes[1].publish("traffic")
    network.run(0.5)
    assert 3 < len(network.sent) < 18
    network.run(1)
    assert len(network.sent) == 20


def test_a_repeated_publication_is_one_event() -> None:
    network = SimNetwork()
    network.add((0.0, 0.0), "flooding")
    network.add((1.0, 0.0), "flooding")
    network.nodes[2].subscribe()
    for _ in range(3):
        assert network.nodes[1].publish("traffic", sequence=9) is None
    network.run(1)
    assert network.nodes[2].notified() == {(1, 9): 1}


def test_a_malformed_event_is_counted_by_those_who_read_it() -> None:
    network = SimNetwork()
    network.add((0.0, 0.0), "flooding")
    network.add((1.0, 0.0), "flooding")
    reader = network.nodes[2]
    reader.subscribe()
    bodies = (b"", b"\xff", b"\x83\xa0\xf6", b"\x80", b"\x83\xa1\x61a\xf9\x7e\x00\xf6\x40")
    for number, body in enumerate(bodies, start=1):
        frame = Frame(CommonKind.EVENT, 1, BROADCAST, 1, number, ttl=3, body=body)
        reader.hear(frame.encode(), 1)
    assert reader.service.counters["malformed"] == 5
    assert not reader.notified()


def test_repeated_broadcasts_arrive_if_one_is_lost() -> None:
    delivered = []
    for repeat in (1, 3):
        network = SimNetwork(loss=0.4, seed=2)
        for x in range(5):
            network.add((200.0 * x, 0.0), "flooding", {"repeat": repeat})
        network.nodes[5].subscribe("traffic")
        for _ in range(40):
            network.nodes[1].publish("traffic")
            network.run(1)
        assert all(count == 1 for count in network.nodes[5].notified().values())
        delivered.append(len(network.nodes[5].notified()))
        sent = [frame for frame in network.frames(CommonKind.EVENT) if frame.hops == 1]
        assert len(sent) == 40 * repeat
    assert delivered[0] < 15
    assert delivered[1] > 25


def test_delivered_is_what_a_client_wants() -> None:
    network = SimNetwork()
    one, other = (network.add((x, 0.0), "flooding") for x in (0.0, 100.0))
    other.subscribe("topic = trains")
    network.run(2.0)
    one.publish("cars")
    network.run(1.0)
    assert other.service.counters["delivered"] == 0
    one.publish("trains")
    network.run(1.0)
    assert other.service.counters["delivered"] == sum(other.notified().values()) == 1
