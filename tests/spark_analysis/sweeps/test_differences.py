"""Differences between the protocols of a sweep."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spark_analysis.report.confidence import mean_interval
from spark_analysis.sweeps.differences import differences
from spark_analysis.sweeps.page import QUANTITIES, compared, drawings, write_page
from spark_analysis.sweeps.sweep import SweepOutcome
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.sweeps.helpers import spec, synthetic

[DELIVERY] = (quantity for quantity in QUANTITIES if quantity.column == "delivery_ratio")


def rows(protocol: str, speed: float, values: list[float]) -> list[dict[str, object]]:
    return [
        {"protocol": protocol, "speed": speed, "seed": seed, "delivery_ratio": value}
        for seed, value in enumerate(values, start=1)
    ]


def test_what_seeds_share_cancels() -> None:
    shared = [0.2, 0.9, 0.5, 0.7]
    table = pd.DataFrame(
        rows("a", 1.0, shared) + rows("b", 1.0, [v - 0.03 + 0.001 * (v > 0.6) for v in shared])
    )
    [gap] = differences(table, [DELIVERY], ["speed"])
    assert (gap.first, gap.second, dict(gap.at)) == ("a", "b", {"speed": 1.0})
    assert gap.interval.mean == pytest.approx(0.0295)
    assert gap.decided
    one, other = (mean_interval(list(of["delivery_ratio"])) for _, of in table.groupby("protocol"))
    assert one.low < other.high  # the means themselves decide nothing


def test_a_seed_that_only_one_has_does_not_count() -> None:
    table = pd.DataFrame(rows("a", 1.0, [0.5, 0.6, 0.9]) + rows("b", 1.0, [0.4, 0.5]))
    [gap] = differences(table, [DELIVERY], ["speed"])
    assert gap.interval.count == 2
    assert gap.interval.mean == pytest.approx(0.1)
    table = pd.DataFrame(rows("a", 1.0, [0.5]) + rows("b", 1.0, [0.4]))
    assert differences(table, [DELIVERY], ["speed"]) == []


def test_one_that_lacks_a_parameter_is_the_same_at_all_its_values() -> None:
    one = pd.DataFrame(rows("a", 1.0, [0.5, 0.6]) + rows("a", 2.0, [0.7, 0.9]))
    other = pd.DataFrame(rows("b", np.nan, [0.5, 0.5]))
    gaps = differences(pd.concat([one, other]), [DELIVERY], ["speed"])
    assert [gap.at["speed"] for gap in gaps] == [1.0, 2.0]
    assert [gap.interval.mean for gap in gaps] == pytest.approx([0.05, 0.3])


def test_equal_differences_decide_only_if_they_are_no_chance() -> None:
    for seeds, decided in ((2, False), (5, False), (6, True)):
        table = pd.DataFrame(rows("a", 1.0, [1.0] * seeds) + rows("b", 1.0, [0.0] * seeds))
        [gap] = differences(table, [DELIVERY], ["speed"])
        assert gap.interval.half_width == 0
        assert gap.decided is decided
    rounded = pd.DataFrame(rows("a", 1.0, [0.9, 0.7]) + rows("b", 1.0, [0.8, 0.6]))
    assert not differences(rounded, [DELIVERY], ["speed"])[0].decided
    same = pd.DataFrame(rows("a", 1.0, [0.5] * 9) + rows("b", 1.0, [0.5] * 9))
    assert not differences(same, [DELIVERY], ["speed"])[0].decided


def test_of_many_comparisons_without_a_difference_one_in_twenty_families_decides_any() -> None:
    rng = np.random.default_rng(1)
    decided = 0
    families = 300
    for _ in range(families):
        table = pd.DataFrame(
            itertools.chain.from_iterable(
                rows(protocol, speed, list(rng.normal(size=5)))
                for protocol in "abc"
                for speed in (1.0, 2.0)
            )
        )
        gaps = differences(table, [DELIVERY], ["speed"])
        assert [gap.comparisons for gap in gaps] == [6] * 6
        decided += any(gap.decided for gap in gaps)
    assert decided / families < 0.08  # without the correction about 0.25


def test_the_page_and_programs_have_them(tmp_path: Path) -> None:
    results = synthetic()
    better = results["protocol"] == "broker-gpsr"
    results.loc[better, "delay_p50"] -= 0.5 + 0.1 * (results["seed"] == 2)
    outcome = SweepOutcome(spec(), tmp_path, results, {})
    gaps = compared(outcome)
    shown = drawings(outcome, gaps)
    page = Page(write_page(outcome, gaps, shown).read_text(encoding="utf-8"))
    table = page.tables["differences"]
    assert [row[:3] for row in table[1:]] == [["flooding", "broker-gpsr", at] for at in ("1", "10")]
    column = next(i for i, head in enumerate(table[0]) if head.startswith("Median delay"))
    assert all(row[column].startswith("+") and row[column].endswith("✓") for row in table[1:])
    names = [name for name, _ in shown if name.startswith("difference")]
    assert names == ["difference-delay-p50"]
    [fact, *_] = [gap.facts() for gap in gaps if gap.quantity.column == "delay_p50"]
    assert fact["decided"] is True
    assert (fact["first"], fact["second"], fact["at"]) == (
        "flooding",
        "broker-gpsr",
        {"speed": 1.0},
    )
    assert fact["mean"] == pytest.approx(0.5 + 0.1 / 3)
    assert 0 < fact["low"] < fact["mean"] < fact["high"]
    assert (fact["seeds"], fact["comparisons"]) == (3, 2)
