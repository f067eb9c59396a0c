"""The rules of the comparison of systems that people deploy, each made to hold and to fail."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from nodeapp.pubsub.registry import MIDDLEWARE, PROTOCOLS
from spark_analysis.papers.claims import Verdict, judge
from spark_analysis.papers.kept import beside
from spark_analysis.papers.middleware.paper import PAPER
from spark_analysis.papers.middleware.studies import DEPLOYED, FAULTS, SYSTEMS

FAULT, OTHERS = next(iter(FAULTS)), [*FAULTS][1:]


def world(**changes: float) -> pd.DataFrame:
    """Return points of ten seeds in which every claim holds, but for changes by `system_column`."""
    rows: list[dict[str, Any]] = []
    for system in SYSTEMS:
        over = {"study": "stations", "speed": 2.0}
        all_to_all = system in ("nats", "zeromq", "dds")
        rows += [
            {**over, "protocol": system, "nodes": nodes, "fall": all_to_all * (nodes - 10) * 0.01}
            for nodes in (10, 20, 40)
        ]
        over = {"study": "speed", "nodes": 20}
        slow = 0.0 if system == "flooding" else 0.1
        rows += [
            {**over, "protocol": system, "speed": speed, "fall": slow * (speed > 1)}
            for speed in (1.0, 20.0)
        ]
        over = {
            "study": "faults",
            "nodes": 20,
            "speed": 2.0,
            "protocol": system,
            "recovered": 1.0,
            "recovery": 3.0,
        }
        gone = 0.3 if system == "mqtt" else 0.1
        rows += [{**over, "faults": fault, "fall": gone} for fault in FAULTS]
    points = []
    for seed in range(1, 11):
        for row in rows:
            system = str(row["protocol"])
            point = {
                "delivery_ratio": 1.0 - row["fall"] - 0.001 * seed,
                "delay_p50": 0.02 if system == "mqtt" else 0.01,
                "frames_per_delivery": 5.0 if system == "mqtt" else 30.0,
                "bytes_per_delivery": 500.0 if system == "broker-aodv" else 1000.0,
                "kept_real_time": seed != 4,
                **{beside(other): 0.02 if system == "mqtt" else 0.01 for other in SYSTEMS},
                **row,
            }
            for change, value in changes.items():
                of, _, name = change.partition("__")
                if of.replace("_", "-") == system:
                    point[name] = value
            points.append(
                {name: value * (1 + 0.001 * seed) if name == "delay_p50" else value
                 for name, value in point.items()} | {"seed": seed}
            )  # fmt: skip
    return pd.DataFrame(points)


def verdicts(points: pd.DataFrame) -> dict[str, Verdict]:
    return {finding.claim.key: finding.verdict for finding in judge(PAPER.claims, points)}


def test_every_system_is_compared() -> None:
    assert {*DEPLOYED} == {*MIDDLEWARE}
    assert {*SYSTEMS} - {*DEPLOYED} <= {*PROTOCOLS}


def test_the_page_says_which_systems_deliver_most_and_what_each_costs() -> None:
    points = world(
        gossipsub__delivery_ratio=0.99, mqtt__delivery_ratio=1.0, zenoh__frames_per_delivery=7.125
    )
    (sentence,) = PAPER.answer
    assert str(sentence.filled(points, ())).endswith(
        "at 40 stations MQTT, bridged MQTT, gossipsub, Zenoh."
    )
    assert PAPER.side_by_side is not None
    table = PAPER.side_by_side.table(points)
    assert table is not None
    assert len(table.rows) == len(SYSTEMS)
    (zenoh,) = [row for row in table.rows if row[0] == "Zenoh"]
    assert zenoh[table.head.index("frames")] == "7.12"
    assert "–" not in zenoh[: table.head.index("median, ms")]


def test_all_claims_hold_where_they_should() -> None:
    assert set(verdicts(world()).values()) == {Verdict.HOLDS}


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("sooner", {"zeromq__delay_p50": 0.04}),
        ("fewest", {"zenoh__frames_per_delivery": 4.0}),
        ("scale", {"zeromq__delivery_ratio": 0.95}),
        ("tcp", {"gossipsub__delivery_ratio": 0.97}),
        ("back", {"zenoh__recovered": 0.3}),
        ("cheaper", {"broker_aodv__bytes_per_delivery": 2000.0}),
    ],
)
def test_each_claim_can_fail(claim: str, changes: dict[str, float]) -> None:
    found = verdicts(world(**changes))
    assert found[claim] is not Verdict.HOLDS
    assert found[claim] in (Verdict.FAILS, Verdict.TIE)


@pytest.mark.parametrize(("claim", "system"), [("outlives", "zenoh"), ("second", "mqtt-bridged")])
def test_who_loses_more_by_the_broker_s_station_does_not_outlive_it(
    claim: str, system: str
) -> None:
    points = world()
    own = points["protocol"] == system
    points.loc[own & (points["faults"] == FAULT), "delivery_ratio"] = 0.4
    assert verdicts(points)[claim] is Verdict.FAILS
    points.loc[own & (points["study"] == "stations"), "delivery_ratio"] = 0.5
    if claim == "outlives":
        assert verdicts(points)[claim] is Verdict.HOLDS, "one that loses much anyway is passed over"


def test_faults_that_do_no_harm_are_told_from_those_that_it_comes_back_from() -> None:
    points = world()
    own = points[(points["protocol"] == "zenoh") & (points["study"] == "faults")]
    points.loc[own.index[:4], "recovery"] = 0.0
    points.loc[own.index[4], ["recovered", "recovery"]] = [0.0, float("nan")]
    (back,) = [f for f in judge(PAPER.claims, points) if f.claim.key == "back"]
    zenoh, hurt = [part for part in back.comparisons if part.text.startswith("Zenoh")]
    assert zenoh.note == (
        f"{len(own)} of {len(own)} faults have a verdict, 4 do no harm; "
        f"it comes back after {len(own) - 5} of the rest"
    )
    assert (zenoh.measure, hurt.measure) == ("", "faults that do harm")
    assert zenoh.interval is not None
    assert hurt.interval is not None
    assert hurt.interval.mean < zenoh.interval.mean


def test_runs_that_lost_real_time_are_judged_apart_beside() -> None:
    (scale,) = [f for f in judge(PAPER.claims, world()) if f.claim.key == "scale"]
    beside_it = [part for part in scale.comparisons if part.measure]
    assert [part.interval.count for part in beside_it if part.interval] == [9, 9, 9]


def test_one_number_of_stations_decides_nothing_of_growth() -> None:
    points = world()
    found = verdicts(points[(points["study"] == "stations") & (points["nodes"] == 20)])
    assert found["scale"] is Verdict.OPEN
    assert found["fewest"] is Verdict.HOLDS
