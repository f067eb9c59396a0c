"""Motion of a script's nodes."""

from __future__ import annotations

import math
import random
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from emulation.scripts import models
from emulation.scripts import mover as mover_module
from emulation.scripts.groups import Groups, levy_walk
from emulation.scripts.motion import (
    RANDOM_MODELS,
    Bounds,
    TimedMotion,
    along,
    bounds_of,
    gauss_markov,
    in_group,
    model_of,
)
from emulation.scripts.mover import Mover
from emulation.scripts.replaying import (
    ReplayingMobility,
    ReplayingNetworkConditions,
    steps,
)
from emulation.scripts.session import ScriptError


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
        ([("start", 0, "0,0,0")], "there is no 'stop'"),
        ([("start", 0, "0,0,x")], "is no position: 'x,y,z', metres"),
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


@pytest.mark.parametrize("model", RANDOM_MODELS)
def test_models_stay_inside_at_their_speeds_and_repeat(model: str) -> None:
    bounds = Bounds((10.0, 20.0, 60.0, 50.0), 1.0, 3.0)
    plan = RANDOM_MODELS[model](bounds, None, random.Random("7/sta1"))
    again = RANDOM_MODELS[model](bounds, None, random.Random("7/sta1"))
    other = RANDOM_MODELS[model](bounds, None, random.Random("7/sta2"))
    way = [plan(0.25 * step) for step in range(1200)]
    assert way == [again(0.25 * step) for step in range(1200)]
    assert way[100] != other(25.0)
    assert all(10 <= x <= 60 and 20 <= y <= 50 for x, y, _ in way)
    speeds = [math.dist(one, two) / 0.25 for one, two in pairwise(way)]
    assert max(speeds) <= 3.0 + 1e-6
    assert sum(speeds) / len(speeds) > 0.5
    assert len({(round(x), round(y)) for x, y, _ in way}) > 50


def test_every_model_is_found_in_one_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def rng(seed: Any, name: str) -> random.Random:
        return random.Random(f"{seed}/{name}")

    one, other = Node(), Node(name="sta2")
    for name in models.MODELS:
        models.check_model(name)
        options = {"model": name, "pointlist": ["0,0,0", "50,0,0"], "seed": 7}
        ways = models.plans(options, [one, other], rng)
        again = models.plans(options, [one, other], rng)
        assert [ways[node](30.0) for node in (one, other)] == [
            again[node](30.0) for node in (one, other)
        ]
        assert ways[one](30.0) != ways[other](30.0)
    with pytest.raises(ScriptError, match=r"model='Still'\): there are RandomDirection, .*CRP"):
        models.check_model("Still")
    still = models.ScriptModel(lambda given: lambda number, node, rng: lambda _: (number, 0, 0))
    monkeypatch.setattr(models, "MODELS", {**models.MODELS, "Still": still})
    models.check_model("Still")
    ways = models.plans({"model": "Still"}, [one, other], rng)
    assert [ways[node](5.0) for node in (one, other)] == [(0, 0, 0), (1, 0, 0)]


def test_models_have_the_options_of_scripts() -> None:
    bounds = Bounds((0.0, 0.0, 100.0, 100.0), 1.0, 2.0)

    def speeds(name: str, options: dict[str, float], **params: float) -> list[float]:
        node = Node()
        node.params = dict(params)
        plan = model_of(name, options, node)(bounds, None, random.Random("7/sta1"))
        way = [plan(float(second)) for second in range(1000)]
        return [math.dist(one, two) for one, two in pairwise(way)]

    assert speeds("RandomWayPoint", {}) == speeds("RandomWayPoint", {"alpha": 0.5})
    rests = [each for each in speeds("RandomWayPoint", {"min_wt": 5, "max_wt": 9}) if each == 0]
    assert 60 < len(rests) < 180  # some 20 ways of 35 s
    walked = speeds("RandomWalk", {}, constantVelocity=1.5)
    assert max(walked) <= 1.5 + 1e-6
    assert sum(each > 1.499 for each in walked) > 900  # but at the borders
    calm = speeds("GaussMarkov", {"velocity_mean": 1.2, "variance": 0.0})
    assert all(abs(each - 1.2) < 0.01 for each in calm)
    with pytest.raises(ScriptError, match="alpha above 1"):
        model_of("GaussMarkov", {"alpha": 3}, Node())
    for mean in (0.5, 2.5):
        with pytest.raises(ScriptError, match=rf"velocity_mean={mean}\).* min_v=1 to max_v=2 m/s"):
            speeds("GaussMarkov", {"velocity_mean": mean})


def test_a_group_follows_its_points_there_and_back() -> None:
    points = [(0, 0, 0), (100, 0, 0)]
    members = [in_group(points, random.Random(f"7/sta{number}")) for number in (1, 2)]
    for seconds, centre in ((0.0, 0), (25.0, 50), (50.0, 100), (75.0, 50), (100.0, 0)):
        positions = [plan(seconds) for plan in members]
        assert positions[0] != positions[1]
        assert all(abs(x - centre) <= 10 and abs(y) <= 10 and z == 0 for x, y, z in positions)
    with pytest.raises(ScriptError, match="give pointlist"):
        in_group([(0, 0, 0)], random.Random("7/sta1"))


AREA = Bounds((0.0, 0.0, 200.0, 100.0), 1.0, 1.0)


def spread(plans: list[Any], seconds: float) -> float:
    """Return the mean distance of nodes from their middle."""
    positions = [plan(seconds)[:2] for plan in plans]
    middle = [sum(each) / len(positions) for each in zip(*positions, strict=True)]
    return sum(math.dist(position, middle) for position in positions) / len(positions)


def test_members_of_a_group_keep_together_and_groups_go_their_own_ways() -> None:
    options = {"n_groups": 2, "velocity": (1.0, 2.0), "aggregation": 0.8}
    groups = Groups("ReferencePoint", options, AREA, 7)
    plans = [groups.member(number, f"sta{number}") for number in range(12)]
    again = Groups("ReferencePoint", options, AREA, 7).member(3, "sta3")
    times = range(600, 1200, 20)
    assert [again(each) for each in times] == [plans[3](each) for each in times]
    together = [spread(plans[group::2], each) for each in times for group in (0, 1)]
    assert max(together) < 15
    assert spread(plans, 0.0) > 30  # they begin anywhere
    apart = [math.dist(plans[0](each), plans[1](each)) for each in times]
    assert max(apart) > 50
    middles = [plans[0](each)[0] for each in times]
    assert max(middles) - min(middles) > 50  # the centre travels
    assert all(0 <= x <= 200 and 0 <= y <= 100 for x, y, _ in (plans[0](t) for t in times))


def test_communities_gather_in_some_stages_and_scatter_in_others() -> None:
    options = {"epoch": [300, 300], "aggregation_epoch": [0.9, 0.0]}
    groups = Groups("TimeVariantCommunity", options, AREA, 7)
    plans = [groups.member(number, f"sta{number}") for number in range(12)]
    gathered = [spread(plans, seconds) for seconds in (290, 890, 1490)]
    scattered = [spread(plans, seconds) for seconds in (590, 1190, 1790)]
    assert max(gathered) < 5
    assert min(scattered) > 2 * max(gathered)


def test_flights_are_short_mostly_and_long_at_times() -> None:
    plan = levy_walk(AREA, random.Random("7/sta1"))
    way = [plan(float(second)) for second in range(3600)]
    steps_ = [math.dist(one, two) for one, two in pairwise(way)]
    assert sum(step == 0 for step in steps_) > 900  # it rests
    assert max(steps_) <= math.sqrt(50) / 10 + 1e-9
    assert all(0 <= x <= 200 and 0 <= y <= 100 for x, y, _ in way)
    small = levy_walk(Bounds((0.0, 0.0, 2.0, 30.0), 1.0, 1.0), random.Random("7/sta1"))
    assert max(small(float(second))[0] for second in range(3600)) <= 2
    with pytest.raises(
        ScriptError, match=r"the area, 1\.9 m by 30 m, is too small .*: give it 2 m"
    ):
        levy_walk(Bounds((0.0, 0.0, 1.9, 30.0), 1.0, 1.0), random.Random("7/sta1"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_groups": 0}, "n_groups=0"),
        ({"velocity": 3}, r"give \(least, most\) in m/s"),
        ({"epoch": [10], "aggregation_epoch": [0.5, 0.1]}, "as many aggregation_epoch"),
    ],
)
def test_what_is_wrong_with_groups_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        Groups("TimeVariantCommunity", options, AREA, 1)


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


def test_directions_of_gauss_markov_keep_to_a_mean() -> None:
    bounds = Bounds((0, 0, 1e6, 1e6), 0.001, 10.0)
    plan = gauss_markov(bounds, (5e5, 5e5, 0), random.Random(1), alpha=0.5, mean=5.0, deviation=0.5)
    way = [plan(second)[:2] for second in range(2000)]
    angles = [math.atan2(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(way)]
    apart = [math.cos(b - a) for a, b in zip(angles, angles[100:], strict=False)]
    # Directions 100 s apart are independent, of a normal distribution of this deviation.
    assert sum(apart) / len(apart) == pytest.approx(math.exp(-(0.5**2)), abs=0.05)


def test_a_nodes_own_bounds_come_first() -> None:
    node = Node()
    node.params = {"min_x": 5, "max_v": 2}
    defaults = {"min_x": 0.0, "min_y": 0.0, "max_x": 9.0, "max_y": 9.0, "min_v": 1.0, "max_v": 9.0}
    assert bounds_of(node, defaults) == Bounds((5, 0, 9, 9), 1, 2)
    node.params = {"min_x": 9}
    with pytest.raises(ScriptError, match="must be below max_x"):
        bounds_of(node, defaults)


def test_a_replayed_way_reaches_each_position_at_its_time() -> None:
    plan = steps([(0, 0, 0), (10, 0, 0), (10, 4, 0)], [1.0, 2.0, 4.0])
    assert [plan(time)[:2] for time in (0, 1, 1.5, 3, 9)] == [
        (0, 0),
        (0, 0),
        (5, 0),
        (10, 2),
        (10, 4),
    ]


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
