"""The smallest scenarios in which `check` has found defects that are mended since."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.check.observed import REST, SETTLED, observe
from emulation.check.properties.circulates import Circulates
from emulation.check.properties.rest import Rest
from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import RadioSpec
from emulation.radio.wire import WireSpec
from emulation.scenario.access_point import AccessPointSpec
from emulation.scenario.faults import Fault
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.workloads.base import Operation
from nodeapp.pubsub.registry import service_of


def peers(protocol: str, count: int, *operations: tuple[float, int, str]) -> Scenario:
    """Return a scenario of hosts on a switch; operations are time, node and action."""
    of: dict[str, dict[str, Any]] = {
        "subscribe": {"subscription": 1},
        "unsubscribe": {"subscription": 1},
        "publish": {"event": {"topic": "a", "stock": "A", "price": 0}},
    }
    return Scenario(
        topology="check",
        protocol=ProtocolSpec(name=protocol),
        seed=0,
        duration=60.0,
        area=(0.0, 0.0, 100.0, 100.0),
        radio=RadioSpec(),
        nodes=tuple(
            NodeSpec(id=id_, name=f"n{id_}", waypoints=(Waypoint(0.0, id_, 0.0),), device="eth0")
            for id_ in range(1, count + 1)
        ),
        workload=tuple(
            Operation(time=time, node=node, action=action, sequence=number, **of[action])
            for number, (time, node, action) in enumerate(operations, start=1)
        ),
        wire=WireSpec(delays=(0.008,) * count),
    )


def heard(scenario: Scenario, node: int, sequence: int) -> bool:
    return any(
        notice.node == node and notice.event[1] == sequence for notice in observe(scenario).notices
    )


def test_a_hypercube_peer_that_leaves_tells_those_too_who_are_no_peers_yet() -> None:
    """Else who publishes for the first time later sends the event to the one that has left."""
    scenario = peers(
        "mirinae",
        8,
        (1.0, 1, "subscribe"),
        (1.0, 4, "subscribe"),
        (1.5, 1, "unsubscribe"),
        (32.0, 2, "publish"),
    )
    assert heard(scenario, 4, 4)


def test_a_hypercube_peer_hears_of_those_who_came_while_it_was_down() -> None:
    """Else it knows the one who came later alone, and its links are wrong."""
    scenario = peers(
        "mirinae",
        5,
        (1.0, 1, "subscribe"),
        (1.0, 4, "subscribe"),
        (33.5, 3, "publish"),
        (33.52, 2, "publish"),
    )
    crash = Fault(kind="crash", nodes=("n2",), start=1.0, end=3.0, text="crash n2 at 1 for 2")
    assert heard(scenario.model_copy(update={"faults": (crash,)}), 1, 4)


def test_who_joins_at_a_bootstrap_peer_that_is_not_primary_is_linked_to_the_one_that_is() -> None:
    """Else the primary peer, which alone has links, has none to it."""
    scenario = peers(
        "semantic-overlay", 3, (1.0, 2, "publish"), (11.0, 3, "subscribe"), (41.5, 2, "publish")
    )
    assert heard(scenario, 3, 3)


def test_a_bootstrap_peer_answers_itself_if_who_it_asks_for_another_is_gone() -> None:
    """Else it sends each of that one's queries on to the same peer, which is down."""
    scenario = peers(
        "semantic-overlay", 3, (1.0, 3, "subscribe"), (1.5, 2, "subscribe"), (42.0, 1, "publish")
    )
    crash = Fault(kind="crash", nodes=("n3",), start=1.5, end=11.5)
    scenario = scenario.model_copy(update={"faults": (crash,)})
    assert heard(scenario, 2, 3)
    assert heard(scenario, 3, 3)


def test_a_bootstrap_peer_that_knows_nobody_any_more_answers_when_it_is_in() -> None:
    """Else who comes first after its restart hears of nobody, and its events are lost."""
    scenario = peers(
        "semantic-overlay",
        4,
        (1.0, 2, "subscribe"),
        (1.0, 3, "subscribe"),
        (44.0, 4, "publish"),
    )
    narrow = scenario.workload[0].model_copy(update={"filter": (("price", "<", 500),)})
    crash = Fault(kind="crash", nodes=("n1",), start=11.5, end=13.5)
    changes = {"workload": (narrow, *scenario.workload[1:]), "faults": (crash,), "seed": 0}
    scenario = scenario.model_copy(update=changes)
    assert heard(scenario, 2, 3)
    assert heard(scenario, 3, 3)


def test_a_peer_that_has_given_up_asks_again() -> None:
    """Else it is out for good if its bootstrap peer was down when it came."""
    scenario = peers("semantic-overlay", 2, (1.0, 2, "subscribe"), (44.0, 1, "publish"))
    crash = Fault(kind="crash", nodes=("n1",), start=1.0, end=21.0)
    assert heard(scenario.model_copy(update={"faults": (crash,)}), 2, 2)
    for_good = Fault(kind="crash", nodes=("n1",), start=1.0)
    scenario = peers("semantic-overlay", 3, (1.0, 3, "subscribe"), (31.5, 2, "publish"))
    assert not heard(scenario.model_copy(update={"faults": (for_good,)}), 3, 2)


def test_a_peer_that_has_left_says_so_to_who_sends_it_a_query() -> None:
    """Else that one goes on to send queries there, which nobody answers."""
    scenario = peers(
        "semantic-overlay",
        4,
        (1.0, 3, "publish"),
        (4.0, 2, "subscribe"),
        (4.5, 2, "unsubscribe"),
        (4.5, 3, "subscribe"),
        (35.0, 1, "publish"),
    )
    assert heard(scenario, 3, 5)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_bootstrap_peer_that_restarts_asks_who_knew_it(at_once: bool) -> None:
    """Else it is alone, as it has nobody to ask."""
    again = [(5.0, 1, "subscribe")] if at_once else []
    scenario = peers(
        "semantic-overlay",
        3,
        (1.0, 2, "subscribe"),
        (1.0, 3, "subscribe"),
        *again,
        (44.0, 1, "publish"),
    )
    narrow = scenario.workload[0].model_copy(update={"filter": (("price", "<", 500),)})
    crash = Fault(kind="crash", nodes=("n1",), start=11.5, end=13.5, text="crash n1 at 11.5 for 2")
    changes = {"workload": (narrow, *scenario.workload[1:]), "faults": (crash,)}
    assert heard(scenario.model_copy(update=changes), 2, len(scenario.workload))


@pytest.mark.parametrize("protocol", ["mirinae", "semantic-overlay"])
def test_a_peer_that_leaves_sends_first_what_has_waited(protocol: str) -> None:
    """Else it sends that when it comes back, or never."""
    scenario = peers(
        protocol,
        2,
        (1.0, 1, "subscribe"),
        (1.0, 2, "subscribe"),
        (1.5, 2, "publish"),
        (1.6, 2, "unsubscribe"),
        (32.0, 2, "publish"),
    )
    crash = Fault(kind="crash", nodes=("n1",), start=0.5, end=3.0, text="crash n1 at 0.5 for 2.5")
    observed = observe(scenario.model_copy(update={"faults": (crash,)}))
    assert observed.last_frames.get((2, 3), (0.0, 0))[0] < 30.0


def test_a_hypercube_peer_that_comes_is_not_linked_to_one_that_is_gone() -> None:
    """It has heard of that one before, and those who miss it tell their peers alone, or nobody."""
    scenario = peers(
        "mirinae",
        4,
        (1.0, 1, "subscribe"),
        (1.0, 2, "subscribe"),
        (32.0, 3, "publish"),
    )
    crash = Fault(kind="crash", nodes=("n1",), start=1.5, text="crash n1 at 1.5")
    assert heard(scenario.model_copy(update={"faults": (crash,)}), 2, 3)


def test_a_peer_of_whom_all_that_it_knew_have_left_joins_again() -> None:
    scenario = peers(
        "semantic-overlay",
        4,
        (1.0, 2, "publish"),
        (1.0, 1, "subscribe"),
        (1.5, 1, "unsubscribe"),
        (1.5, 3, "subscribe"),
        (32.0, 2, "publish"),
    )
    assert heard(scenario, 3, 5)


def meshed(scenario: Scenario, crash: Fault) -> Scenario:
    """Return the scenario with the last node as a station, the others as brokers of a mesh."""
    *brokers, client = scenario.nodes
    client = client.model_copy(update={"device": "wlan0"})
    points = tuple(
        AccessPointSpec(
            id=broker.id,
            name=f"ap{broker.id}",
            position=broker.waypoints[0][1:],
            broker=broker.id,
        )
        for broker in brokers
    )
    radio = RadioSpec(range=100.0)
    mesh = {"access_points": points, "mesh_radio": radio, "radio": radio, "wire": None}
    return scenario.model_copy(update={"nodes": (*brokers, client), "faults": (crash,), **mesh})


@pytest.mark.parametrize(
    "protocol", ["mobility-prediction", "periodic-probing", "batch-forwarding"]
)
def test_a_client_that_stands_still_is_served_again_after_its_broker_has_restarted(
    protocol: str,
) -> None:
    scenario = peers(protocol, 2, (1.0, 2, "subscribe"), (34.0, 1, "publish"))
    crash = Fault(kind="crash", nodes=("n1",), start=2.0, end=2.5, text="crash n1 at 2 for 0.5")
    assert heard(meshed(scenario, crash), 2, 2)


def test_nobody_looks_on_for_a_client_that_fetches_its_events_itself() -> None:
    operations = (1.0, 3, "subscribe"), (4.0, 1, "publish"), (5.0, 3, "unsubscribe")
    scenario = peers("periodic-probing", 3, *operations)
    crash = Fault(kind="crash", nodes=("n3",), start=5.0, text="crash n3 at 5")
    time, _ = observe(meshed(scenario, crash)).last_frames[1, 2]
    assert 10.0 < time < 15.0


def test_messages_that_are_sent_again_in_bunches_are_no_unrest() -> None:
    """Refreshes every 5 s or so: two or three bunches of ten frames in 10 s."""
    waypoints = (
        (Waypoint(0.0, 0.0, 300.0), Waypoint(12.0, 0.0, 300.0), Waypoint(22.0, 0.0, 0.0)),
        (Waypoint(0.0, 0.0, -21.2),),
    )
    topic = {"filter": (("topic", "=", "a"),)}
    event = {"event": {"topic": "a", "stock": "A", "price": 0}}
    scenario = Scenario(
        topology="check",
        topology_parameters={SETTLED: 52.0},
        protocol=ProtocolSpec(name="georendezvous"),
        seed=42,
        duration=52.0,
        area=(0.0, -21.2, 100.0, 78.8),
        radio=RadioSpec(range=100.0),
        nodes=tuple(
            NodeSpec(id=node, name=f"n{node}", waypoints=way, device="wlan0")
            for node, way in enumerate(waypoints, start=1)
        ),
        workload=(
            *(Operation(time=1.5, node=n, action="subscribe", subscription=n, **topic)
              for n in (1, 2)),
            *(Operation(time=1.0 + n / 2, node=n, action="publish", sequence=1, **event)
              for n in (1, 2)),
        ),
    )  # fmt: skip
    service = service_of("georendezvous")
    observed = observe(scenario, service)
    assert observed.at_rest(2 * REST) >= observed.at_rest() > 4 * REST
    assert list(Rest().violations(observed, service.promises)) == []


def test_an_event_may_wait_until_its_peer_has_asked_the_bootstrap_peer_again() -> None:
    cheap = {"subscription": 2, "filter": (("price", "<", 500),)}
    scenario = peers(
        "semantic-overlay",
        2,
        (1.0, 1, "subscribe"),
        (1.0, 2, "subscribe"),
        (11.0, 2, "unsubscribe"),
        (11.5, 2, "publish"),
    )
    workload = (Operation(time=1.0, node=2, action="subscribe", **cheap), *scenario.workload)
    crash = Fault(kind="crash", start=9.5, end=19.5, nodes=("n1",))
    quiet = {"topology_parameters": {SETTLED: 49.5}, "faults": (crash,), "workload": workload}
    scenario = scenario.model_copy(update=quiet)
    service = service_of("semantic-overlay")
    observed = observe(scenario, service)
    assert observed.last_frames[2, 4][0] > 24.5
    assert list(Circulates().violations(observed, service.promises)) == []


@pytest.mark.parametrize("subscribes", [False, True])
def test_hypercube_peers_whose_news_were_lost_learn_of_each_other(subscribes: bool) -> None:
    operations = [(1.0, 1, "subscribe"), (1.0, 2, "subscribe"), (32.0, 3, "publish")]
    if subscribes:
        operations.insert(0, (1.0, 3, "subscribe"))
    scenario = peers("mirinae", 3, *operations)
    dear = {"filter": (("price", ">=", 500),)}  # so that n2 does not pass the event on
    changes = {
        "faults": (Fault(kind="disturb", start=0.5, end=10.0, nodes=("n1", "n3"), lose=1.0),),
        "workload": tuple(
            each.model_copy(update=dear) if each.node == 2 else each for each in scenario.workload
        ),
    }
    assert heard(scenario.model_copy(update=changes), 1, len(operations))


def test_a_hypercube_peer_that_comes_waits_for_answers_whatever_it_heard_just_before() -> None:
    """Else links that it was about to choose among others come first, and lead to nobody."""
    scenario = peers("mirinae", 2, (1.0, 2, "subscribe"), (1.5, 1, "publish"))
    assert heard(scenario, 2, 2)
