"""The claims about the six schemes: each holds, fails, ties or stays open by its rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pandas as pd
import pytest

from spark_analysis.papers.claims import Finding, Verdict, judge
from spark_analysis.papers.kept import beside
from spark_analysis.papers.six_schemes.claims import (
    BY_MEDIAN,
    BY_SHARED,
    CLAIMS,
    IN_MS,
    LIKE,
    MUCH_MORE,
    RELATIVE,
    SIGNIFICANTLY,
)
from spark_analysis.papers.six_schemes.ways import (
    BEST,
    GEOGRAPHIC,
    OVER_AODV,
    SCHEMES,
    WITH_MAP,
    WITHOUT_MAP,
)
from spark_analysis.papers.wording import measured
from tests.spark_analysis.papers.six_points import alike, as_published, at_odds

KEYS: Final = [claim.key for claim in CLAIMS]
STUDIES: Final = ("freeway", "manhattan", "freeway-load", "manhattan-load")


def everywhere(points: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([points(study) for study in STUDIES], ignore_index=True)


def findings(points: pd.DataFrame, *keys: str) -> dict[str, Finding]:
    """Return the findings on the freeway, and those over all studies; of all claims, or some."""
    claims = [claim for claim in CLAIMS if not keys or claim.key in keys]
    joint = judge([claim for claim in claims if claim.joint], points)
    alone = judge(claims, points[points["study"] == "freeway"])
    return {finding.claim.key: finding for finding in (*alone, *joint)}


def verdicts(points: pd.DataFrame, *keys: str) -> dict[str, Verdict]:
    return {key: finding.verdict for key, finding in findings(points, *keys).items()}


def changed(
    protocols: tuple[str, ...], column: str, change: Callable[[pd.Series[float]], Any]
) -> pd.DataFrame:
    """Return points as published, but for a change in a column of some protocols."""
    points = everywhere(as_published)
    columns = [column]
    if column == "delay_mean":  # by every measure
        columns += ["delay_p50", *map(beside, SCHEMES)]
    chosen = points["protocol"].isin(protocols)
    for name in columns:
        points.loc[chosen, name] = change(points.loc[chosen, name])
    return points


def test_there_are_fourteen_with_a_rule_each() -> None:
    assert len(CLAIMS) == 14
    assert all(claim.rule and claim.source.startswith("section") for claim in CLAIMS)


def test_results_as_published_hold_but_for_the_two_that_exclude_each_other() -> None:
    found = verdicts(everywhere(as_published))
    assert set(found) == set(KEYS)
    assert {key for key, verdict in found.items() if verdict is not Verdict.HOLDS} == {
        "rendezvous-delay"
    }
    # Turned round, it is the other one.
    faster = verdicts(
        changed(("rendezvous-gpsr-map",), "delay_mean", lambda delay: delay / 40),
        *("rendezvous-delay", "broker-map-delay"),
    )
    assert faster["rendezvous-delay"] is Verdict.HOLDS
    assert faster["broker-map-delay"] is Verdict.FAILS


def test_studies_are_judged_apart_and_two_claims_over_both() -> None:
    found = [finding.study for finding in judge(CLAIMS, everywhere(as_published))]
    assert found.count("freeway") == found.count("manhattan") == 12
    assert found.count("") == 2


FAILING: Final = {
    "no-map-delivery": changed(WITHOUT_MAP[:1], "delivery_ratio", lambda d: d + 0.6),
    "map-raises-delivery": changed((BEST,), "delivery_ratio", lambda d: d - 0.7),
    "broker-map-best": changed(("broker-aodv",), "delivery_ratio", lambda d: d + 0.19),
    "rendezvous-sensitive": changed(("rendezvous-gpsr",), "delivery_ratio", lambda d: d * 0 + 0.3),
    "aodv-delay": changed(("broker-aodv",), "delay_mean", lambda d: d * 100),
    "no-map-delay": changed(("rendezvous-gpsr",), "delay_mean", lambda d: d / 100),
    "delay-sensitive": everywhere(as_published).assign(
        delay_mean=lambda p: p["delay_mean"] + 0.003 * p["speed"] * (p["protocol"] == BEST)
    ),
    "broker-map-delay": changed((BEST,), "delay_mean", lambda d: d * 2),
    "geographic-load": changed(("broker-gpsr",), "load_mean", lambda load: load * 0.5),
    "load-shrinks": everywhere(as_published).assign(
        load_mean=lambda p: (
            p["load_mean"] * (1 + 99 * ((p["interval"] == 1) & (p["protocol"] == BEST)))
        )
    ),
    "broker-load": changed(("broker-gpsr",), "load_mean", lambda load: load * 1.5),
    "nodes-better": changed(OVER_AODV[:1], "delivery_ratio", lambda d: d - 0.7),
    "map-always": everywhere(as_published).assign(
        delivery_ratio=lambda p: p["delivery_ratio"].where(
            (p["study"] != "manhattan") | (p["speed"] != 30) | (p["protocol"] != BEST), 0.1
        )
    ),
    "rendezvous-delay": changed(("rendezvous-gpsr",), "delay_mean", lambda d: d * 10),
}


@pytest.mark.parametrize("key", KEYS)
def test_a_claim_fails_if_the_numbers_are_otherwise(key: str) -> None:
    assert verdicts(FAILING[key], key)[key] is Verdict.FAILS


@pytest.mark.parametrize("key", KEYS[2:8] + KEYS[9:])
def test_schemes_that_are_alike_tie(key: str) -> None:
    finding = findings(everywhere(alike), key)[key]
    assert finding.verdict is Verdict.TIE
    (line, *_) = (measured(p) for p in finding.comparisons if p.verdict is Verdict.TIE)
    assert re.match(r"= .* \[.*, .*\] (points|ms|times)( \(bound: .*\))?$", line)


def test_bounds_are_not_met_by_schemes_that_are_alike() -> None:
    keys = ("no-map-delivery", "map-raises-delivery", "geographic-load")
    assert verdicts(everywhere(alike), *keys) == dict.fromkeys(keys, Verdict.FAILS)


def test_a_load_at_the_bound_of_much_more_is_a_tie() -> None:
    points = everywhere(alike)
    geographic = points["protocol"].isin(GEOGRAPHIC)
    points.loc[geographic, "load_mean"] *= MUCH_MORE
    assert verdicts(points, "geographic-load")["geographic-load"] is Verdict.TIE
    points.loc[geographic, "load_mean"] *= 1.1
    assert verdicts(points, "geographic-load")["geographic-load"] is Verdict.HOLDS


OPEN: Final = {key: everywhere(at_odds) for key in KEYS} | {
    "map-raises-delivery": everywhere(
        lambda study: at_odds(study, lambda p: 0.5 + SIGNIFICANTLY / 100 * (p in WITH_MAP))
    ),
    "geographic-load": everywhere(
        lambda study: at_odds(study, load=lambda p: 300.0 * (MUCH_MORE if p in GEOGRAPHIC else 1))
    ),
}


@pytest.mark.parametrize("key", KEYS)
def test_draws_that_are_far_apart_decide_nothing(key: str) -> None:
    assert verdicts(OPEN[key], key)[key] is Verdict.OPEN


def test_missing_schemes_leave_claims_open() -> None:
    points = everywhere(as_published)
    found = verdicts(points[points["protocol"] != BEST], "broker-map-best", "no-map-delivery")
    assert found == {"broker-map-best": Verdict.OPEN, "no-map-delivery": Verdict.HOLDS}


def test_the_paper_exempts_the_broker_with_a_map_from_being_slower_than_aodv() -> None:
    fast = changed((BEST,), "delay_mean", lambda delay: delay / 100)
    assert verdicts(fast, "aodv-delay")["aodv-delay"] is Verdict.HOLDS
    comparisons = findings(fast, "aodv-delay")["aodv-delay"].comparisons
    assert not any(f"{BEST} above" in each.text for each in comparisons)


def test_aodv_must_be_faster_at_the_highest_speed_too() -> None:
    points = everywhere(as_published)
    slow = (points["protocol"] == "broker-aodv") & (points["speed"] == 60)
    columns = ["delay_mean", "delay_p50", *map(beside, SCHEMES)]
    points.loc[slow, columns] = 0.2
    finding = findings(points, "aodv-delay")["aodv-delay"]
    assert finding.verdict is Verdict.FAILS
    (failing,) = (c for c in finding.comparisons if c.verdict is Verdict.FAILS and not c.measure)
    assert "at the highest speed: rendezvous-gpsr-map above broker-aodv" in failing.text


def test_the_mean_decides_and_other_measures_of_delay_stand_beside_it() -> None:
    points = everywhere(as_published)
    broker = points["protocol"] == "rendezvous-gpsr-map"
    # What it delivers alone is slow; what both deliver it delivers fast.
    points.loc[broker, beside("broker-gpsr-map")] /= 100
    found = findings(points, "rendezvous-delay")["rendezvous-delay"]
    assert dict(found.by_measure) == {
        "": Verdict.FAILS,
        BY_MEDIAN: Verdict.FAILS,
        BY_SHARED: Verdict.HOLDS,
    }
    assert found.verdict is Verdict.FAILS


def test_modest_mobility_is_the_lower_half_of_the_speeds() -> None:
    points = everywhere(as_published)
    fast = (points["protocol"] == BEST) & (points["speed"] == 60)
    points.loc[fast, "delivery_ratio"] = 0.0
    assert verdicts(points, "broker-map-best")["broker-map-best"] is Verdict.HOLDS


def test_a_claim_about_every_speed_says_which_one_fails() -> None:
    finding = findings(FAILING["map-always"], "map-always")["map-always"]
    (failing,) = (each for each in finding.comparisons if each.verdict is Verdict.FAILS)
    assert failing.text.startswith("delivery, manhattan at 30 m/s: broker-gpsr-map above")
    assert len(finding.comparisons) == 2 * 2 * 3


def test_draws_are_of_each_speed_and_seed_but_trends_of_each_seed() -> None:
    found = findings(everywhere(as_published), "broker-load", "rendezvous-sensitive")
    (first, *_) = found["broker-load"].comparisons
    assert first.interval is not None
    assert first.interval.count == 9
    (first, *_) = found["rendezvous-sensitive"].comparisons
    assert first.interval is not None
    assert first.interval.count == 3
    assert first.interval.mean == pytest.approx((0.002 - 0.0005) * 50 * 100, abs=0.5)


def test_sensitivity_is_shown_as_a_share_and_in_ms_as_well() -> None:
    # Delivers a tenth, and loses half of that: little in points.
    points = changed(("broker-gpsr",), "delivery_ratio", lambda d: d * 0 + 0.1)
    slow = (points["protocol"] == "broker-gpsr") & (points["speed"] == 60)
    points.loc[slow, "delivery_ratio"] = 0.05
    finding = findings(points, "rendezvous-sensitive")["rendezvous-sensitive"]
    assert finding.verdict is Verdict.HOLDS
    assert finding.by_measure[RELATIVE] is Verdict.FAILS
    # A scheme of long delays that grow by a tenth gains more ms, not by a larger factor.
    points = everywhere(as_published)
    slow = points["protocol"] == "broker-gpsr"
    points.loc[slow, "delay_mean"] *= 20 * (1 + 0.001 * points.loc[slow, "speed"])
    finding = findings(points, "delay-sensitive")["delay-sensitive"]
    assert finding.verdict is Verdict.HOLDS
    assert finding.by_measure[IN_MS] is Verdict.FAILS


def test_like_is_compared_with_like_beside_the_rule() -> None:
    points = changed(("broker-gpsr", "rendezvous-gpsr"), "load_mean", lambda load: load * 9)
    points = points.assign(
        load_mean=points["load_mean"].where(~points["protocol"].isin(WITH_MAP), 100.0)
    )
    found = findings(points, "geographic-load", "nodes-better")
    assert {each.by_measure[LIKE] for each in found.values()} == {Verdict.FAILS}
    assert found["nodes-better"].by_measure[LIKE] is Verdict.FAILS


def test_runs_that_delivered_nothing_are_counted() -> None:
    points = everywhere(as_published)
    none = (points["protocol"] == "broker-gpsr") & (points["seed"] == 1) & (points["speed"] == 10)
    points.loc[none, "delay_mean"] = float("nan")
    found = findings(points, "no-map-delay")["no-map-delay"]
    line = next(measured(each) for each in found.comparisons if "broker-gpsr above" in each.text)
    assert line.endswith("(left out, as they delivered nothing: 1 of 9 runs of broker-gpsr)")
    assert "; n = " in line


def test_where_one_counterpart_delivered_nothing_the_other_alone_is_no_mean() -> None:
    points = everywhere(as_published)
    none = (points["protocol"] == "broker-aodv") & (points["seed"] == 1) & (points["speed"] == 10)
    points.loc[none, "delay_mean"] = float("nan")
    without = points[~((points["seed"] == 1) & (points["speed"] == 10))]
    delays = []
    for rows in (points, without):
        found = findings(rows, "nodes-better")["nodes-better"]
        delays.append([each for each in found.comparisons if "mean delay" in each.text])
    told = [(one, other) for one, other in zip(*delays, strict=True) if one.note]
    assert told
    for one, other in told:
        assert one.interval == other.interval
        assert "1 of 9 runs of broker-aodv" in one.note


@pytest.mark.parametrize("key", ["no-map-delivery", "map-raises-delivery", "map-always"])
def test_claims_that_follow_from_the_choice_of_the_map_say_so(key: str) -> None:
    assert "follows from the choice of the map" in next(c.rule for c in CLAIMS if c.key == key)
