"""Claims hold, fail or stay open by the numbers alone."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pandas as pd
import pytest

from spark_analysis.confidence import mean_interval
from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    Finding,
    Verdict,
    above,
    clusters,
    difference,
    exact,
    judge,
    positive,
    values_of,
    within,
)
from spark_analysis.papers.page import measured
from spark_analysis.papers.six_schemes import CLAIMS, PAPER, SCHEMES, WITHOUT_MAP

DELIVERY = {
    "broker-aodv": 0.8,
    "broker-gpsr": 0.2,
    "broker-gpsr-map": 0.95,
    "rendezvous-aodv": 0.75,
    "rendezvous-gpsr": 0.3,
    "rendezvous-gpsr-map": 0.85,
}
DELAY = {
    "broker-aodv": 0.01,
    "broker-gpsr": 0.2,
    "broker-gpsr-map": 0.02,
    "rendezvous-aodv": 0.01,
    "rendezvous-gpsr": 0.3,
    "rendezvous-gpsr-map": 0.05,
}


def as_published(study: str = "freeway") -> pd.DataFrame:
    """Return points that are as the paper says, with a little noise."""
    rng = random.Random(1)
    rows = []
    for protocol, speed, seed in itertools.product(SCHEMES, (10.0, 30.0, 60.0), (1, 2, 3)):
        slope = 0.002 if protocol.startswith("rendezvous-gpsr") else 0.0005
        rows.append(
            {
                "study": study,
                "protocol": protocol,
                "speed": speed,
                "seed": seed,
                "delivery_ratio": DELIVERY[protocol] - slope * speed + rng.gauss(0, 0.001),
                "delay_mean": DELAY[protocol] * (1 + rng.gauss(0, 0.001)),
                "load_mean": 300.0 * ("gpsr" in protocol)
                + 100.0 * protocol.startswith("rendezvous")
                + rng.gauss(500, 0.1),
            }
        )
    return pd.DataFrame(rows)


def verdicts(points: pd.DataFrame) -> dict[str, Verdict]:
    return {finding.claim.key: finding.verdict for finding in judge(CLAIMS, points)}


def test_results_as_published_hold() -> None:
    assert set(verdicts(as_published()).values()) == {Verdict.HOLDS}


def _changed(protocols: tuple[str, ...], column: str, change: float) -> pd.DataFrame:
    points = as_published()
    points.loc[points["protocol"].isin(protocols), column] += change
    return points


@pytest.mark.parametrize(
    ("key", "points"),
    [
        ("no-map-delivery", _changed(WITHOUT_MAP, "delivery_ratio", 0.6)),
        ("map-raises-delivery", _changed(("broker-gpsr-map",), "delivery_ratio", -0.9)),
        ("broker-map-best", _changed(("broker-aodv",), "delivery_ratio", 0.19)),
        ("aodv-delay", _changed(("broker-aodv",), "delay_mean", 0.1)),
        ("no-map-delay", _changed(("rendezvous-gpsr",), "delay_mean", -0.29)),
        ("broker-map-delay", _changed(("broker-gpsr-map",), "delay_mean", 0.1)),
        ("geographic-load", _changed(("broker-gpsr",), "load_mean", -500)),
        ("broker-load", _changed(("broker-gpsr",), "load_mean", 150)),
    ],
)
def test_a_claim_fails_where_the_numbers_are_otherwise(key: str, points: pd.DataFrame) -> None:
    assert verdicts(points)[key] is Verdict.FAILS


def test_sensitivity_is_what_is_lost_from_slow_to_fast() -> None:
    points = as_published()
    flat = points["protocol"].str.startswith("rendezvous-gpsr")
    points.loc[flat, "delivery_ratio"] += 0.003 * points.loc[flat, "speed"]
    assert verdicts(points)["rendezvous-sensitive"] is Verdict.FAILS


def test_what_the_runs_do_not_decide_stays_open() -> None:
    points = as_published()
    rng = random.Random(2)
    points["load_mean"] = [rng.gauss(500, 300) for _ in range(len(points))]
    assert verdicts(points)["broker-load"] is not Verdict.HOLDS
    assert positive([1.0], "once", "").verdict is Verdict.OPEN
    assert positive([], "never", "").verdict is Verdict.OPEN


def test_missing_schemes_leave_claims_open() -> None:
    points = as_published()
    found = verdicts(points[points["protocol"] != "broker-gpsr-map"])
    assert found["broker-map-best"] is Verdict.OPEN
    assert found["no-map-delivery"] is Verdict.HOLDS


def test_studies_are_judged_apart() -> None:
    both = pd.concat([as_published("freeway"), as_published("manhattan")])
    findings = judge(CLAIMS, both)
    assert [f.study for f in findings].count("freeway") == len(CLAIMS)
    assert len(findings) == 2 * len(CLAIMS)


def test_pairs_are_compared_at_equal_points_only() -> None:
    points = as_published()
    # Run only one of the two at a speed where everything is different.
    extra = points[points["protocol"] == "broker-aodv"].assign(speed=99.0, delivery_ratio=0.0)
    both = pd.concat([points, extra])
    pair = above(both, "delivery_ratio", "broker-aodv", "rendezvous-aodv", ("speed",))
    gap = difference(both, "delivery_ratio", "broker-aodv", "rendezvous-aodv", ("speed",))
    assert len(gap) == 9
    assert pair.interval is not None
    assert pair.interval.count == 3
    assert pair.interval.mean == pytest.approx(gap.mean())
    assert pair.verdict is Verdict.HOLDS


def test_a_finding_without_comparisons_is_open() -> None:
    assert Finding(CLAIMS[0], "freeway", ()).verdict is Verdict.OPEN


def test_presets_cover_the_published_speeds() -> None:
    for preset in PAPER.presets:
        speeds = {study: values["speed"] for study, values in preset.values.items()}
        assert speeds["freeway"][0] == 10
        assert speeds["freeway"][-1] == 60
        assert speeds["manhattan"][0] == 1
        assert speeds["manhattan"][-1] == 20
    paper = PAPER.preset("paper")
    assert paper is not None
    assert paper.duration == 900
    assert paper.seeds == 3


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
