"""Content and churn: the captures alone tell who should have received what, in every protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.workloads.base import Operation
from nodeapp.events import Filter
from spark_analysis.analysis import tables_of
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.measures.delivery import DELIVERY
from spark_analysis.measures.subscriptions import SUBSCRIPTIONS
from topologies.catalog import make_scenario

pytestmark = [pytest.mark.spark]

FIELD: Mapping[str, Any] = {"nodes": 20, "speed": 0, "propagation": "unitDisk", "interval": 1}
"""Dispatchers that stand still in a connected field of several hops, whose links lose nothing."""
CHANGING: Mapping[str, Any] = {
    **FIELD,
    "workload": "churn",
    "lifetime": 2,
    "subscribers": 15,
    # One event at a time, so that none is lost in a collision with another, and a slow one.
    "publishers": 1,
    "max_jitter": 0.5,
}
SCENES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "content-flooding": ("flooding", {**FIELD, "workload": "content"}),
    "content-gpsr": ("broker-gpsr", {**FIELD, "workload": "content"}),
    "topics-gpsr": ("broker-gpsr", {**FIELD, "workload": "content", "topics": 3}),
    "churn": ("flooding", CHANGING),
    "lingering": ("flooding", {**CHANGING, "linger": 1.5}),
}
Delivery = tuple[int, int, int]
"""Publisher, number of the event, receiver."""


class Made(NamedTuple):
    """What was run, and the tables of all runs."""

    scenarios: dict[str, Scenario]
    delivery: pd.DataFrame
    subscriptions: pd.DataFrame

    def rows(self, name: str) -> pd.DataFrame:
        return self.delivery[self.delivery["run"] == name]

    def due(self, name: str) -> set[Delivery]:
        return _deliveries(self.rows(name).loc[lambda table: table["expected"]])

    def received(self, name: str) -> set[Delivery]:
        return _deliveries(self.rows(name).loc[lambda table: table["notifications"] > 0])


def _deliveries(table: pd.DataFrame) -> set[Delivery]:
    return {tuple(row) for row in table[["publisher", "sequence", "receiver"]].to_numpy().tolist()}


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("content")
    scenarios = {}
    for name, (protocol, settings) in SCENES.items():
        scenario = make_scenario(
            "roaming_field", protocol, seed=5, duration=40.0, settings=settings
        )
        run = RunFolder(folder / name)
        run.path.mkdir()
        run.begin(scenario)
        run_to_frames(scenario, run)
        scenarios[name] = scenario
    delivery, subscriptions = tables_of(
        spark, [folder / name for name in SCENES], (DELIVERY, SUBSCRIPTIONS)
    )
    return Made(scenarios, delivery.to_pandas(), subscriptions.to_pandas())


def spans(scenario: Scenario) -> list[tuple[Operation, float]]:
    """Return what begins each subscription of a workload, and when it ends."""
    ends = {
        (o.node, o.subscription): o.time for o in scenario.workload if o.action == "unsubscribe"
    }
    return [
        (o, ends.get((o.node, o.subscription), math.inf))
        for o in scenario.workload
        if o.action == "subscribe"
    ]


def due_of(scenario: Scenario) -> set[Delivery]:
    """Return who should receive what, from the workload alone."""
    interests = [(o, end, Filter.decode(o.filter)) for o, end in spans(scenario)]
    return {
        (event.node, event.sequence, o.node)
        for event in scenario.workload
        if event.action == "publish"
        for o, end, wanted in interests
        if o.time <= event.time < end and wanted.matches(event.event)
    }


@pytest.mark.parametrize("name", list(SCENES))
def test_the_captures_tell_who_should_receive_what(made: Made, name: str) -> None:
    due = due_of(made.scenarios[name])
    assert made.due(name) == due
    assert len(due) > 70


@pytest.mark.parametrize("name", ["content-flooding", "lingering"])
def test_flooding_delivers_all_if_links_lose_nothing(made: Made, name: str) -> None:
    assert made.received(name) >= made.due(name)
    assert made.rows(name)["hops"].max() >= 3, "more than the neighbours"


def test_nobody_gets_what_does_not_match(made: Made) -> None:
    for name in ("content-flooding", "content-gpsr", "topics-gpsr"):
        assert made.received(name) <= made.due(name)


def test_a_protocol_that_hashes_topics_serves_content(made: Made) -> None:
    for name in ("content-gpsr", "topics-gpsr"):
        assert len(made.received(name)) > 0.95 * len(made.due(name))


def test_the_number_of_operations_is_as_drawn(made: Made) -> None:
    for name, scenario in made.scenarios.items():
        found = made.subscriptions[made.subscriptions["run"] == name]
        drawn = spans(scenario)
        assert len(found) == len(drawn)
        lasted = {
            (row.node_id, row.subscription): (row.until_ns - row.from_ns) / 1e9
            for row in tuples(found)
        }
        for o, end in drawn:
            if end < math.inf:
                assert lasted[o.node, o.subscription] == pytest.approx(end - o.time, abs=1e-6)
    churn = sum(o.action == "unsubscribe" for o in made.scenarios["churn"].workload)
    assert churn > 150


def test_only_those_who_leave_miss_events_and_only_while_these_are_under_way(made: Made) -> None:
    """What the strict rule does at the moments of change, if no link loses anything."""
    scenario = made.scenarios["churn"]
    published = {(o.node, o.sequence): o for o in scenario.workload if o.action == "publish"}
    missing = made.due("churn") - made.received("churn")
    unexpected = made.received("churn") - made.due("churn")
    assert 5 < len(missing) < 0.25 * len(made.due("churn"))
    assert unexpected
    slowest = made.rows("churn")["delay"].max()
    for publisher, sequence, receiver in missing:
        event = published[publisher, sequence]
        ends = [
            end
            for o, end in spans(scenario)
            if o.node == receiver
            and o.time <= event.time < end
            and Filter.decode(o.filter).matches(event.event)
        ]
        assert all(end - event.time <= slowest for end in ends)
    for publisher, sequence, receiver in unexpected:
        event = published[publisher, sequence]
        assert any(
            event.time < o.time <= event.time + slowest
            for o, _ in spans(scenario)
            if o.node == receiver and Filter.decode(o.filter).matches(event.event)
        )
