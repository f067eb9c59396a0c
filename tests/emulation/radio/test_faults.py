"""Radios that fail: partitions, jammers, and faults that overlap."""

from __future__ import annotations

import pytest

from emulation.radio.faults import RadioFaults
from emulation.radio.link_row import Jammer
from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import RadioSpec, UnitDisk
from emulation.scenario.faults import Fault
from tests.emulation.radio.channels import SIZE, channel

JAM = Fault(kind="jam", start=0, position=(320.0, 0.0), power_dbm=12.0)
SPECS = {
    "sinr": RadioSpec(range=250),
    "threshold": RadioSpec(range=250, reception="threshold"),
    "disk": RadioSpec(range=250, propagation=UnitDisk(collisions=True)),
    "disk without collisions": RadioSpec(range=250, propagation=UnitDisk(collisions=False)),
}


def delivered(medium: Medium, start: float, count: int = 40, source: int = 0) -> int:
    """Send broadcasts 5 ms apart; return how many arrive anywhere within the time."""
    heard = 0
    for number in range(count):
        medium.transmit(start + 0.005 * number, source, BROADCAST, SIZE, number)
        heard += len(medium.advance(start + 0.005 * (number + 1)))
    return heard


@pytest.mark.parametrize("name", SPECS)
def test_a_jammer_near_the_receiver_drowns_frames_for_as_long_as_it_is_there(name: str) -> None:
    medium = channel([(0.0, 0.0), (200.0, 0.0)], SPECS[name])
    assert delivered(medium, 0.0) == 40
    position = (300.0, 0.0) if "disk" not in name else (400.0, 0.0)
    number = medium.jamming.begin(1.0, Jammer(*position, 12.0, 1.0, 0.01))
    assert medium.table.jam_row(number).sense == {1}  # the sender does not notice
    assert delivered(medium, 1.0) == 0
    medium.jamming.end(number, 2.1)
    assert delivered(medium, 2.1) == 40


def test_a_jammer_that_a_sender_senses_silences_it() -> None:
    medium = channel([(0.0, 0.0), (100.0, 0.0)])
    number = medium.jamming.begin(0.0, Jammer(0.0, 50.0, 20.0, 1.0, 0.01))
    medium.advance(0.001)
    assert delivered(medium, 0.001, 10) == 0
    assert medium.backlog(0) == 10
    assert medium.counters.sent[0] == 0
    medium.jamming.end(number, 0.06)
    assert len(medium.advance(1.0)) == 10


def test_a_jammer_is_on_for_its_share_of_the_time() -> None:
    medium = channel([(0.0, 0.0), (240.0, 0.0)])
    medium.jamming.begin(0.0, Jammer(320.0, 0.0, 12.0, 0.3, 0.1))
    assert 100 <= delivered(medium, 0.0, 200) <= 160
    assert medium.links(0)[0].neighbour == 1  # a jammer is no neighbour


def test_a_partition_cuts_what_crosses_it_wherever_stations_go() -> None:
    medium = channel([(0.0, 0.0), (100.0, 0.0), (200.0, 0.0)])
    faults = RadioFaults([(medium, {"a": 0, "b": 1, "c": 2})])
    line = Fault(kind="partition", start=0, line=(150.0, 0.0, 150.0, 1.0))
    faults.begin(line, 0.0)
    assert [link.neighbour for link in medium.links(0)] == [1]
    assert [link.neighbour for link in medium.links(2)] == []
    medium.set_positions([(0.0, 0.0), (160.0, 0.0), (200.0, 0.0)])
    assert [link.neighbour for link in medium.links(1)] == [2]
    assert delivered(medium, 0.0, 1) == 0
    faults.end(line, 0.3)
    assert [link.neighbour for link in medium.links(0)] == [1, 2]
    assert not medium.table.failed


def test_what_two_faults_take_down_is_up_after_both() -> None:
    medium = channel([(0.0, 0.0), (100.0, 0.0)])
    faults = RadioFaults([(medium, {"a": 0, "b": 1})])
    one, other = (Fault(kind="radio", start=start, nodes=("a",)) for start in (0, 1))
    link = Fault(kind="link", start=0, nodes=("b", "a"))
    for fault in (one, other, link):
        faults.begin(fault, 0.0)
    faults.end(one, 0.0)
    faults.end(link, 0.0)
    assert medium.links(1) == []
    faults.end(other, 0.0)
    assert len(medium.links(1)) == 1


def test_jammers_that_are_alike_end_one_by_one() -> None:
    medium = channel([(0.0, 0.0), (240.0, 0.0)])
    faults = RadioFaults([(medium, {"a": 0, "b": 1})])
    for _ in range(2):
        faults.begin(JAM, 0.0)
    faults.end(JAM, 0.1)
    assert delivered(medium, 0.1) == 0
    faults.end(JAM, 1.0)
    assert delivered(medium, 1.0) == 40


@pytest.mark.parametrize("sense_range", [None, 550.0])
def test_a_jammer_ends_with_its_fault_and_not_with_its_burst(sense_range: float | None) -> None:
    medium = channel([(0.0, 0.0), (100.0, 0.0)], RadioSpec(range=250, sense_range=sense_range))
    long = Jammer(0.0, 50.0, 20.0, 1.0, 10.0)
    number = medium.jamming.begin(0.0, long)
    medium.advance(0.5)
    for frame in range(3):
        medium.transmit(0.5, 0, BROADCAST, SIZE, frame)
    assert medium.advance(1.0) == []
    medium.jamming.end(number, 1.0)
    heard = medium.advance(1.1)
    assert [delivery.frame for delivery in heard] == [0, 1, 2]  # at once, and none is disturbed
    assert heard[0].time > 1.0
    assert medium.advance(20.0) == []
    # A frame in the middle of which it ends has met it.
    near = channel([(0.0, 0.0), (200.0, 0.0)])
    number = near.jamming.begin(0.0, long._replace(x=300.0, y=0.0))
    near.advance(0.1)
    near.transmit(0.1, 0, BROADCAST, SIZE, "late")
    near.advance(0.1005)
    near.jamming.end(number, 0.1005)
    assert near.advance(0.2) == []
    assert delivered(near, 0.3, 10) == 10


def test_a_jammer_that_begins_when_another_ends() -> None:
    medium = channel([(0.0, 0.0), (200.0, 0.0)])
    first = medium.jamming.begin(0.0, Jammer(300.0, 0.0, 12.0, 0.5, 1.0))
    medium.advance(0.1)
    medium.jamming.end(first, 0.2)
    second = medium.jamming.begin(0.2, Jammer(300.0, 0.0, 12.0, 0.5, 1.0))
    assert second != first
    assert delivered(medium, 0.2, 10) == 0
    medium.jamming.end(second, 0.3)
    assert delivered(medium, 0.3, 10) == 10
    medium.advance(2.0)
