"""Confidence intervals against tables and against their meaning."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analysis.report.confidence import Interval, mean_interval, t_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (120, 1.980)]
)
def test_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=5e-4)


@given(level=st.floats(0.01, 0.9999))
def test_quantiles_are_those_of_the_closed_forms(level: float) -> None:
    # With one and two degrees of freedom, and with so many that Student's is the normal one.
    assert t_quantile(1, level) == pytest.approx(math.tan(math.pi * level / 2), rel=1e-9)
    assert t_quantile(2, level) == pytest.approx(level * math.sqrt(2 / (1 - level**2)), rel=1e-9)
    normal = statistics.NormalDist().inv_cdf((1 + level) / 2)
    assert t_quantile(1e7, level) == pytest.approx(normal, rel=1e-5)


@given(freedom=st.floats(1, 500), more=st.floats(0.1, 100), level=st.floats(0.5, 0.99))
def test_more_values_and_less_certainty_make_quantiles_smaller(
    freedom: float, more: float, level: float
) -> None:
    assert t_quantile(freedom + more, level) < t_quantile(freedom, level)
    assert t_quantile(freedom, level) < t_quantile(freedom, level + 0.005)


@pytest.mark.parametrize(("freedom", "level"), [(0, 0.95), (3, 0), (3, 1), (math.nan, 0.9)])
def test_what_has_no_quantile_is_refused(freedom: float, level: float) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile(freedom, level)


def test_an_interval_of_a_mean() -> None:
    interval = mean_interval([4.0, 5.0, 6.0])
    assert interval.mean == 5
    assert interval.half_width == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert interval.count == 3


def test_one_value_has_no_ends() -> None:
    interval = mean_interval([2.0])
    assert interval.mean == 2
    assert not interval.known


def test_values_without_spread_have_an_interval_of_nothing() -> None:
    assert mean_interval([1.0, 1.0]) == Interval(1, 1, 1, 2)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng = random.Random(3)
    held = []
    for _ in range(2000):
        interval = mean_interval([rng.gauss(10, 3) for _ in range(4)])
        held.append(interval.low <= 10 <= interval.high)
    assert statistics.fmean(held) == pytest.approx(0.95, abs=0.02)
