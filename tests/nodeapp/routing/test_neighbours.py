from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.host import Position
from nodeapp.installation import PROJECT
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.over_gpsr import BrokerGpsr
from nodeapp.routing.neighbours import Neighbours, decode_hello, encode_hello
from nodeapp.wire import BROADCAST, Frame, Whereabouts, WireError, decode_body
from tests.nodeapp.network import SimHost, SimNetwork

metres = st.floats(-9e8, 9e8)


def table(node: SimHost) -> Neighbours:
    assert isinstance(node.service, BrokerGpsr)
    return node.service.router.neighbours


def pair(**parameters: object) -> tuple[SimNetwork, SimHost, SimHost]:
    network = SimNetwork()
    one, other = (network.add((x, 0.0), "broker-gpsr", parameters) for x in (0.0, 100.0))
    return network, one, other


@given(metres, metres, metres, metres)
def test_hellos_are_cbor(x: float, y: float, vx: float, vy: float) -> None:
    body = encode_hello(x, y, vx, vy)
    assert decode_hello(body) == (x, y, vx, vy)
    assert decode_body(body) == [x, y, vx, vy]


@given(st.binary(max_size=40) | st.binary(min_size=37, max_size=37))
def test_random_hellos_are_refused_or_finite(body: bytes) -> None:
    with contextlib.suppress(WireError):
        assert all(abs(value) < 1e9 for value in decode_hello(body))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e9])
def test_hellos_from_nowhere_are_refused(bad: float) -> None:
    for index in range(4):
        values = [0.0] * 4
        values[index] = bad
        with pytest.raises(WireError):
            decode_hello(encode_hello(*values))


FIRST = """
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame, WireError
from tests.nodeapp.routing.test_neighbours import pair, table
_, one, _ = pair()
try:
    table(one).hello_received(Frame(CommonKind.HELLO, 9), 9)
except WireError:
    print(len(table(one).table))
"""


def test_a_process_refuses_an_empty_hello_though_it_is_its_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert done.stdout == "0\n"


def test_beacons_come_at_jittered_intervals() -> None:
    network, one, _ = pair()
    network.run(200)
    times = [time for time, sender, _, _ in network.sent if sender == 1]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 0.5 <= min(gaps) < 0.6
    assert 1.4 < max(gaps) <= 1.5
    assert sum(gaps) / len(gaps) == pytest.approx(1.0, abs=0.07)
    assert set(table(one).current()) == {2}


def test_a_silent_neighbour_is_forgotten_after_its_timeout() -> None:
    network, one, other = pair()
    network.run(3)
    heard = table(one).current()[2].heard
    other.failed = True
    network.run(heard + 4.45 - network.time)
    assert set(table(one).positions()) == {2}
    network.run(0.1)
    assert not table(one).positions()


def test_neighbours_are_moved_on_and_left_out_when_out_of_reach() -> None:
    network = SimNetwork()
    still = network.add((0.0, 0.0), "broker-gpsr")
    leaving = network.add(lambda t: Position(100.0 + 50.0 * t, 0.0, 50.0, 0.0), "broker-gpsr")
    plain = network.add((0.0, 5.0), "broker-gpsr", {"prediction": False})
    network.run(2.5)
    leaving.failed = True
    known = table(still).positions()[2]
    assert known[0] == pytest.approx(100.0 + 50.0 * network.time, abs=0.1)
    network.run(1.0)
    assert 2 not in table(still).positions()  # 275 m away
    assert table(still).position_of(2) == pytest.approx((275.0, 0.0), abs=0.1)
    assert 2 in table(plain).positions()


def test_a_node_that_begins_to_move_leaves_standing_neighbours_behind() -> None:
    network = SimNetwork(radio_range=250.0)

    def track(time: float) -> Position:
        return Position(50.0 * max(time - 10, 0), 0.0, 50.0 if time >= 10 else 0.0, 0.0)

    mover = network.add(track, "broker-gpsr")
    network.add((-200.0, 0.0), "broker-gpsr")
    network.run(9.9)
    neighbours = table(mover)
    assert list(neighbours.positions()) == [2]
    network.run(0.6)
    assert list(neighbours.positions()) == [2]
    network.run(1.0)  # 275 m away, before its beacons are missed
    assert list(neighbours.positions()) == []


def test_a_hello_in_anothers_name_is_refused() -> None:
    _, one, _ = pair()
    frame = Frame(CommonKind.HELLO, 7, BROADCAST, body=encode_hello(0, 0, 0, 0))
    one.hear(frame.encode(), 2)
    assert one.service.counters["malformed"] == 1
    assert 7 not in table(one).current()


def test_nodes_at_one_position_announce_different_ones() -> None:
    network = SimNetwork()
    nodes = [network.add((5.0, 5.0), "broker-gpsr") for _ in range(10)]
    assert len({table(node).position() for node in nodes}) == 10


@pytest.mark.parametrize("beyond", [False, True])
def test_a_neighbour_in_the_grey_zone_is_used_only_if_asked_for(beyond: bool) -> None:
    _, one, other = pair(beyond_range=beyond)
    neighbours = table(one)

    def hear(x: float) -> None:
        hello = Frame(CommonKind.HELLO, other.node_id, body=encode_hello(x, 0.0, 0.0, 0.0))
        neighbours.hello_received(hello, other.node_id)

    hear(250.0)
    assert other.node_id in neighbours.positions()
    hear(260.0)
    assert (other.node_id in neighbours.positions()) == beyond


@pytest.mark.parametrize(
    ("hello", "data", "older"),
    [
        ((50, 0, 10, 0), (45, 0, 10, 0), True),
        ((50, 0, 10, 0), (55, 0, 10, 0), False),
        ((50, 0, 0, 10), (40, 0, 10, 0), True),  # it has turned since
        ((50, 0, 10, 0), (55, 5, 0, 10), False),
        ((50, 0, 0, 0), (50, 0, 0, 0), False),
        ((50, 0, 0, 0), (20, 0, 0, 0), False),  # put elsewhere
    ],
)
@pytest.mark.parametrize("predicts", [True, False])
def test_a_position_that_waited_with_data_never_replaces_a_newer_one(
    hello: tuple[float, ...], data: tuple[float, ...], older: bool, predicts: bool
) -> None:
    network, one, _ = pair(prediction=predicts)
    neighbours = table(one)
    neighbours.hello_received(Frame(CommonKind.HELLO, 9, body=encode_hello(*hello)), 9)
    network.run(0.5)
    neighbours.learn_from_data(9, Whereabouts(*data))
    known = neighbours.table[9]
    gone = 0.5 if predicts else 0.0  # s along its velocity
    newer = hello[0] + gone * hello[2], hello[1] + gone * hello[3]
    assert (known.x, known.y) == (newer if older else data[:2])
    assert known.heard == one.now()


def test_neighbours_that_are_known_for_ever_are_not_forgotten_for_being_heard() -> None:
    network, one, _ = pair()
    neighbours = table(one)
    for node in (7, 8, 9):
        neighbours.know(node, 50.0, 0.0)
    neighbours.learn(8, 50.0, 0.0, 0.0, 0.0)
    neighbours.learn_from_data(9, Whereabouts(50.0, 0.0, 0.0, 0.0))
    network.run(100.0)
    assert {7, 8, 9} <= set(neighbours.positions())
