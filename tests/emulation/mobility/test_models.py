"""What holds for every mobility model, and what each one is known for."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from emulation.errors import ScenarioError
from emulation.mobility.base import Mobility, shared
from emulation.mobility.gauss_markov import GaussMarkov
from emulation.mobility.levy_walk import LevyWalk
from emulation.mobility.reference_point import ReferencePoint
from emulation.mobility.registry import MODELS, mobility, model_named, model_parameters, setting
from emulation.mobility.time_variant_community import TimeVariantCommunity
from emulation.mobility.trajectory import Position2D, Trace, Waypoint
from emulation.scenario.scenario import Scenario
from topologies.catalog import make_scenario

FIELD = (10.0, 20.0, 610.0, 520.0)
NEEDED: dict[str, Any] = {"CRP": {"pointlist": "100 100; 300 100; 300 400"}}
"""What a model cannot do without."""


def model_of(name: str, min_v: float = 1.0, max_v: float = 3.0, **own: Any) -> Mobility:
    return mobility(name, FIELD, min_v, max_v, {**NEEDED.get(name, {}), **own})


def tracks_of(
    model: Mobility, count: int, duration: float, seed: int = 7
) -> list[tuple[Waypoint, ...]]:
    rng = random.Random(seed)
    return model.trajectories(model.positions(count, rng), duration, shared(rng))


def spread(positions: Sequence[Position2D]) -> float:
    """Return the mean distance of nodes from their middle."""
    middle = [sum(each) / len(positions) for each in zip(*positions, strict=True)]
    return sum(math.dist(position, middle) for position in positions) / len(positions)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_moves_inside_its_area_and_repeats(name: str) -> None:
    tracks = tracks_of(model_of(name), 4, 200.5)
    assert tracks == tracks_of(model_of(name), 4, 200.5) != tracks_of(model_of(name), 4, 200.5, 8)
    for track in tracks:
        assert track[0].time == 0.0
        assert track[-1].time >= 200.5
        assert all(one.time <= other.time for one, other in pairwise(track))
        assert all(10 <= x <= 610 and 20 <= y <= 520 for _, x, y in track)
    trace = Trace(tracks)
    ways = [[trace.position(node, 0.5 * step) for step in range(400)] for node in range(4)]
    assert all(sum(math.dist(*pair) for pair in pairwise(way)) > 5 for way in ways)
    assert len({tuple(way) for way in ways}) == 4


@pytest.mark.parametrize("name", ["RandomDirection", "RandomWalk", "GaussMarkov", "RandomWayPoint"])
def test_who_goes_alone_keeps_to_the_bounds_of_speeds(name: str) -> None:
    for track in tracks_of(model_of(name), 3, 900.0):
        legs = [(math.dist(a[1:], b[1:]), b.time - a.time) for a, b in pairwise(track)]
        assert all(way <= 3.0 * seconds + 1e-6 for way, seconds in legs)
        assert sum(way for way, _ in legs) > 0.5 * sum(seconds for _, seconds in legs)


@pytest.mark.parametrize("name", MODELS)
def test_at_speed_0_nobody_moves(name: str) -> None:
    assert not any(
        math.dist(point[1:], track[0][1:])
        for track in tracks_of(model_of(name, 0.0, 0.0), 3, 60.0)
        for point in track
    )


def test_a_model_has_a_name_in_mininet_wifi_and_one_in_settings() -> None:
    assert list(map(setting, MODELS.values())) == [
        *("random-direction", "random-walk", "gauss-markov", "levy-walk", "reference-point"),
        *("time-variant-community", "crp", "random-waypoint", "freeway", "manhattan"),
    ]
    for name in ("GaussMarkov", "gaussmarkov", "gauss-markov"):
        assert model_named(name) is GaussMarkov
    with pytest.raises(ScenarioError, match=r"'GausMarkov' \(did you mean GaussMarkov\?\); there"):
        model_named("GausMarkov")


def of_field(**settings: str) -> Scenario:
    settings = {"side": "700", **settings}
    return make_scenario("roaming_field", "flooding", seed=3, duration=60.0, settings=settings)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("topology", ["roaming_field", "uniform_field", "mesh_grid"])
def test_every_model_moves_the_stations_of_a_topology(name: str, topology: str) -> None:
    settings = {
        "mobility": setting(MODELS[name]),
        "speed": "3",
        **({"nodes": "200"} if topology == "uniform_field" else {}),
        **NEEDED.get(name, {}),
    }
    if name in ("Freeway", "Manhattan") and topology == "uniform_field":
        settings |= {"cells": "no", "degree": "10"}
    scenario = make_scenario(topology, "flooding", seed=3, duration=60.0, settings=settings)
    assert scenario.topology_parameters["mobility"] == setting(MODELS[name])
    own = {each.name for each in MODELS[name].parameters()}
    assert {*scenario.topology_parameters} & {*model_parameters()} == own
    moving = [node for node in scenario.nodes if not node.wired]
    trace = Trace([node.waypoints for node in moving])
    paths = [math.dist(trace.position(n, 0), trace.position(n, 60)) for n in range(len(moving))]
    assert max(paths) > 1
    assert bool(scenario.road_map) == (name in ("Freeway", "Manhattan"))


def test_a_parameter_of_the_chosen_model_is_set_and_one_of_another_is_refused() -> None:
    calm, free = (of_field(mobility="gauss-markov", memory=memory) for memory in ("1", "0"))
    straight = [abs(b.x - a.x) for a, b in pairwise(calm.nodes[0].waypoints[:5])]
    assert max(straight) - min(straight) < 1e-9
    assert calm.nodes[0].waypoints != free.nodes[0].waypoints
    with pytest.raises(
        ScenarioError, match=r"memory is not a parameter of the mobility random-waypoint: leave"
    ):
        of_field(memory="0.5")
    with pytest.raises(ScenarioError, match=r"mobility: 'gauss' is none of .*gauss-markov"):
        of_field(mobility="gauss")
    with pytest.raises(ScenarioError, match="mobility crp: give two points or more within"):
        of_field(mobility="crp", pointlist="0 0; 900 0")
    with pytest.raises(ScenarioError, match="mobility time-variant-community: give epoch"):
        of_field(mobility="time-variant-community", epoch="10 20 30")


def test_a_group_goes_over_its_points_there_and_back() -> None:
    model = model_of("CRP", 2.0, 2.0)
    trace = Trace(tracks_of(model, 5, 600.0))
    for seconds, (x, y) in (
        (0, (100, 100)),
        (50, (200, 100)),
        (250, (300, 400)),
        (400, (300, 100)),
    ):
        for node in range(5):
            there = trace.position(node, seconds)
            assert math.dist(there, (x, y)) <= 10 * math.sqrt(2) + 1e-6
    starts = model.positions(5, random.Random(1))
    tracks = model.trajectories(starts, 10.0, shared(random.Random(1)))
    assert all(
        math.dist(track[0][1:], start) < 1e-9 for track, start in zip(tracks, starts, strict=True)
    )


def groups(model: Mobility, count: int) -> Trace:
    return Trace(tracks_of(model, count, 1800.0))


def test_members_of_a_group_keep_together_and_groups_go_their_own_ways() -> None:
    model = ReferencePoint((0.0, 0.0, 200.0, 100.0), 1.0, 2.0, n_groups=2, aggregation=0.8)
    trace = groups(model, 12)
    times = range(600, 1200, 20)
    at = {second: [trace.position(node, second) for node in range(12)] for second in times}
    together = [spread(at[each][group::2]) for each in times for group in (0, 1)]
    assert max(together) < 15
    assert spread([trace.position(node, 0.0) for node in range(12)]) > 30  # they begin anywhere
    assert max(math.dist(at[each][0], at[each][1]) for each in times) > 50
    middles = [at[each][0][0] for each in times]
    assert max(middles) - min(middles) > 50  # the centre travels


def test_communities_gather_in_some_stages_and_scatter_in_others() -> None:
    area = (0.0, 0.0, 200.0, 100.0)
    model = TimeVariantCommunity(area, 0.1, 1.0, 2, epoch="300 300", aggregation_epoch="0.9 0.0")
    trace = groups(model, 12)

    def of_first(second: float) -> float:
        return spread([trace.position(node, second) for node in range(0, 12, 2)])

    gathered = [of_first(seconds) for seconds in (290, 890, 1490)]
    scattered = [of_first(seconds) for seconds in (590, 1190, 1790)]
    assert max(gathered) < 5
    assert min(scattered) > 2 * max(gathered)


def test_flights_are_short_mostly_and_long_at_times() -> None:
    rng = random.Random("7/sta1")
    model = LevyWalk((0.0, 0.0, 200.0, 100.0), 1.0, 1.0)
    trace = Trace([model.trajectory(model.position(rng), 3600.0, rng)])
    way = [trace.position(0, float(second)) for second in range(3600)]
    steps = [math.dist(one, two) for one, two in pairwise(way)]
    assert sum(step == 0 for step in steps) > 900  # it rests
    assert max(steps) <= math.sqrt(50) / 10 + 1e-9
    small = LevyWalk((0.0, 0.0, 2.0, 30.0), 1.0, 1.0)
    track = small.trajectory(small.position(rng), 3600.0, rng)
    assert max(point.x for point in track) <= 2
    with pytest.raises(
        ValueError, match=r"the area, 1\.9 m by 30 m, is too small .*: give it at least 2 m"
    ):
        LevyWalk((0.0, 0.0, 1.9, 30.0), 1.0, 1.0)


def test_directions_of_gauss_markov_keep_to_a_mean() -> None:
    area = (0.0, 0.0, 1e6, 1e6)
    model = GaussMarkov(area, 0.001, 10.0, memory=0.5, velocity_mean=5.0, variance=0.5)
    way = model.trajectory((5e5, 5e5), 2000.0, random.Random(1))
    angles = [math.atan2(b.y - a.y, b.x - a.x) for a, b in pairwise(way)]
    apart = [math.cos(b - a) for a, b in zip(angles, angles[100:], strict=False)]
    # Directions 100 s apart are independent, of a normal distribution of this deviation.
    assert sum(apart) / len(apart) == pytest.approx(math.exp(-(0.5**2)), abs=0.05)
