"""Buckets over time: round, not too many, and none narrower than publishers publish."""

from __future__ import annotations

import pytest

from spark_analysis.measures.runs import round_width


@pytest.mark.parametrize(
    ("span", "interval", "width"),
    [
        (60.0, 0.0, 1.0),
        (60.1, 0.0, 2.0),
        (60.0, 1.0, 1.0),
        (60.0, 5.0, 5.0),
        (60.0, 7.0, 10.0),
        (600.0, 0.5, 10.0),
        (600.0, 30.0, 30.0),
        (1e7, 0.0, 3600.0),
        (60.0, 9000.0, 3600.0),
    ],
)
def test_buckets_are_no_narrower_than_the_publishing_interval(
    span: float, interval: float, width: float
) -> None:
    assert round_width(span, interval) == width
