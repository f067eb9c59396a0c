"""Faults under the virtual clock: node apps that go and come back, and radios that fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from emulation.workloads.base import Operation
from nodeapp.events import Event
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.topic_hash import NodeHash
from nodeapp.wire import Frame, decode
from tests.emulation.virtual.test_simulation import digest
from topologies.catalog import make_scenario

TOPIC = (("topic", "=", "a"),)


class Notified(NullRecorder):
    """Remembers when which event was handed to a client of which node."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, float]] = []

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        frame = decode(datagram)
        if frame.kind == ClientKind.NOTIFY:
            self.told.append((station, frame.sequence, time))


def scenario(*faults: str, protocol: str = "flooding", nodes: int = 6) -> Scenario:
    """sta1 publishes every second, sta2 subscribes; all hear each other."""
    made = make_scenario(
        "roaming_field",
        protocol,
        seed=1,
        duration=30.0,
        settings={
            "nodes": nodes, "topics": 0, "speed": 0, "side": 100, "faults": "; ".join(faults)
        },
    )  # fmt: skip
    workload = [Operation(time=1.0, node=2, action="subscribe", subscription=1, filter=TOPIC)]
    workload += [
        Operation(time=2.05 + n, node=1, action="publish", sequence=n + 1, event={"topic": "a"})
        for n in range(25)
    ]
    return made.model_copy(update={"workload": tuple(workload)})


def told(*faults: str, protocol: str = "flooding") -> list[int]:
    """Return the numbers of the events that sta2's client was told."""
    recorder = Notified()
    simulation = Simulation(scenario(*faults, protocol=protocol), recorder)
    simulation.run()
    assert simulation.problems == []
    return [sequence for station, sequence, _ in recorder.told if station == 1]


ALL = list(range(1, 26))


class Sent(NullRecorder):
    """Remembers when each node sent a beacon."""

    def __init__(self) -> None:
        self.times: dict[int, list[float]] = {}

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        if decode(datagram).kind == CommonKind.HELLO:
            self.times.setdefault(station, []).append(time)
        return super().sent(time, station, to, datagram)


def test_a_node_that_crashes_in_the_instant_of_its_return_stays_down_and_comes_back_once() -> None:
    recorder = Sent()
    faults = ("crash sta1 at 3 for 3", "crash sta1 at 6 for 4")
    Simulation(scenario(*faults, protocol="broker-gpsr"), recorder).run()
    times = recorder.times[0]
    assert not [time for time in times if 3.0 < time < 10.0]
    after = [time for time in times if time > 10.0]
    # Beacons are half a second to one and a half apart: one node app sends them, not two.
    assert 20 / 1.5 - 1 <= len(after) <= 20 / 0.5 * 0.6


@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr", "subscription-forwarding"])
def test_a_subscriber_that_crashes_gets_events_again_when_it_is_back(protocol: str) -> None:
    heard = told("crash sta2 at 10 for 5", protocol=protocol)
    assert not set(heard) & {9, 10, 11, 12, 13}  # published at 10.05 to 14.05 s
    assert set(heard) >= set(range(2, 9)) | set(range(17, 26))
    assert len(heard) == len(set(heard))


class Subscribed(NullRecorder):
    """Remembers when a client subscribed, for the first time and again."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        if decode(datagram).kind == ClientKind.SUBSCRIBE and not to_client:
            self.times.append(time)


def test_a_subscription_is_renewed_no_more_often_after_crashes() -> None:
    recorder = Subscribed()
    crashes = [f"crash sta2 at {second} for 0.1" for second in range(2, 12)]
    Simulation(scenario(*crashes), recorder).run()
    assert len([time for time in recorder.times if time < 12.0]) == 11
    assert [time for time in recorder.times if time > 12.0] == []  # it is due after the end


def test_a_publisher_that_crashes_publishes_nothing_and_what_it_repeats_is_taken() -> None:
    heard = told("crash sta1 at 10 for 5")
    # The event of 14.05 s is offered again each half second: the app is back at 15 s.
    assert sorted(set(ALL) - set(heard)) == [9, 10, 11, 12]


def test_a_subscription_that_ends_while_its_node_app_is_down_is_no_problem() -> None:
    made = scenario("crash sta2 at 10 for 5")
    end = Operation(time=14.7, node=2, action="unsubscribe", subscription=1)
    recorder = Notified()
    simulation = Simulation(made.model_copy(update={"workload": (*made.workload, end)}), recorder)
    simulation.run()
    assert simulation.problems == []
    assert [sequence for station, sequence, _ in recorder.told if station == 1] == ALL[:8]


def test_radios_links_and_partitions_fail_and_heal() -> None:
    lost = sorted(set(ALL) - set(told("radio sta2 at 10 for 5")))
    assert lost == [9, 10, 11, 12, 13]
    everybody = "radio sta3,sta4,sta5,sta6 at 0"
    assert sorted(set(ALL) - set(told(everybody, "link sta1 sta2 at 10 for 5"))) == lost
    assert sorted(set(ALL) - set(told("jam 50,50 power 40 at 10 for 5"))) in (lost, lost[:-1])
    assert told("radio sta1 at 0")[:1] == []


def test_positions_and_clocks_are_wrong_for_the_node_alone_and_as_long_as_it_lasts() -> None:
    made = scenario("position sta1 off 30,-40 at 5 for 5", "position sta1 off 1,0 at 6 for 1")
    moving = made.nodes[0].model_copy(
        update={"waypoints": (Waypoint(0.0, 0.0, 0.0), Waypoint(20.0, 20.0, 0.0))}
    )
    for nodes, way in ((made.nodes, None), ((moving, *made.nodes[1:]), moving)):
        simulation = Simulation(made.model_copy(update={"nodes": nodes}), NullRecorder())
        host, other = simulation.nodes[:2]
        stands = other.position()
        for until, dx, dy in (
            (4.5, 0, 0),
            (5.5, 30, -40),
            (6.5, 31, -40),
            (7.5, 30, -40),
            (11, 0, 0),
        ):
            simulation.run(until)
            x, y = (until, 0.0) if way else nodes[0].waypoints[0][1:]
            assert host.position()[:2] == pytest.approx((x + dx, y + dy))
            assert other.position() == stands

    simulation = Simulation(scenario("clock sta1 ahead 3600 at 0"), NullRecorder())
    simulation.run(5.0)
    assert [host.now() for host in simulation.nodes[:2]] == [3605.0, 5.0]
    assert told("clock sta1 ahead 3600 at 0") == ALL


def test_what_is_disturbed_is_lost_or_comes_late_and_twice_until_it_ends() -> None:
    alone = "radio sta3,sta4,sta5,sta6 at 0"
    lost = [9, 10, 11, 12, 13]
    assert sorted(set(ALL) - set(told(alone, "disturb sta2 sta1 lose 1 at 10 for 5"))) == lost
    assert told(alone, "disturb sta1 sta3 lose 1 at 10 for 5") == ALL
    mixed = told(alone, "disturb sta1 sta2 delay 5 at 0")
    assert mixed != sorted(mixed)
    assert len(mixed) == len(set(mixed)) > 15

    class Heard(Notified):
        def heard(self, time: float, stations: list[int], packet: Packet) -> None:
            self.times = [*getattr(self, "times", ()), *(time for _ in stations)]

    counts = []
    for fault in ("disturb sta1 sta2 lose 0.5 at 0", "disturb sta1 sta2 duplicate 1 at 0"):
        recorder = Heard()
        Simulation(scenario(fault, nodes=2), recorder).run()
        counts.append(len(recorder.times))
        assert recorder.times == sorted(recorder.times)
    assert counts[0] < 40
    assert counts[1] == 2 * 2 * len(ALL)  # each event, and its copy that sta2 sends on


def test_a_stranger_is_heard_by_those_named_under_an_address_of_his_choice() -> None:
    event = Event(1, 99, {"topic": "a"})
    frame = Frame(CommonKind.EVENT, 1, publisher=1, sequence=99, body=event.encode()).encode().hex()
    alone = "radio sta3,sta4,sta5,sta6 at 0"
    assert told(alone, f"stranger {frame} as sta1 to sta3 at 5") == ALL
    assert told(alone, f"stranger {frame} as 99 to sta2 at 5") == [1, 2, 3, 99, *ALL[3:]]
    assert told(alone, f"stranger {frame} as sta1 at 5") == [1, 2, 3, 99, *ALL[3:]]
    assert told(alone, f"stranger {frame} as sta2 at 5") == ALL, "it is sta2's own address"
    assert told(alone, "stranger 00ff as 99 at 5") == ALL


@pytest.mark.parametrize("protocol", ["broker-aodv", "rendezvous-aodv"])
def test_the_next_id_takes_over_from_a_fixed_broker_if_asked_to(protocol: str) -> None:
    hashing = NodeHash(scenario().environment())
    topic = next(text for text in map(str, range(99)) if hashing(text).node == 4)
    heard = []
    for takeover in (False, True):
        made = scenario("crash sta4 at 5", protocol=protocol)
        parameters = made.protocol.parameters | {"takeover": takeover, "rreq_retries": 0}
        workload = tuple(
            each.model_copy(
                update={"filter": (("topic", "=", topic),)}
                if each.action == "subscribe"
                else {"event": {"topic": topic}}
            )
            for each in made.workload
        )
        update = {
            "protocol": made.protocol.model_copy(update={"parameters": parameters}),
            "workload": workload,
        }
        recorder = Notified()
        Simulation(made.model_copy(update=update), recorder).run()
        heard.append({sequence for station, sequence, _ in recorder.told if station == 1})
    without, taken_over = heard
    assert 2 in without & taken_over
    if protocol == "broker-aodv":  # a rendezvous publisher goes on with the list that it has
        assert not without & set(range(15, 26))
    assert taken_over >= set(range(20, 26))


def test_the_same_faults_give_the_same_captures(tmp_path: Path) -> None:
    faults = ("crash 30% at 5 for 5", "jam 50,50 power 10 duty 0.5 at 12 for 3")
    digests = {
        digest(scenario(*each, protocol="broker-gpsr"), tmp_path) for each in (faults, faults, ())
    }
    assert len(digests) == 2


def test_an_access_point_that_fails_is_left_by_its_stations() -> None:
    settings = {"side": 2, "nodes": 6, "speed": 0, "topics": 0}
    made = make_scenario(
        "mesh_grid",
        "flooding",
        seed=1,
        duration=20.0,
        settings=settings | {"faults": "access-point ap1 at 5 for 10"},
    )
    simulation = Simulation(made, NullRecorder())
    first = {}
    for until in (4.9, 14.9, 20.0):
        simulation.run(until)
        cells = simulation.channel.cells  # type: ignore[attr-defined]
        first[until] = [cells.access_point(station) for station in range(6)].count(6)
    assert first[4.9] > 0
    assert first[14.9] == 0
    assert first[20.0] > 0
