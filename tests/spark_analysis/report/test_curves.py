"""Curves over a parameter."""

from __future__ import annotations

import pytest

from spark_analysis.report.confidence import Interval
from spark_analysis.report.curves import Quantity, multiples

HOPS = Quantity("hops", "Hops", "Of deliveries.", "hops")
CURVE = [(125, Interval(3.1, 3.0, 3.2, 10)), (250, Interval(4.0, 3.9, 4.1, 10))]


@pytest.mark.parametrize(("names", "legends"), [(("",), 0), (("static", "with joins"), 1)])
def test_a_curve_without_a_name_needs_no_legend(names: tuple[str, ...], legends: int) -> None:
    drawing = multiples(HOPS, "number of peers", {"": dict.fromkeys(names, CURVE)})
    assert len(drawing.figure.legends) == legends


def test_the_value_axis_says_what_and_not_of_which_study() -> None:
    delay = Quantity("delay", "Static setting, as published: Delay", "Of deliveries.", "ms")
    drawing = multiples(delay, "number of peers", {"": {"": CURVE}})
    assert drawing.figure.axes[0].get_ylabel() == "delay, ms"
