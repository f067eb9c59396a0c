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


def test_a_logarithmic_axis_keeps_small_values_apart() -> None:
    rate = Quantity("rate", "Rate", "Of events.", "events/s", logarithmic=True)
    curve = [(1, Interval(0.1, 0.09, 0.11, 10)), (2, Interval(200.0, 190.0, 210.0, 10))]
    drawing = multiples(rate, "share", {"": {"": curve}})
    axes = drawing.figure.axes[0]
    assert axes.get_yscale() == "log"
    low, high = axes.get_ylim()
    assert 0 < low < 0.09
    assert high > 210


def test_a_logarithmic_axis_of_one_decade_has_values_in_between() -> None:
    delay = Quantity("delay", "Delay", "Of deliveries.", "ms", logarithmic=True)
    curve = [(1, Interval(6.0, 5.9, 6.1, 10)), (2, Interval(25.0, 24.0, 26.0, 10))]
    axes = multiples(delay, "share", {"": {"": curve}}).figure.axes[0]
    axes.figure.canvas.draw()
    low, high = axes.get_ylim()
    labels = [label for label in axes.get_yticklabels() if low <= label.get_position()[1] <= high]
    shown = [label.get_text() for label in labels]
    assert shown == ["10", "20"]
    assert not any(label.get_text() for label in axes.get_yticklabels(minor=True))


def test_names_of_values_that_have_no_room_below_a_panel_are_slanted() -> None:
    interval = Interval(3.0, 2.9, 3.1, 10)
    curve = [(name, interval) for name in ("MQTT's broker", "30 % of stations", "partition")]
    for panels, slant in ((("",), 0.0), (("one", "other"), 25.0)):
        drawing = multiples(HOPS, "what fails", {name: {"a": curve} for name in panels})
        labels = [label for axes in drawing.figure.axes for label in axes.get_xticklabels()]
        assert {label.get_rotation() for label in labels} == {slant}
