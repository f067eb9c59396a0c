"""Contact traces.  `recorded/one_connectivity.txt` is of the ONE 1.6: eight nodes, two minutes."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import ScenarioError
from emulation.mobility.contacts import Contact, Contacts, read
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from topologies.catalog import make_scenario

ONE = Path(__file__).parent / "recorded" / "one_connectivity.txt"
HAGGLE = """\
1\t2\t121\t241\t1\t0
2\t1\t200\t300\t1\t0
10\t2\t400\t400\t1\t0
1\t3\t500\t620\t2\t259
"""
"""In the columns of CRAWDAD's cambridge/haggle: ids, start, end, number, seconds since the last."""


def made(file: Path, protocol: str = "flooding", **settings: str | float) -> Scenario:
    values = {"file": str(file), "subscribers": 2, "topics": 1, "interval": 1, **settings}
    return make_scenario("contact_trace", protocol, seed=1, duration=60.0, settings=values)


def replayed(path: Path, time: float) -> set[tuple[int, int]]:
    """Return who is in contact by the lines until a time, read by themselves."""
    linked: set[tuple[int, int]] = set()
    for line in path.read_text().splitlines():
        at, _, one, other, change = line.split()
        if float(at) <= time:
            (linked.add if change == "up" else linked.discard)((int(one), int(other)))
    return linked


def test_connections_of_the_one_are_up_as_in_its_file() -> None:
    count, contacts = read(ONE, 0.0, 120.0)
    assert count == 8
    trace = Contacts(contacts, range(1, 9))
    changes = 0.0
    for time in (0.0, 0.1, 4.35, 30.0, 77.7, 119.99):
        assert trace.at(time) == replayed(ONE, time)
    seen = []
    while (changes := trace.next(changes)) < math.inf:
        seen.append(changes)
    times = {float(line.split()[0]) for line in ONE.read_text().splitlines()}
    assert set(seen) == {min(time, 120.0) for time in times}


def test_a_run_may_begin_later_and_with_fewer_nodes() -> None:
    count, contacts = read(ONE, 30.0, 20.0, nodes=5)
    assert count == 5
    trace = Contacts(contacts, range(1, 6))
    for time in (0.0, 7.0, 19.5):
        assert trace.at(time) == {(a, b) for a, b in replayed(ONE, 30.0 + time) if b < 5}
    assert all(0 <= contact.start < contact.end <= 20.0 for contact in contacts)


def test_intervals_of_both_directions_are_one_contact(tmp_path: Path) -> None:
    file = tmp_path / "contacts.dat"
    file.write_text(HAGGLE)
    count, contacts = read(file, 0.0, 1000.0)
    assert count == 4  # 1, 2, 3, 10
    assert contacts == [
        Contact(1, 2, 121.0, 300.0),
        Contact(2, 4, 400.0, 400.0),
        Contact(1, 3, 500.0, 620.0),
    ]
    _, contacts = read(file, 0.0, 1000.0, sighting=120.0)
    assert contacts[1] == Contact(2, 4, 400.0, 520.0)


def test_a_window_in_which_nobody_meets_is_refused_with_when_they_do(tmp_path: Path) -> None:
    file = tmp_path / "contacts.dat"
    file.write_text("1 2 1700000000 1700000060\n3 4 1700000030 1700000090\n")
    assert len(read(file, 1.7e9, 60.0)[1]) == 2
    for begin, nodes in ((0.0, 0), (1.7e9 + 70, 2)):
        with pytest.raises(ScenarioError, match="the first contact of all is at 1700000000 s"):
            read(file, begin, 60.0, nodes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no contacts"),
        ("1 2 3\n", ":1: neither"),
        ("# ids\n1 2 a 5\n", ":2: 'a' is not a time"),
        ("1 2 5 nan\n", "'nan' is not a time"),
        ("1 2 5 4\n", "it ends before it starts"),
        ("1 1 5 6\n", "1 meets itself"),
        ("1.0 CONN 1 2\n", "expected `time CONN one other up`"),
        ("1.0 CONN 1 2 sideways\n", "expected `time CONN one other up`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text(text)
    with pytest.raises(ScenarioError) as refusal:
        read(file, 0.0, 60.0)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.binary(max_size=200))
def test_no_file_is_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any-contacts"
    for begin in (b"", b"1 2 3 4\n", b"0 CONN 1 2 up\n1 "):
        file.write_bytes(begin + content)
        with suppress(ScenarioError):
            read(file, 0.0, 60.0)


def test_stations_hear_each_other_exactly_while_they_are_in_contact() -> None:
    scenario = made(ONE)
    simulation = Simulation(scenario, NullRecorder())
    table = simulation.medium.table
    for until in (1.0, 4.35, 30.0, 59.0):
        simulation.run(until)
        linked = {
            (min(one, other), max(one, other))
            for one in range(8)
            for other in table.row(one).sense - {one}
        }
        assert linked == replayed(ONE, until)
        levels = table.levels(range(8), range(8))
        assert {
            (one, other)
            for one in range(8)
            for other in range(one + 1, 8)
            if levels[one, other] > -math.inf
        } == linked


def test_an_event_goes_over_contacts_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text("1 2 0 60\n2 3 0 20\n2 3 40 60\n")
    scenario = made(file, publishers=1)
    assert len(scenario.nodes) == 3
    simulation = Simulation(scenario, NullRecorder())
    received = []
    for until in (20.0, 40.0, 60.0):
        simulation.run(until)
        received.append(simulation.medium.counters.as_dict()["received"][2])
    assert received[0] > 0
    assert received[1] == received[0], "it meets nobody"
    assert received[2] > received[1]


def test_what_needs_places_is_refused() -> None:
    for protocol in ("broker-gpsr", "georendezvous"):
        with pytest.raises(ScenarioError, match=f"{protocol} routes to places"):
            made(ONE, protocol)
    for fault in ("partition x=50 at 9", "jam 1,2 power 20 duty 1 at 9"):
        with pytest.raises(ScenarioError, match="it needs positions, and a contact trace has none"):
            made(ONE, faults=fault)
    with pytest.raises(ScenarioError, match="has 8 nodes: lower nodes from 9"):
        made(ONE, nodes=9)
    with pytest.raises(ScenarioError, match="needs a file"):
        make_scenario("contact_trace", "flooding", seed=1, duration=60.0, settings={})
