"""Waves of a sweep: which points run together, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_analysis.sweeps import waves
from spark_analysis.sweeps.spec import RunPoint, points
from spark_analysis.sweeps.waves import Costs, take_wave, work
from tests.spark_analysis.sweeps.helpers import spec

WANTED = points(spec(vary={"nodes": ("7", "11", "9")}, settings={"interval": "1"}, seeds=3))
WORKS = {point.key: work(point.scenario()) for point in WANTED}


def nodes(wave: Sequence[RunPoint]) -> list[int]:
    return [point.values["nodes"] for point in wave]


def cost(point: RunPoint) -> float:
    """Return what a point takes here: a protocol has its own, not in the order of the nodes."""
    of_nodes = {7: 3.0, 11: 2.0, 9: 1.0}[point.values["nodes"]]
    return of_nodes * (10.0 if point.protocol == "broker-gpsr" else 1.0)


def test_before_anything_has_run_the_most_work_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "WAVE", 3)
    wave, rest = take_wave(WANTED, 2, Costs(WORKS))
    assert nodes(wave) == [11, 11, 9, 9, 7, 7]
    assert {point.seed for point in wave} == {1}, "the first seeds of all before the second"
    assert rest == WANTED[6:]


def test_what_other_seeds_took_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "WAVE", 3)
    monkeypatch.setattr(waves, "LENGTH", 0.0)
    costs = Costs(WORKS)
    for point in WANTED[:6]:
        costs.note(point, cost(point))
    costs.note(WANTED[0], float("nan"))  # it says nothing
    wave, rest = take_wave(WANTED[6:], 2, costs)
    assert [costs.expected(point) for point in wave] == [30.0, 20.0, 10.0, 3.0, 2.0, 1.0]
    assert {point.seed for point in wave} == {2}
    assert {point.seed for point in rest} == {3}


def test_a_value_that_has_not_run_is_expected_to_take_what_its_protocol_takes() -> None:
    costs = Costs(WORKS)
    first = {(point.protocol, point.values["nodes"]): point for point in WANTED[:6]}
    costs.note(first["flooding", 7], 2.0)
    costs.note(first["broker-gpsr", 7], 40.0)
    more = WORKS[first["flooding", 11].key] / WORKS[first["flooding", 7].key]
    assert more > 1.5
    assert costs.expected(first["flooding", 11]) == pytest.approx(2.0 * more)
    assert costs.expected(first["broker-gpsr", 11]) == pytest.approx(40.0 * more)


def test_short_points_fill_a_wave_up_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "WAVE", 1)
    costs = Costs(WORKS)
    assert len(take_wave(WANTED, 1, costs)[0]) == 1, "nothing is known of any"
    for point in WANTED:
        costs.note(point, 10.0)
    assert len(take_wave(WANTED, 1, costs)[0]) == int(waves.LENGTH / 10.0)
    assert len(take_wave(WANTED, 2, costs)[0]) == int(waves.LENGTH / 5.0)
    monkeypatch.setattr(waves, "MOST", 4)
    assert len(take_wave(WANTED, 2, costs)[0]) == 4
    costs = Costs(WORKS)
    costs.note(WANTED[0], 0.01)
    known = [point.protocol for point in WANTED].index("broker-gpsr")
    assert len(take_wave(WANTED, 1, costs)[0]) == known, "a protocol of which nothing is known"


def test_few_points_are_no_wave_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "WAVE", 8)
    wave, rest = take_wave(WANTED[:9], 1, Costs(WORKS))
    assert len(wave) == 9
    assert not rest
    wave, rest = take_wave(WANTED[:10], 1, Costs(WORKS))
    assert (len(wave), len(rest)) == (8, 2)
