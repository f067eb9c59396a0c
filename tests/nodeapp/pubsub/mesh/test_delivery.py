"""Events reach clients of a mesh exactly once, through handovers, whatever messages take."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodeapp.events import Filter
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.mesh import graph
from nodeapp.pubsub.mesh.broker import MeshBroker
from nodeapp.pubsub.mesh.handover import FIRST_DELAY
from nodeapp.pubsub.mesh.messages import (
    MAX_NUMBER,
    NO_REPORT,
    MeshKind,
    Propagated,
    Report,
    SessionKey,
    decode_report,
    decode_report_ack,
    encode_report_ack,
)
from nodeapp.pubsub.mesh.prediction import ClientStatus
from nodeapp.pubsub.mesh.session import Served
from nodeapp.pubsub.patterns import LOCAL, encode_pattern
from nodeapp.wire import BROADCAST, Frame
from tests.nodeapp.network import SimHost
from tests.nodeapp.pubsub.mesh.lab import MeshNetwork, Walker, navigate, random_walk

PROTOCOLS = ["mobility-prediction", "periodic-probing", "batch-forwarding"]
QUICK = {"probe_interval": 2.0}


def parameters(protocol: str, **more: object) -> dict[str, object]:
    return {**(QUICK if protocol == "periodic-probing" else {}), **more}


def publish_evenly(network: MeshNetwork, publishers: list[SimHost], until: float) -> int:
    """Let hosts publish in turn, four events a second; return how many."""
    count = int(until * 4)
    for number in range(count):
        host = publishers[number % len(publishers)]
        network.schedule(number / 4, host.publish, "news", f"number={number}")
    return count


def sessions_of(network: MeshNetwork, client: int = 0) -> list[Served]:
    """Return the sessions of a client, or of all, at all brokers."""
    return [
        served
        for node in network.brokers
        for served in broker_of(network, node).sessions.values()
        if client in (0, served.client)
    ]


def broker_of(network: MeshNetwork, node: int) -> MeshBroker:
    broker = network.service(node).broker
    assert broker is not None
    return broker


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=3, deadline=None)
# A broker is refused for a request that is older than the client's return to it.
@example(seed=145, slowest=1.5, loss=0.0)
@given(
    seed=st.integers(0, 10**6),
    slowest=st.sampled_from([0.002, 0.3, 1.5]),
    loss=st.sampled_from([0.0, 0.3]),
)
def test_exactly_once_through_handovers(
    protocol: str, seed: int, slowest: float, loss: float
) -> None:
    rng = random.Random(seed)
    network = MeshNetwork(
        3, protocol, parameters(protocol), seed=seed, slowest=slowest, client_loss=loss
    )
    walkers = [Walker(network, random_walk(rng, 3, 4), speed=40.0) for _ in range(2)]
    publishers = [network.nodes[1], network.nodes[6], network.client((700.0, 40.0))]
    network.run(2.0)
    # The second one's pattern is covered by the first one's, and matches as much.
    for walker, words in zip(walkers, (["news"], ["news", "number>=0"]), strict=True):
        assert walker.host.subscribe(*words) is None
    network.run(30.0)
    for walker in walkers:
        walker.go()
    longest = max(walker.needs for walker in walkers)
    published = publish_evenly(network, publishers, longest)
    network.run(longest + 400.0)
    counters = network.counters()
    assert counters["handovers"] > 0
    for walker in walkers:
        told = walker.host.notified()
        assert len(told) == published, counters
        assert set(told.values()) == {1}
    # One session a client goes on; no old broker subscribes for it any more.
    for walker in walkers:
        serving = [
            served
            for served in sessions_of(network, walker.host.node_id)
            if served.confirmed and not served.ended
        ]
        assert [served.sources for served in serving] == [{}]


def test_an_event_goes_to_where_the_client_is_predicted_and_no_farther() -> None:
    network = MeshNetwork(5, "mobility-prediction")
    walker = Walker(network, [(125.0, 125.0), (1125.0, 125.0)], speed=50.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go()
    network.run(11.0)  # in the third cell
    network.nodes[1].publish("news")
    network.run(1.0)
    assert sum(walker.host.notified().values()) == 1
    assert network.hops_of(MeshKind.DELIVERY) == 2
    assert network.hops_of(MeshKind.DELIVERY, between_brokers=False) == 1


def test_probing_brings_events_on_the_next_probe_and_counts_both_ways() -> None:
    network = MeshNetwork(5, "periodic-probing", {"probe_interval": 10.0})
    walker = Walker(network, [(125.0, 125.0), (1125.0, 125.0)], speed=20.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go()
    network.run(30.0)  # 725 m: the third cell
    before = network.hops_of(MeshKind.PROBE), network.hops_of(MeshKind.DELIVERY)
    network.nodes[1].publish("news")
    network.run(0.01)
    assert not walker.host.notified()
    network.run(10.0)
    assert sum(walker.host.notified().values()) == 1
    assert network.hops_of(MeshKind.PROBE) - before[0] in (2, 3)
    assert network.hops_of(MeshKind.DELIVERY) - before[1] in (2, 3)


def test_batch_brings_events_on_arrival() -> None:
    network = MeshNetwork(5, "batch-forwarding")
    walker = Walker(network, [(125.0, 125.0), (1125.0, 125.0)], speed=50.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go()
    for _ in range(3):
        network.run(5.0)
        network.nodes[1].publish("news")
    network.run(4.5)
    assert not walker.host.notified()
    network.run(3.0)
    assert sum(walker.host.notified().values()) == 3
    assert network.hops_of(MeshKind.DELIVERY) == 3 * 4


def test_a_session_ends_when_propagation_has_reached_the_old_broker_and_not_before() -> None:
    network = MeshNetwork(5, "mobility-prediction", slowest=0.2)
    host = network.client((125.0, 125.0))
    network.run(5.0)
    host.subscribe("news")
    network.run(10.0)
    (old,) = sessions_of(network)
    (pattern,) = old.patterns
    host.trajectory = (1125.0, 1125.0)
    navigate(host, 1125.0, 1125.0, 0.0, 0.0, 0.0)
    while not old.ended:
        network.run(0.001)
        assert network.time < 60.0
    # The way from the old broker to the new one is there, whoever publishes.
    way, node = [1], 1
    while node != 25:
        table = broker_of(network, node).graph.table
        (node,) = table.covering(pattern) - {LOCAL} - set(way)
        way.append(node)
    assert len(way) > 4
    before = len(host.notified())
    for node in network.brokers:
        network.nodes[node].publish("news")
    network.run(20.0)
    assert len(host.notified()) - before == len(network.brokers)
    # The new broker has measured what a hop takes, 0.1 s on average, in the handover.
    assert 2 * FIRST_DELAY < broker_of(network, 25).delay < 0.1
    assert broker_of(network, 13).delay == FIRST_DELAY


@pytest.mark.parametrize("answers", [False, True])
def test_an_old_broker_that_dies_is_given_up_whether_it_has_answered_or_not(answers: bool) -> None:
    network = MeshNetwork(3, "mobility-prediction", {"handover_patience": 10.0})
    host = network.client((125.0, 125.0))
    network.run(2.0)
    host.subscribe("news")
    network.run(3.0)
    old, hear = network.nodes[1], network.nodes[1].hear

    def deaf(datagram: bytes, sender: int) -> None:
        if datagram[1] != MeshKind.PROPAGATED:  # so the old session does not end
            hear(datagram, sender)

    old.hear = deaf  # type: ignore[method-assign]
    host.trajectory = (625.0, 625.0)
    navigate(host, 625.0, 625.0, 0.0, 0.0, 0.0)
    if answers:
        while not network.hops_of(MeshKind.HANDED_OVER):
            network.run(0.001)
            assert network.time < 60.0
        network.run(0.5)
    old.failed = True
    network.run(40.0)
    assert network.counters()["handovers given up"] == 1
    assert [list(served.sources) for served in broker_of(network, 9).sessions.values()] == [[]]
    network.sent.clear()
    network.run(60.0)
    assert not network.hops_of(MeshKind.HANDOVER)


def test_the_delay_of_a_hop_can_be_configured() -> None:
    network = MeshNetwork(2, "mobility-prediction", {"delay": 0.5})
    assert broker_of(network, 1).delay == 0.5


def test_an_old_broker_keeps_a_pattern_that_another_client_has() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    one, other = network.client((125.0, 125.0)), network.client((130.0, 125.0))
    network.run(2.0)
    for host in (one, other):
        host.subscribe("news")
    network.run(3.0)
    one.trajectory = (625.0, 625.0)
    navigate(one, 625.0, 625.0, 0.0, 0.0, 0.0)
    network.run(10.0)
    assert network.counters()["sessions ended"] == 1
    network.nodes[9].publish("news")
    network.run(2.0)
    assert len(one.notified()) == len(other.notified()) == 1


def test_of_two_brokers_that_think_they_serve_the_one_with_the_later_report_does() -> None:
    network = MeshNetwork(3, "mobility-prediction", {"lease": 60.0})
    host = network.client((125.0, 125.0))
    network.run(2.0)
    # The answers of broker 1 are lost: it serves, and the client does not know.
    lost = network.nodes[1].send
    network.nodes[1].send = lambda to, datagram: None if to == host.node_id else lost(to, datagram)  # type: ignore[method-assign]
    host.subscribe("news")
    network.run(0.2)
    assert len(broker_of(network, 1).sessions) == 1
    host.trajectory = (625.0, 625.0)
    network.run(5.0)
    assert len(broker_of(network, 9).sessions) == 1
    network.nodes[5].publish("news")
    network.run(80.0)
    assert not broker_of(network, 1).sessions
    assert network.counters()["clients forgotten"] == 1
    network.nodes[5].publish("news")
    network.run(5.0)
    assert set(host.notified().values()) == {1}
    assert len(host.notified()) == 2


def test_a_client_that_never_tells_a_route_is_served_where_it_is() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((375.0, 375.0))
    network.run(2.0)
    host.subscribe("news")
    network.run(2.0)
    network.nodes[1].publish("news")
    network.run(2.0)
    assert len(host.notified()) == 1


@pytest.mark.parametrize(
    ("parameters_", "late"), [({}, True), ({"silence": 5.0}, False), ({"deviation": 125.0}, False)]
)
def test_ways_out_of_a_wrong_prediction(parameters_: dict[str, object], late: bool) -> None:
    network = MeshNetwork(5, "mobility-prediction", parameters_)
    # It says that it goes east, and goes north.
    walker = Walker(network, [(125.0, 125.0), (125.0, 1125.0)], speed=20.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go(told=False)
    navigate(walker.host, 1125.0, 125.0, 20.0, 0.0, 0.0)
    network.run(35.0)
    network.nodes[1].publish("news")
    network.run(14.0)
    assert bool(walker.host.notified()) != late
    navigate(walker.host, 125.0, 1125.0, 0.0, 0.0, 0.0)
    network.run(15.0)
    assert list(walker.host.notified().values()) == [1]


def test_events_go_around_brokers_that_are_missing() -> None:
    # Only in a graph that brokers keep themselves; here the client's broker has failed later.
    network = MeshNetwork(3, "mobility-prediction")
    walker = Walker(network, [(125.0, 375.0), (625.0, 375.0)], speed=50.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go()
    network.run(4.6)  # in the cell of broker 5, which dies now
    network.nodes[5].failed = True
    for node in network.brokers:
        broker_of(network, node).relay.neighbours.lost(5)
    network.nodes[4].publish("news")
    network.run(4.0)
    assert len(walker.host.notified()) == 1


@pytest.mark.parametrize("gone", [False, True], ids=["restarted", "gone"])
def test_a_probe_shows_a_client_elsewhere_that_its_broker_has_lost_it(gone: bool) -> None:
    network = MeshNetwork(3, "periodic-probing", QUICK)
    walker = Walker(network, [(125.0, 125.0), (625.0, 125.0)], speed=50.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go(told=False)
    network.run(12.0)
    assert walker.host.service.status()["serving broker"] == 1
    if gone:
        network.nodes[1].failed = True
        for node in network.brokers:
            broker_of(network, node).relay.neighbours.lost(1)
    else:
        network.restart(network.nodes[1], 0.0)
    network.run(5.0)
    assert walker.host.service.status()["serving broker"] == 3
    assert walker.host.service.counters["sessions lost"] == 1
    network.nodes[3].publish("news")
    network.run(5.0)
    assert list(walker.host.notified().values()) == [1]


def test_what_is_made_up_of_a_broker_that_has_lost_a_client_costs_a_report_at_most() -> None:
    network = MeshNetwork(3, "periodic-probing", QUICK)
    host = network.client((125.0, 125.0))
    network.run(2.0)
    host.subscribe("news")
    network.run(5.0)
    (served,) = sessions_of(network)
    body = encode_report_ack(NO_REPORT, served.session.number, "no such session")
    before = network.hops_of(MeshKind.REPORT, between_brokers=False)
    for frame, reports in (
        (Frame(MeshKind.REPORT_ACK, 1, host.node_id, body=body), 1),
        (Frame(CommonKind.HELLO, 1, sequence=77), 2),
        (Frame(CommonKind.HELLO, 2, sequence=78), 2),
    ):
        network.run(1.5)
        for _ in range(10):
            host.hear(frame.encode(), frame.originator)
            network.run(0.01)
        assert network.hops_of(MeshKind.REPORT, between_brokers=False) - before == reports
    assert len(sessions_of(network)) == 1


def test_bad_routes_are_refused_with_what_to_do() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    network.run(1.0)
    assert "outside the area 0,0,750,750" in str(navigate(host, 2000.0, 0.0, 3.0, 0.0, 0.0))
    assert "negative speed" in str(navigate(host, 100.0, 0.0, -3.0, 0.0, 0.0))
    assert "negative remaining" in str(navigate(host, 100.0, 0.0, 3.0, 0.0, -1.0))
    assert "a broker" in str(navigate(network.nodes[1], 100.0, 0.0, 3.0, 0.0, 0.0))


def test_a_report_of_what_cannot_be_is_refused_by_the_broker() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    status = ClientStatus((125.0, 125.0), (2000.0, 125.0), 3.0, 0.0, 0.0)
    report = Report(1, status, (), ())
    host.send(BROADCAST, Frame(MeshKind.REPORT, host.node_id, body=report.encode()).encode())
    backwards = report._replace(status=status._replace(velocity=-3.0))
    host.send(BROADCAST, Frame(MeshKind.REPORT, host.node_id, body=backwards.encode()).encode())
    network.run(1.0)
    (answer,) = network.frames(MeshKind.REPORT_ACK)
    assert "2000.0,125.0 is outside the area 0,0,750,750" in str(decode_report_ack(answer.body)[2])
    counters = network.counters()
    assert (counters["reports refused"], counters["malformed"]) == (1, 1)
    assert not sessions_of(network)


@pytest.mark.parametrize("behind", [90.0, 1e6])
def test_a_client_whose_clock_began_again_with_its_machine_is_served(behind: float) -> None:
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    network.run(100.0)
    host.subscribe("news")
    network.run(2.0)
    host = network.restart(host, behind)
    host.subscribe("news")
    network.run(2.0)
    network.nodes[9].publish("news")
    network.run(2.0)
    assert list(host.notified().values()) == [1]
    assert host.service.counters["numbers raised"] == 1


def test_a_number_that_nothing_follows_shuts_a_client_out_for_a_lease_at_most() -> None:
    network = MeshNetwork(3, "mobility-prediction", {"lease": 40.0})
    host = network.client((125.0, 125.0))
    network.run(2.0)
    # Somebody reports in its name, and an answer in a broker's name says so.
    report = Report(MAX_NUMBER, ClientStatus((125.0, 125.0), (125.0, 125.0), 0.0, 0.0, 0.0), (), ())
    frame = Frame(MeshKind.REPORT, host.node_id, body=report.encode())
    network.nodes[1].hear(frame.encode(), host.node_id)
    host.subscribe("news")
    network.run(5.0)
    assert host.service.counters["numbers raised"] == 0
    network.run(70.0)
    host.subscribe("news", number=2)  # a report is due
    network.run(5.0)
    network.nodes[9].publish("news")
    network.run(2.0)
    assert list(host.notified().values()) == [1]


def test_a_clock_that_jumps_makes_events_late_at_worst() -> None:
    network = MeshNetwork(3, "mobility-prediction")
    walker = Walker(network, [(125.0, 125.0), (625.0, 125.0)], speed=20.0)
    network.run(2.0)
    walker.host.subscribe("news")
    network.run(2.0)
    walker.go()
    network.run(5.0)
    broker = network.nodes[1]
    broker.now = lambda: network.time - 1000.0  # type: ignore[method-assign]  # it was set back
    broker.publish("news")
    network.run(30.0)
    assert list(walker.host.notified().values()) == [1]


def test_orders_and_refusals_that_are_made_up_fill_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph, "MAX_BYTES", 1_000)
    network = MeshNetwork(3, "mobility-prediction")
    host = network.client((125.0, 125.0))
    network.run(2.0)
    host.subscribe("news")
    network.run(5.0)
    pattern = encode_pattern(Filter.parse(["news"]))
    for client in range(1, 101):
        order = Propagated(client, SessionKey(1, 1), SessionKey(9, 1), pattern)
        frame = Frame(MeshKind.PROPAGATED, 77, ttl=9, body=order.encode())
        network.nodes[5].hear(frame.encode(), 77)
    assert network.counters()["no room for what waits"] > 50
    (*_, report) = network.frames(MeshKind.REPORT)
    number = decode_report(report.body).number
    for refused in range(100):
        body = encode_report_ack(number, 0, f"{refused} {1000 * 'x'}")
        host.hear(Frame(MeshKind.REPORT_ACK, 1, host.node_id, body=body).encode(), 1)
    assert len(host.service.counters) < 50
    assert len(host.service.status()["refused last"]) == 200
