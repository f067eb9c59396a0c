"""Motion of a script's nodes."""

from __future__ import annotations

import math
import random
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from emulation.mn import models
from emulation.mn import mover as mover_module
from emulation.mn.motion import Bounds, TimedMotion, along, bounds_of, in_group
from emulation.mn.mover import Mover
from emulation.mn.replaying import (
    ReplayingMobility,
    ReplayingNetworkConditions,
    jumps,
)
from emulation.mn.session import ScriptError
from emulation.mobility import registry
from emulation.mobility.random_walk import RandomWalk
from emulation.mobility.registry import MODELS
from emulation.mobility.trajectory import Waypoint


class Node:
    name = "sta1"

    def __init__(self, **attributes: Any) -> None:
        self.params: dict[str, Any] = {}
        self.__dict__.update(attributes)


def test_a_way_has_one_speed_over_its_points() -> None:
    plan = along([(0, 0, 0), (30, 0, 0), (30, 10, 0)], 2.0, 6.0)
    assert plan(0.0) == (0, 0, 0)
    assert plan(4.0) == pytest.approx((20, 0, 0))
    assert plan(5.5) == pytest.approx((30, 5, 0))
    assert plan(99.0) == pytest.approx((30, 10, 0))


def test_repetitions_go_back_if_reversed() -> None:
    node, motion = Node(), TimedMotion()
    motion.repetitions, motion.reverse, motion.end = 2, True, 10.0
    motion.stage(node, "start", 0, "0,0,0")
    motion.stage(node, "stop", 10, "100,0,0")
    plan = motion.plans()[node]
    assert [round(plan(time)[0]) for time in (0, 5, 9.99, 12.5, 20, 30)] == [0, 50, 100, 75, 0, 0]


def test_a_way_may_be_given_by_points_of_the_node() -> None:
    node, motion = Node(coord=["0,0,0", "10,0,0", "10,10,0"]), TimedMotion()
    motion.stage(node, "start", 1)
    motion.stage(node, "stop", 5)
    assert motion.plans()[node](4.0) == pytest.approx((10, 5, 0))


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([("begin", 0, "0,0,0")], "'start' or 'stop'"),
        ([("start", 0, "0,0,0")], "'stop' is missing"),
        ([("start", 0, "0,0,x")], "is not a position: give 'x,y' or 'x,y,z' in metres"),
        ([("start", 0, None), ("stop", 1, "0,0,0")], "node.coord"),
    ],
)
def test_what_is_wrong_with_a_way_is_said(stages: Any, said: str) -> None:
    motion, node = TimedMotion(), Node()

    def plan() -> None:
        for name, seconds, position in stages:
            motion.stage(node, name, seconds, position)
        motion.plans()

    with pytest.raises(ScriptError, match=said):
        plan()


def plans_of(options: dict[str, Any], *nodes: Node) -> list[Any]:
    """Return the plans that a call of `setMobilityModel` with these options makes."""
    ways = models.plans(options, nodes, lambda seed, name: random.Random(f"{seed}/{name}"))
    return [ways[node] for node in nodes]


def test_a_script_has_every_model_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Node(), Node(name="sta2")
    for name in MODELS:
        options = {"model": name, "pointlist": ["0,0,0", "50,0,0"], "seed": 7}
        if name in ("Freeway", "Manhattan"):
            options |= {"max_x": 500, "max_y": 500}
        ways, again = plans_of(options, one, other), plans_of(options, one, other)
        assert [plan(30.0) for plan in ways] == [plan(30.0) for plan in again]
        assert ways[0](30.0) != ways[1](30.0)
    with pytest.raises(ScriptError, match=r"model='Still'\): choose from RandomDirection, .*CRP"):
        models.check_model("Still")
    with pytest.raises(ScriptError, match=r"\(did you mean GaussMarkov\?\): choose from"):
        models.check_model("GaussMarkow")

    class Still(RandomWalk):
        name = "Still"

        def trajectory(self, start: Any, duration: float, rng: Any) -> tuple[Waypoint, ...]:
            return (Waypoint(0.0, 3.0, 4.0), Waypoint(duration, 3.0, 4.0))

    monkeypatch.setattr(registry, "MODELS", {**MODELS, "Still": Still})
    ways = plans_of({"model": "Still"}, one, other)
    assert [plan(5.0) for plan in ways] == [(3, 4, 0), (3, 4, 0)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "Freeway", "roads": 30}, r"model='Freeway'\): roads: 30 is above 20"),
        ({"model": "Freeway", "max_y": 10}, r"model='Freeway'\): 2 roads .* do not fit"),
        ({"model": "Manhattan"}, r"model='Manhattan'\): 5 blocks .* do not fit"),
        ({"model": "GaussMarkov", "alpha": 3}, r"model='GaussMarkov'\): .* 3 is above 1"),
        (
            {"model": "TruncatedLevyWalk", "max_x": 1.9, "max_y": 30},
            r"the area, 1\.9 m by 30 m, is too small .*: give it at least 2 m",
        ),
    ],
)
def test_what_a_model_cannot_be_is_said_to_a_script(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        plans_of(options, Node())


def test_vehicles_of_a_script_keep_to_lanes() -> None:
    options = {"model": "Freeway", "max_x": 600, "max_y": 400, "roads": 1, "lanes": 1}
    ways = plans_of(options, *(Node(name=f"car{number}") for number in range(6)))
    positions = [plan(float(second)) for plan in ways for second in range(100)]
    on_lanes = [y for x, y, _ in positions if 0 < x < 600]
    assert len(on_lanes) > 500
    assert {round(y, 6) for y in on_lanes} == {198.0, 202.0}


def test_models_have_the_options_of_scripts() -> None:
    def speeds(name: str, options: dict[str, float], **params: float) -> list[float]:
        node = Node()
        node.params = dict(params)
        bounds = {"max_x": 100, "max_y": 100, "min_v": 1, "max_v": 2, "seed": 7}
        (plan,) = plans_of({"model": name, **bounds, **options}, node)
        way = [plan(float(second)) for second in range(1000)]
        return [math.dist(one, two) for one, two in pairwise(way)]

    assert speeds("RandomWayPoint", {}) == speeds("RandomWayPoint", {"alpha": 0.5})
    assert speeds("RandomWayPoint", {}) == speeds("RandomWaypoint", {})
    rests = [each for each in speeds("RandomWayPoint", {"min_wt": 5, "max_wt": 9}) if each == 0]
    assert 60 < len(rests) < 180  # some 20 ways of 35 s
    walked = speeds("RandomWalk", {}, constantVelocity=1.5)
    assert max(walked) <= 1.5 + 1e-6
    assert sum(each > 1.499 for each in walked) > 900  # but at the borders
    calm = speeds("GaussMarkov", {"velocity_mean": 1.2, "variance": 0.0})
    assert all(abs(each - 1.2) < 0.01 for each in calm)
    with pytest.raises(ScriptError, match="constantVelocity='fast': give a speed in m/s"):
        speeds("RandomWalk", {}, constantVelocity="fast")  # type: ignore[arg-type]
    for mean in (0.5, 2.5):
        with pytest.raises(ScriptError, match=rf"velocity_mean={mean}: .* min_v=1 to max_v=2 m/s"):
            speeds("GaussMarkov", {"velocity_mean": mean})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_groups": 0}, "n_groups: 0 is below 1"),
        ({"velocity": 3}, r"give \(least, most\) in m/s"),
        ({"epoch": [10], "aggregation_epoch": [0.5, 0.1]}, "as many values of aggregation_epoch"),
    ],
)
def test_what_is_wrong_with_groups_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        plans_of({"model": "TimeVariantCommunity", **options}, Node())


def test_a_group_follows_its_points_there_and_back() -> None:
    points = [(0, 0, 0), (100, 0, 0)]
    members = [in_group(points, random.Random(f"7/sta{number}")) for number in (1, 2)]
    for seconds, centre in ((0.0, 0), (25.0, 50), (50.0, 100), (75.0, 50), (100.0, 0)):
        positions = [plan(seconds) for plan in members]
        assert positions[0] != positions[1]
        assert all(abs(x - centre) <= 10 and abs(y) <= 10 and z == 0 for x, y, z in positions)
    with pytest.raises(ScriptError, match="give pointlist"):
        in_group([(0, 0, 0)], random.Random("7/sta1"))


def test_motion_goes_on_after_a_request_that_was_not_answered() -> None:
    told: list[Any] = []
    problems: list[str] = []

    def tell(positions: Any) -> None:
        if not problems:
            raise ScriptError("no answer within 5 s")
        told.append(positions)

    def unanswered(_what: str, problem: ScriptError) -> bool:
        problems.append(str(problem))
        return True

    mover = Mover(tell, unanswered)
    mover.plan({Node(): lambda seconds: (1.0 if seconds > 0 else 0.0, 0.0, 0.0)})
    mover.start()
    deadline = time.monotonic() + 10
    while not told and time.monotonic() < deadline:
        time.sleep(0.02)
    mover.close()
    assert problems == ["no answer within 5 s"]
    assert told == [{"sta1": (1.0, 0.0, 0.0)}]  # though the node has stood still since


def test_each_plan_begins_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(mover_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    mover = Mover(lambda told: None, lambda what, problem: True)
    monkeypatch.setattr(mover, "_begin_thread", lambda: None)
    first, late, followed = (Node(position=(0, 0, 0)) for _ in range(3))
    plan = along([(0, 0, 0), (10, 0, 0)], 0, 10)
    mover.plan({first: plan})
    mover.plan({late: plan}, begin=20.0)
    mover.start()
    now[0] += 25.0
    mover.follow({followed: plan})
    now[0] += 2.0
    mover.step()
    assert [vars(node)["position"][0] for node in (first, late, followed)] == [10, 7, 2]


def test_a_nodes_own_bounds_come_first() -> None:
    node = Node()
    node.params = {"min_x": 5, "max_v": 2}
    defaults = {"min_x": 0.0, "min_y": 0.0, "max_x": 9.0, "max_y": 9.0, "min_v": 1.0, "max_v": 9.0}
    assert bounds_of(node, defaults) == Bounds((5, 0, 9, 9), 1, 2)
    node.params = {"min_x": 9}
    with pytest.raises(ScriptError, match="must be below max_x"):
        bounds_of(node, defaults)


def test_a_replayed_way_reaches_each_position_at_its_time() -> None:
    plan = jumps((5, 5, 0), [(0, 0, 0), (10, 0, 0), (10, 4, 0)], [1.0, 2.0, 4.0])
    assert [plan(time)[:2] for time in (0, 1, 1.5, 3, 9)] == [
        (5, 5),
        (0, 0),
        (0, 0),
        (10, 0),
        (10, 4),
    ]


def test_positions_without_times_come_as_many_a_second_as_the_speed() -> None:
    # ReplayingMobility.notimestamp_ of Mininet-WiFi (mn_wifi/replaying.py, eaa5accb): it begins at
    # 1/speed s, takes `speed` positions at once, and adds 1/speed s for each.
    node = Node(p=[f"{x},0,0" for x in range(1, 6)], params={"speed": 2}, position=(0.0, 0.0, 0.0))
    net = _Net(node)
    ReplayingMobility(net, [node])
    times = (0.4, 0.5, 1.4, 1.5, 2.4, 2.5, 9.0)
    assert [net.plans[node](time)[0] for time in times] == [0, 2, 2, 4, 4, 5, 5]


class _Net:
    """A network of nodes that have lists of values."""

    session = SimpleNamespace(check_options=lambda *_: None)
    cars = ()

    def __init__(self, *nodes: object) -> None:
        self.stations = self.radio_nodes = nodes
        self.mover = self
        self.plans: dict[object, Any] = {}

    def follow(self, plans: dict[object, Any]) -> None:
        self.plans = plans


def test_positions_without_a_time_are_not_replayed() -> None:
    node = Node(p=["0,0,0", "10,0,0", "900,0,0"], time=[1, 2])
    net = _Net(node)
    ReplayingMobility(net, [node])
    assert net.plans[node](9.0)[:2] == (10, 0)


def test_replayed_values_that_are_no_numbers_are_named() -> None:
    node = Node(time=[0.0, 0.1], bw=["", "10"], loss=[0, 0], latency=[0, 0])
    with pytest.raises(ScriptError, match="ReplayingNetworkConditions: time, bw, loss, latency of"):
        ReplayingNetworkConditions(_Net(node))
