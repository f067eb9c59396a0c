"""Which access point a station belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulation.wifi.association import Associations, Change

LEVELS = st.dictionaries(st.integers(0, 4), st.floats(-95, -20), max_size=5)


def test_a_station_takes_the_strongest_first() -> None:
    associations = Associations(hysteresis_db=5)
    assert associations.scan(7.0, [{0: -70, 1: -60}, {}]) == [Change(7.0, 0, None, 1)]
    assert (associations.of(0), associations.of(1)) == (1, None)


def test_it_changes_only_for_one_that_is_stronger_by_more_than_the_hysteresis() -> None:
    associations = Associations(hysteresis_db=5)
    associations.scan(7.0, [{0: -60}])
    assert associations.scan(7.0, [{0: -60, 1: -58}]) == []
    assert associations.scan(7.0, [{0: -60, 1: -55}]) == []
    assert associations.scan(7.0, [{0: -60, 1: -54.9}]) == [Change(7.0, 0, 0, 1)]
    assert associations.scan(7.0, [{0: -56, 1: -60}]) == []  # not back at once


def test_a_lost_access_point_is_left_at_once() -> None:
    associations = Associations(hysteresis_db=5)
    associations.scan(7.0, [{0: -60, 1: -80}])
    assert associations.scan(7.0, [{1: -80}]) == [Change(7.0, 0, 0, 1)]
    assert associations.scan(7.0, [{}]) == [Change(7.0, 0, 1, None)]


def test_of_equals_the_first_is_taken() -> None:
    associations = Associations(hysteresis_db=0)
    assert associations.scan(7.0, [{3: -60, 2: -60}]) == [Change(7.0, 0, None, 2)]


@given(st.lists(LEVELS, max_size=12), st.floats(0, 20))
def test_nobody_is_ever_worse_off_than_by_the_hysteresis(
    scans: list[dict[int, float]], hysteresis: float
) -> None:
    associations = Associations(hysteresis)
    for levels in scans:
        before = associations.of(0)
        changes = associations.scan(7.0, [levels])
        now = associations.of(0)
        assert changes == ([] if before == now else [Change(7.0, 0, before, now)])
        assert (now is None) == (not levels)
        if now is not None:
            assert max(levels.values()) <= levels[now] + hysteresis
            if before in levels and before != now:
                assert levels[now] > levels[before] + hysteresis
