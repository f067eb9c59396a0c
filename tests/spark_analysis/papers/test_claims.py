"""Claims hold, fail or stay open by the numbers alone."""

from __future__ import annotations

import itertools
import random

import pandas as pd
import pytest

from spark_analysis.papers.claims import Finding, Verdict, above, judge, positive
from spark_analysis.papers.six_schemes import CLAIMS, PRESETS, SCHEMES, WITHOUT_MAP

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


def as_published(scenario: str = "freeway") -> pd.DataFrame:
    """Return points that are as the paper says, with a little noise."""
    rng = random.Random(1)
    rows = []
    for protocol, speed, seed in itertools.product(SCHEMES, (10.0, 30.0, 60.0), (1, 2, 3)):
        slope = 0.002 if protocol.startswith("rendezvous-gpsr") else 0.0005
        rows.append(
            {
                "scenario": scenario,
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


def test_scenarios_are_judged_apart() -> None:
    both = pd.concat([as_published("freeway"), as_published("manhattan")])
    findings = judge(CLAIMS, both)
    assert [f.scenario for f in findings].count("freeway") == len(CLAIMS)
    assert len(findings) == 2 * len(CLAIMS)


def test_pairs_are_compared_at_equal_points_only() -> None:
    points = as_published()
    # Run only one of the two at a speed where everything is different.
    extra = points[points["protocol"] == "broker-aodv"].assign(speed=99.0, delivery_ratio=0.0)
    pair = above(pd.concat([points, extra]), "delivery_ratio", "broker-aodv", "rendezvous-aodv")
    assert pair.interval is not None
    assert pair.interval.count == 9
    assert pair.verdict is Verdict.HOLDS


def test_a_finding_without_comparisons_is_open() -> None:
    assert Finding(CLAIMS[0], "freeway", ()).verdict is Verdict.OPEN


def test_presets_cover_the_published_speeds() -> None:
    for preset in PRESETS.values():
        assert preset.speeds["freeway"][0] == 10
        assert preset.speeds["freeway"][-1] == 60
        assert preset.speeds["manhattan"][0] == 1
        assert preset.speeds["manhattan"][-1] == 20
    assert PRESETS["paper"].duration == 900
    assert PRESETS["paper"].seeds == 3
