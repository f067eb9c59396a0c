"""Claims hold, fail or stay open by the numbers alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pandas as pd
import pytest

from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    Finding,
    Verdict,
    above,
    clusters,
    exact,
    judge,
    no_larger,
    positive,
    times,
    together,
    trend,
    values_of,
    within,
)
from spark_analysis.papers.wording import measured
from spark_analysis.report.confidence import mean_interval
from spark_analysis.sweeps.pairing import difference, pairs


def test_what_the_runs_do_not_decide_stays_open() -> None:
    assert positive([1.0], "once", "").verdict is Verdict.OPEN
    assert positive([], "never", "").verdict is Verdict.OPEN


def test_pairs_are_compared_at_equal_points_only() -> None:
    points = at_speeds()
    # Run only one of the two at a speed where everything is different.
    extra = points[points["protocol"] == "a"].assign(speed=99, load=0.0)
    both = pd.concat([points, extra])
    pair = above(both, "load", "a", "b", ("speed",))
    gap = difference(both, "load", "a", "b", ("speed",))
    assert len(gap) == 9
    assert pair.interval is not None
    assert pair.interval.count == 3
    assert pair.interval.mean == pytest.approx(gap.mean())
    assert not len(pairs(points, "weight", "a", "b", ("speed",)))


def test_a_finding_without_comparisons_is_open() -> None:
    claim = Claim("key", "Says.", "here", lambda points: [])
    assert Finding(claim, "freeway", ()).verdict is Verdict.OPEN


# Ties: an interval within a margin of equivalence.


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.4, 0.5, 0.6], Verdict.TIE),  # surely above 0, but too little to matter
        ([-0.1, 0.0, 0.1], Verdict.TIE),
        ([-0.6, -0.5, -0.4], Verdict.TIE),
        ([4.9, 5.0, 5.1], Verdict.HOLDS),
        ([-5.1, -5.0, -4.9], Verdict.FAILS),
        ([-3.0, 0.0, 3.0], Verdict.OPEN),  # too wide to tell
        ([0.9, 1.0, 1.1], Verdict.HOLDS),  # reaches over the margin
        ([0.0, 1.0, 2.0], Verdict.OPEN),
    ],
)
def test_an_interval_within_the_margin_is_a_tie(values: list[float], verdict: Verdict) -> None:
    assert positive(values, "gap", "m", margin=1.0).verdict is verdict


def test_without_a_margin_nothing_ties() -> None:
    assert positive([-0.1, 0.0, 0.1], "gap", "m").verdict is Verdict.OPEN


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ("holds holds", Verdict.HOLDS),
        ("holds tie", Verdict.TIE),
        ("tie not_decided", Verdict.OPEN),
        ("tie does_not_hold not_decided", Verdict.FAILS),
        ("", Verdict.OPEN),
    ],
)
def test_a_claim_is_what_its_parts_are_together(verdicts: str, verdict: Verdict) -> None:
    parts = [Verdict(each.replace("_", " ")) for each in verdicts.split()]
    assert together(parts) is verdict


def test_other_measures_stand_beside_and_do_not_decide() -> None:
    claim = Claim("key", "Says.", "here", lambda points: [])
    mean = positive([1.0, 1.1], "mean", "s")
    median = positive([-1.0, -1.1], "median", "s", measure="median")
    finding = Finding(claim, "road", (mean, median))
    assert finding.verdict is Verdict.HOLDS
    assert finding.by_measure == {"": Verdict.HOLDS, "median": Verdict.FAILS}


# Factors, and trends along an axis.


def factor(*values: float) -> pd.DataFrame:
    index = pd.Index(range(len(values)), name="seed")
    return pd.DataFrame({"one": values, "other": 1.0}, index=index)


def test_a_factor_is_a_geometric_mean_of_pairs() -> None:
    found = times(factor(2.0, 8.0), "load: a above b")
    assert found.interval is not None
    assert found.interval.mean == pytest.approx(4.0)
    half = math.exp(12.7062 * math.log(2))  # t(1) times the standard error of log 2 and log 8
    assert found.interval.high == pytest.approx(4.0 * half, rel=1e-3)
    assert found.interval.low == pytest.approx(4.0 / half, rel=1e-3)
    assert measured(times(factor(3.9, 4.0, 4.1), "x")).startswith("✓ x: 4.00 [3.7")


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({}, Verdict.HOLDS),
        ({"above": 3.0}, Verdict.HOLDS),
        ({"above": 5.0}, Verdict.FAILS),
        ({"above": 4.0}, Verdict.OPEN),
        ({"above": 4.0, "margin": 1.2}, Verdict.TIE),
        ({"below": 5.0}, Verdict.HOLDS),
        ({"below": 3.0}, Verdict.FAILS),
        ({"below": 4.0, "margin": 1.2}, Verdict.TIE),
    ],
)
def test_a_factor_is_compared_with_a_bound(bounds: dict[str, float], verdict: Verdict) -> None:
    found = times(factor(3.9, 4.0, 4.1), "x", **bounds)  # type: ignore[arg-type]
    assert found.verdict is verdict
    assert found.interval is not None
    assert found.interval.low < 4.0 < found.interval.high


def test_a_factor_without_pairs_or_draws_is_open() -> None:
    assert times(factor(), "never").verdict is Verdict.OPEN
    for value in (0.0, -3.0):
        found = times(factor(3.0, value, 3.1, 2.9), "odd")
        assert (found.verdict, found.text) == (Verdict.OPEN, "odd (a value is not above 0)")
    assert times(factor(3.0), "once").verdict is Verdict.OPEN


def test_a_trend_is_the_growth_along_the_line_of_each_draw() -> None:
    values = pd.Series(
        [0.0, 1.0, 2.0, 5.0, 5.0, 5.0, 7.0, 8.0],
        index=pd.MultiIndex.from_tuples(
            [(10, 1), (20, 1), (30, 1), (10, 2), (20, 2), (30, 2), (10, 3), (20, 3)],
            names=["speed", "seed"],
        ),
    )
    found = trend(values, "speed")
    assert found.to_dict() == pytest.approx({(1,): 2.0, (2,): 0.0})  # the third lacks a speed
    single = pd.MultiIndex.from_tuples([(0.1, 1)] * 3, names=["speed", "seed"])
    once = pd.Series([1.0, 2.0, 3.0], index=single)
    assert trend(once, "speed").empty
    # Least squares: not the ends alone.
    bent = pd.Series([0.0, 3.0, 0.0, 3.0], index=values.index[:3].append(values.index[3:4]))
    bent.index = pd.MultiIndex.from_product([[1, 2, 3, 4], [1]], names=["speed", "seed"])
    assert trend(bent, "speed").iloc[0] == pytest.approx(3 * 0.6)


# Clusters: what shares its random draws counts once.

BY_SEED = {1: 1.0, 2: 2.0, 3: 4.5}
"""Differences of two systems, the same at every speed of a seed, but for a little."""


def at_speeds(seeds: Sequence[int] = (1, 2, 3), speeds: Sequence[int] = (1, 2, 3)) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "study": "road",
                "protocol": protocol,
                "speed": speed,
                "seed": seed,
                "load": (10.0 + BY_SEED[seed] + 0.1 * (speed - 2)) if protocol == "a" else 10.0,
            }
            for protocol in ("a", "b")
            for speed in speeds
            for seed in seeds
        ]
    )


def test_a_trend_of_the_few_seeds_that_have_all_points_is_none() -> None:
    """What is judged may be why the others lack them."""
    rows = [(speed, seed) for seed in range(10) for speed in (1.0, 2.0)]
    values = pd.Series(
        [speed for speed, _ in rows], pd.MultiIndex.from_tuples(rows, names=["speed", "seed"])
    )
    lacking = [(2.0, seed) for seed in range(5)]
    assert len(trend(values.drop(lacking), "speed")) == 5
    few = trend(values.drop([*lacking, (2.0, 5)]), "speed")
    assert few.empty
    absent = values[values.index.get_level_values("seed") < 4]
    assert len(trend(absent, "speed")) == 4
    assert trend(absent, "speed", seeds=10).empty
    assert positive(few, "gained", "m").verdict is Verdict.OPEN


def test_speeds_of_a_seed_are_one_value() -> None:
    points = at_speeds()
    found = above(points, "load", "a", "b", ("speed",)).interval
    assert found is not None
    assert found.count == 3
    # The three seeds' means: 1, 2 and 4.5; t(2) = 4.303 at 95 %.
    half = 4.30265 * statistics.stdev([1.0, 2.0, 4.5]) / math.sqrt(3)
    assert found.mean == pytest.approx(2.5)
    assert found.half_width == pytest.approx(half, rel=1e-5)
    # Taken for nine independent values, they would seem to decide what they do not.
    nine = mean_interval(difference(points, "load", "a", "b", ("speed",)).tolist())
    assert nine.count == 9
    assert nine.low > 0 > found.low
    assert above(points, "load", "a", "b", ("speed",)).verdict is Verdict.OPEN


@pytest.mark.parametrize("speeds", [(2,), (1, 2, 3)])
def test_more_speeds_do_not_make_more_values(speeds: tuple[int, ...]) -> None:
    one = above(at_speeds(speeds=speeds), "load", "a", "b", ("speed",))
    assert one.interval is not None
    assert one.interval.count == 3


def test_one_seed_decides_nothing() -> None:
    found = above(at_speeds(seeds=(1,)), "load", "a", "b", ("speed",))
    assert found.interval is not None
    assert found.interval.count == 1
    assert not found.interval.known
    assert found.verdict is Verdict.OPEN
    assert "(one run)" in measured(found)


def test_draws_of_each_speed_and_seed_are_values_of_their_own() -> None:
    found = above(at_speeds(), "load", "a", "b", ("speed",), draws=("speed", "seed"))
    assert found.interval is not None
    assert found.interval.count == 9


def test_several_rows_at_a_point_count_as_their_mean() -> None:
    points = pd.concat([at_speeds(), at_speeds().assign(load=lambda rows: rows["load"] + 2)])
    gap = difference(points, "load", "a", "b", ("speed",))
    assert len(gap) == 9
    assert clusters(gap) == pytest.approx([1.0, 2.0, 4.5])


def test_systems_are_told_apart_by_any_column() -> None:
    points = pd.DataFrame(
        {"rendezvous": [1, 8] * 3, "nodes": 80, "seed": [1, 1, 2, 2, 3, 3], "hops": [9, 6] * 3}
    )
    found = above(points, "hops", 1, 8, ("nodes",), of="rendezvous")
    assert found.interval is not None
    assert (found.interval.mean, found.interval.count) == (3.0, 3)
    assert found.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0, 9, Verdict.HOLDS), (3, 9, Verdict.OPEN), (20, 30, Verdict.FAILS), (-9, -5, Verdict.FAILS)],
)
def test_a_mean_is_within_bounds_if_its_interval_is(
    low: float, high: float, verdict: Verdict
) -> None:
    gap = difference(at_speeds(), "load", "a", "b", ("speed",)) / 10 + 3
    assert within(gap, low, high, "about 3", "").verdict is verdict


def test_within_bounds_needs_several_draws() -> None:
    values = values_of(at_speeds(), "load", ("speed",))
    assert within(values, 11, 30, "about 12", "").verdict is Verdict.OPEN
    assert within([], 0, 1, "never", "").verdict is Verdict.OPEN
    assert within([1.0], 0, 2, "once", "").verdict is Verdict.OPEN


def test_once_above_refutes_never() -> None:
    assert no_larger(2.0, 2.0, "table", "entries").verdict is Verdict.HOLDS
    assert measured(no_larger(3.0, 2.0, "table", "entries")) == (
        "✕ table: 3 entries (bound: at most 2)"
    )


def test_a_bound_without_an_end_says_so() -> None:
    part = within([97.0, 98.0, 99.0], 90.0, math.inf, "delivery", "%")
    assert part.verdict is Verdict.HOLDS
    assert measured(part).endswith("% (bound: from 90 on)")


def test_a_closed_form_decides_by_its_sign() -> None:
    assert exact(0.1, "formula", "").verdict is Verdict.HOLDS
    assert exact(-0.1, "formula", "").verdict is Verdict.FAILS
    assert measured(exact(0.5, "formula", "hops")) == "✓ formula: +0.500 hops"


def test_a_joint_claim_is_judged_once_over_its_studies() -> None:
    seen: list[set[str]] = []

    def rule(points: pd.DataFrame) -> list[Comparison]:
        seen.append(set(points["study"]))
        return [positive([1.0, 1.1], "two", "")]

    points = pd.concat([at_speeds().assign(study=name) for name in ("one", "two", "three")])
    joint = Claim("both", "Both.", "here", rule, ("one", "two"), joint=True)
    apart = Claim("each", "Each.", "here", rule, ("three",))
    findings = judge([joint, apart], points)
    assert [(f.claim.key, f.study) for f in findings] == [("each", "three"), ("both", "")]
    assert seen == [{"three"}, {"one", "two"}]
