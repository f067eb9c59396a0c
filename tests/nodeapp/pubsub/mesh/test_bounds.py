"""What others can have a mesh's brokers and clients keep, or send."""

from __future__ import annotations

import pytest

from nodeapp.events import Filter, Subscription
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.mesh import broker as broker_module
from nodeapp.pubsub.mesh import client as client_module
from nodeapp.pubsub.mesh.broker import MAX_FETCHED
from nodeapp.pubsub.mesh.messages import (
    MeshKind,
    Received,
    Report,
    SessionKey,
    decode_handover,
    decode_report_ack,
)
from nodeapp.pubsub.mesh.prediction import ClientStatus
from nodeapp.routing.neighbours import encode_hello
from nodeapp.wire import Frame
from tests.nodeapp.pubsub.mesh.lab import MeshNetwork
from tests.nodeapp.pubsub.mesh.test_delivery import broker_of


def test_an_event_is_served_in_the_same_order_whatever_python_hashes() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    hosts = [network.client((125.0, 125.0)) for _ in range(2)]
    network.run(2.0)
    hosts[0].subscribe("price>5")
    network.run(1.0)
    hosts[1].subscribe("news")
    network.run(1.0)
    network.nodes[1].publish("news", "price=9")
    network.run(0.0)
    assert [to for _, _, to, _ in network.sent[-2:]] == [hosts[1].node_id, hosts[0].node_id]


def test_a_report_has_a_broker_ask_for_a_few_old_sessions_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    network.run(2.0)
    status = ClientStatus((125.0, 125.0), (125.0, 125.0), 0.0, 0.0, 0.0)
    old = tuple((SessionKey(9, number), Received()) for number in range(1, 1001))
    report = Report(7, status, (Subscription(Filter.parse(["news"]), {}).encode(),), old)
    body = report.encode()
    network.nodes[1].hear(Frame(MeshKind.REPORT, host.node_id, body=body).encode(), host.node_id)
    network.run(5.0)
    asked = {decode_handover(frame.body).old_number for frame in network.frames(MeshKind.HANDOVER)}
    assert asked == set(range(1001 - MAX_FETCHED, 1001))
    monkeypatch.setattr(broker_module, "MAX_SESSIONS", len(broker_of(network, 1).sessions))
    other = network.client((125.0, 125.0))
    network.nodes[1].hear(Frame(MeshKind.REPORT, other.node_id, body=body).encode(), other.node_id)
    network.run(0.1)
    answers = [decode_report_ack(frame.body)[2] for frame in network.frames(MeshKind.REPORT_ACK)]
    assert answers[-1] == "broker 1 has no room for more sessions"
    network.nodes[1].hear(Frame(MeshKind.REPORT, host.node_id, body=body).encode(), host.node_id)
    network.run(0.1)
    (*_, answer) = network.frames(MeshKind.REPORT_ACK)
    assert decode_report_ack(answer.body)[2] is None, "it is served here"


def test_hellos_of_others_than_brokers_make_no_neighbours() -> None:
    network = MeshNetwork(3, "mobility-prediction", {"graph": "spanning-tree"})
    hello = Frame(CommonKind.HELLO, 77, sequence=1, body=encode_hello(125.0, 125.0, 0.0, 0.0))
    network.nodes[1].hear(hello.encode(), 77)
    assert network.counters()["hellos of others than brokers"] == 1
    assert not broker_of(network, 1).relay.neighbours.table


def test_a_client_that_only_publishes_remembers_no_more_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "KNOWN", 5)
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    network.run(2.0)
    for number in range(10):
        host.publish("news", f"number={number}")
    client = network.service(host.node_id).client
    assert client is not None
    assert len(client._known) == 5
