"""The protocols of a mesh under the virtual clock: over both radios, with handovers of stations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from emulation.errors import ScenarioError
from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event
from nodeapp.pubsub.mesh.messages import MeshKind
from tests.emulation.mesh_lab import mesh, publish, subscribe
from topologies.catalog import make_scenario

PROTOCOLS = ["mobility-prediction", "periodic-probing", "batch-forwarding"]


class Kinds(NullRecorder):
    def __init__(self) -> None:
        self.sent_kinds: Counter[int] = Counter()

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Any:
        self.sent_kinds[datagram[1]] += 1
        return super().sent(time, station, to, datagram)


def run(scenario: Scenario) -> tuple[Counter[tuple[int, tuple[int, int]]], Simulation, Kinds]:
    """Run it; return how often each node's clients were told of each event."""
    recorder = Kinds()
    simulation = Simulation(scenario, recorder)
    told: Counter[tuple[int, tuple[int, int]]] = Counter()
    for host in simulation.nodes:

        def notify(event: Event, hops: int, node: int = host.node_id) -> None:
            told[node, event.id] += 1

        host.clients.notify = notify  # type: ignore[method-assign]
    simulation.run()
    assert simulation.problems == []
    return told, simulation, recorder


def legs(protocol: str, **settings: object) -> Scenario:
    chosen = {"graph": "fixed", "k": 3, "nodes": 6, "speed": 15, **settings}
    texts = {key: str(value) for key, value in chosen.items()}
    return make_scenario("mesh_legs", protocol, seed=2, duration=3600.0, settings=texts)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_event_of_a_leg_arrives_once(protocol: str) -> None:
    scenario = legs(protocol)
    told, simulation, _ = run(scenario)
    published = {(o.node, o.sequence): o for o in scenario.workload if o.action == "publish"}
    clients = {o.node: o.filter[0][2] for o in scenario.workload if o.action == "subscribe"}
    due = {
        (node, event)
        for event, operation in published.items()
        for node, topic in clients.items()
        if operation.event["topic"] == topic
    }
    of_clients = {key: count for key, count in told.items() if key[0] in clients}
    assert set(of_clients) == due
    assert set(of_clients.values()) == {1}
    ended = sum(host.service.counters["sessions ended"] for host in simulation.nodes)
    assert ended == len(clients)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stations_that_roam_a_grid_with_collisions_get_all(protocol: str) -> None:
    settings = {
        "side": "3", "nodes": "4", "speed": "20", "range": "400", "topics": "1", "subscribers": "2",
    }  # fmt: skip
    scenario = make_scenario("mesh_grid", protocol, seed=5, duration=90.0, settings=settings)
    told, _, recorder = run(scenario)
    subscribers = {o.node for o in scenario.workload if o.action == "subscribe"}
    settled = [
        (o.node, o.sequence)
        for o in scenario.workload
        if o.action == "publish" and (protocol == "mobility-prediction" or o.time < 30.0)
    ]
    for node in subscribers:
        assert all(told[node, event] == 1 for event in settled)
    assert max(told.values()) == 1
    assert recorder.sent_kinds[MeshKind.REPORT] >= 2 * len(subscribers)


def test_routes_are_told_at_every_waypoint_if_the_protocol_asks_for_them() -> None:
    scenario = legs("mobility-prediction")
    by_node = Counter(operation.node for operation in scenario.navigation)
    assert set(by_node.values()) == {2}  # the leg, and that it stays
    assert len(by_node) == 6
    plain = make_scenario("mesh_grid", "flooding", seed=1, duration=30.0, settings={})
    assert plain.navigation == ()


def test_failed_brokers_are_known_and_not_there() -> None:
    scenario = legs("mobility-prediction", failed=5)
    assert len(scenario.access_points) == 49 - 5
    assert len(scenario.environment().brokers) == 49
    with pytest.raises(ScenarioError, match="lower it"):
        legs("mobility-prediction", failed=40)


@pytest.mark.parametrize("silence", [0, 3])
def test_who_hears_nothing_of_a_serving_broker_that_died_reports_elsewhere(silence: int) -> None:
    tracks = {
        "sta1": (Waypoint(0, 370, 370),),
        # Under way for the whole run, from the cell of br1 into that of br2.
        "sta2": (Waypoint(4, 100, 125), Waypoint(60, 400, 125)),
    }
    times = {number: 5.0 + 0.5 * number for number in range(1, 91)}
    workload = (subscribe(6), *(publish(5, number, time) for number, time in times.items()))
    settings = {"silence": silence, "faults": "crash br1 at 10"}
    told, *_ = run(mesh(55.0, tracks, workload, "mobility-prediction", **settings))
    before = [told[6, (5, number)] for number, time in times.items() if time < 9.5]
    assert set(before) == {1}
    after = [told[6, (5, number)] for number, time in times.items() if time > 45.0]
    assert set(after) == {1 if silence else 0}


def test_a_mesh_protocol_without_a_mesh_says_what_to_do() -> None:
    with pytest.raises(ScenarioError, match="mesh_grid and mesh_legs"):
        make_scenario("roaming_field", "batch-forwarding", seed=1, duration=30.0, settings={})
