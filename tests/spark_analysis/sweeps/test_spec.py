"""Sweep specs and their points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.sweeps import spec as spec_module
from spark_analysis.sweeps.spec import RunPoint, SpecError, points
from tests.spark_analysis.sweeps.helpers import SMALL, spec


def test_points_are_the_product() -> None:
    found = points(spec())
    assert len(found) == 2 * 2 * 2
    assert len({point.key for point in found}) == 8
    assert [p.seed for p in found] == sorted(p.seed for p in found), "whole curves first"
    assert {(p.protocol, p.values["speed"], p.seed) for p in found} == {
        (protocol, speed, seed)
        for protocol in ("flooding", "broker-gpsr")
        for speed in (0.0, 5.0)
        for seed in (1, 2)
    }


def test_a_parameter_of_one_protocol_is_varied_for_that_one_only() -> None:
    found = points(spec(vary={"prediction": ("true", "false")}, seeds=1))
    assert [(p.protocol, dict(p.values)) for p in found] == [
        ("flooding", {}),
        ("broker-gpsr", {"prediction": True}),
        ("broker-gpsr", {"prediction": False}),
    ]


def test_equal_points_of_different_specs_are_the_same() -> None:
    one = {point.key for point in points(spec())}
    more = {point.key for point in points(spec(vary={"speed": ("5.0", "9")}, seeds=3))}
    assert len(one & more) == 4  # two protocols at 5 m/s with two seeds
    other = {point.key for point in points(spec(duration=15.0))}
    assert not one & other


def test_draws_follow_from_the_seed_alone_unless_parameters_are_named() -> None:
    assert all(point.drawn == point.seed for point in points(spec()))
    found = points(spec(vary={"speed": ("0", "5")}, draws=("speed",), seeds=3))
    drawn = {(p.values["speed"], p.seed): p.drawn for p in found}
    assert len(found) == 2 * 2 * 3  # two protocols, two speeds, three seeds
    assert len(set(drawn.values())) == 2 * 3, "another value or seed, another draw"
    for point in found:
        assert point.drawn == drawn[point.values["speed"], point.seed], "all protocols share it"
        assert point.scenario().seed == point.drawn
        assert point.task(Path("of")).seed == point.drawn
    # What is not named, here a variation's setting, leaves the draws as they are.
    varied = points(
        spec(vary={"speed": ("5",)}, draws=("speed",), settings={"nodes": "7", "range": "200"})
    )
    assert {(p.values["speed"], p.seed): p.drawn for p in varied} == {
        key: value for key, value in drawn.items() if key[0] == 5.0 and key[1] <= 2
    }
    # A value that is set rather than varied draws the same, so that points can be shared.
    alone = points(spec(vary={}, draws=("speed",), settings={**SMALL, "speed": "5"}))
    assert {p.seed: p.drawn for p in alone} == {s: drawn[5.0, s] for s in (1, 2)}
    assert {p.key for p in alone} <= {p.key for p in found}


def test_points_at_several_speeds_of_one_seed_draw_everything_differently() -> None:
    wanted = spec(
        topology="manhattan",
        protocols=("broker-gpsr-map",),
        vary={"speed": ("5", "10")},
        settings={},
        draws=("speed",),
        seeds=1,
    )
    slow, fast = (point.scenario() for point in points(wanted))
    again, other = (point.scenario() for point in points(replace(wanted, draws=())))

    def roles(scenario: Scenario) -> set[tuple[int, str]]:
        return {(o.node, o.action) for o in scenario.workload}

    def topics(scenario: Scenario) -> set[str]:
        return {str(o.event["topic"]) for o in scenario.workload if o.action == "publish"}

    def starts(scenario: Scenario) -> list[Waypoint]:
        return [node.waypoints[0] for node in scenario.nodes]

    for of in (roles, topics, starts):
        assert of(slow) != of(fast)
        assert of(again) == of(other), "without draws only the seed decides"


@pytest.mark.parametrize("key", ["moon", "prediction"])
def test_draws_that_protocols_do_not_share_are_refused(key: str) -> None:
    with pytest.raises(SpecError, match=f"draws cannot differ by '{key}'.*speed"):
        points(spec(draws=(key,)))


def test_faults_of_a_file_are_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "faults"
    monkeypatch.chdir(tmp_path)
    found: list[RunPoint] = []
    for line in ("crash sta1 at 12", "crash sta2 at 12", "crash sta2 at 12  # the same"):
        listed.write_text(line + "\nradio sta3 at 13\n")
        found.append(points(spec(settings={"faults": "file:faults"}))[0])
    first, other, same = found
    assert first.key != other.key == same.key
    assert same.settings["faults"] == "crash sta2 at 12; radio sta3 at 13", "wherever it is run"
    listed.unlink()
    with pytest.raises(SpecError, match="cannot read the faults in faults: No such file"):
        points(spec(settings={"faults": "file:faults"}))


def test_faults_may_be_longer_than_the_name_of_a_file() -> None:
    faults = "; ".join(f"crash sta1 at {second} for 0.1" for second in range(1, 15))
    assert points(spec(settings={"faults": faults}))[0].settings["faults"] == faults


def test_draws_by_a_parameter_with_several_defaults_need_its_value() -> None:
    both = spec(protocols=("flooding", "broker-gpsr"), draws=("ttl",))
    with pytest.raises(SpecError, match="'ttl', whose default is not the same for all protocols"):
        points(both)
    found = points(replace(both, settings={**both.settings, "ttl": "9"}))
    assert {point.seed: point.drawn for point in found if point.protocol == "flooding"} == {
        point.seed: point.drawn for point in found if point.protocol == "broker-gpsr"
    }


def test_other_code_is_another_point(monkeypatch: pytest.MonkeyPatch) -> None:
    before = points(spec())[0].key
    monkeypatch.setattr(spec_module, "code_key", lambda *_: "of other code")
    assert points(spec())[0].key != before


@given(
    speeds=st.lists(st.integers(0, 50), min_size=1, max_size=4),
    intervals=st.lists(st.sampled_from(["0.5", "1", "1.0", "2"]), min_size=1, max_size=4),
    seeds=st.integers(1, 4),
    protocols=st.sets(st.sampled_from(list(PROTOCOLS))).map(lambda some: {*some, "broker-gpsr"}),
)
def test_points_are_one_for_each_combination(
    speeds: list[int], intervals: list[str], seeds: int, protocols: set[str]
) -> None:
    vary = {"speed": tuple(map(str, speeds)), "hello_interval": tuple(intervals)}
    wanted = spec(protocols=tuple(protocols), vary=vary, seeds=seeds)
    if any(len(set(map(float, values))) < len(values) for values in vary.values()):
        with pytest.raises(SpecError, match="comes twice: give each value of --vary once"):
            points(wanted)
        return
    found = points(wanted)
    of_one = [
        1 if protocol == "flooding" else len(set(map(float, intervals))) for protocol in protocols
    ]
    assert len(found) == len(set(speeds)) * seeds * sum(of_one)
    assert len({point.key for point in found}) == len(found)
    for point in found:
        assert all(type(value) is float for value in point.values.values())


def test_a_file_is_what_it_holds_and_wherever_workers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "ways.tcl"
    file.write_text("one")
    wanted = spec(topology="movement_trace", vary={}, settings={"file": "ways.tcl"})
    before = points(wanted)[0]
    assert before.settings["file"] == str(file)
    file.write_text("another")
    assert points(wanted)[0].key != before.key
