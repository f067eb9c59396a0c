"""Sweep specs and their points."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.sweeps import spec as spec_module
from spark_analysis.sweeps.spec import points
from tests.spark_analysis.sweeps.helpers import spec


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
    found = points(spec(protocols=tuple(protocols), vary=vary, seeds=seeds))
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
    wanted = spec(topology="ns2_trace", vary={}, settings={"file": "ways.tcl"})
    before = points(wanted)[0]
    assert before.settings["file"] == str(file)
    file.write_text("another")
    assert points(wanted)[0].key != before.key
