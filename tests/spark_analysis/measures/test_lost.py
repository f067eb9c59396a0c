"""Why deliveries are missing: each cause made on purpose, and the sum of all causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from emulation.errors import ScenarioError
from emulation.mobility.contacts import Contact
from emulation.mobility.trajectory import Waypoint
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.workloads.base import Operation
from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.analysis import tables_of
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.measures.delivery import DELIVERY
from spark_analysis.measures.last_seen import MEANING, Cause
from spark_analysis.measures.lost import LOST
from spark_analysis.measures.summary import SUMMARY
from topologies.catalog import make_scenario

TOPIC = (("topic", "=", "a"),)
CHAIN = (0.0, 200.0, 400.0)
"""Metres: each hears only its neighbours."""
DURATION: Final = 30.0
TREE = "subscription-forwarding"


class Case(NamedTuple):
    """Nodes stand on a line; sta1 publishes one event (topic a), the last one subscribes."""

    cause: Cause
    node: int | None = None
    """Where the event is last seen, and ..."""
    following: int | None = None
    """... whom it does not reach; None: nobody."""
    at: Sequence[float] = CHAIN
    protocol: str = "flooding"
    faults: str = ""
    published: float = 20.0
    subscribed: float = 1.0
    unsubscribed: float | None = None
    publishers: Sequence[int] = (1,)
    events: int = 1
    interval: float = 0.0
    subscriber: int | None = None
    settings: Mapping[str, Any] = MappingProxyType({})
    has_log: bool = True
    contacts: tuple[Contact, ...] | None = None


HIDDEN: Final = Case(Cause.COLLISION, following=2, publishers=(1, 3), subscriber=2)
CASES: Final = {
    "relay's radio is down": Case(Cause.NODE_DOWN, 1, 2, faults="radio sta2 at 10"),
    "relay has crashed": Case(Cause.NODE_DOWN, 1, 2, faults="crash sta2 at 10"),
    "publisher's radio is down": Case(Cause.NODE_DOWN, 1, 2, faults="radio sta1 at 10"),
    "link has failed": Case(Cause.LINK_DOWN, 2, 3, faults="link sta2 sta3 at 10"),
    "partition": Case(Cause.LINK_DOWN, 1, 2, faults="partition x=100 at 10"),
    "disturbed": Case(Cause.DISTURBED, 2, 3, faults="disturb sta2 sta3 lose 1 at 10"),
    "out of range": Case(Cause.OUT_OF_RANGE, 3, 4, at=(0.0, 200.0, 300.0, 1500.0)),
    "out of contact": Case(
        Cause.OUT_OF_RANGE, 2, 3, contacts=(Contact(1, 2, 0.0, 30.0), Contact(2, 3, 0.0, 15.0))
    ),
    "hidden terminals": HIDDEN,
    "hidden terminals, no log": HIDDEN._replace(cause=Cause.AIR, has_log=False),
    "noise": Case(Cause.NOISE, 1, 2, at=(0.0, 249.5), events=60, interval=0.1),
    "retries": Case(
        Cause.RETRIES, 1, 2, at=(0.0, 200.0), protocol=TREE,
        faults="jam 320,0 power 12 duty 1 at 19.99", settings={"propagation": "logDistance"},
    ),
    "queue": Case(Cause.QUEUE, 1, 2, events=8, settings={"queue_frames": 1}),
    "subscribed a moment ago": Case(
        Cause.NOT_KNOWN, 1, protocol=TREE, subscribed=19.9999, published=20.0
    ),
    "the client left": Case(
        Cause.TOO_LATE, 3, unsubscribed=20.001, settings={"max_jitter": 5.0}
    ),
    "the end": Case(Cause.ENDED, 2, published=29.9, settings={"max_jitter": 10.0}),
    "time to live": Case(Cause.NO_ROUTE, 2, settings={"ttl": 1}),
}  # fmt: skip


def scenario(case: Case) -> Scenario:
    made = make_scenario(
        "roaming_field",
        case.protocol,
        seed=3,
        duration=DURATION,
        settings={"nodes": len(case.at), "topics": 0, "speed": 0, "side": 200}
        | ({"faults": case.faults} if case.faults else {})
        | dict(case.settings),
    )
    nodes = tuple(
        node.model_copy(update={"waypoints": (Waypoint(0.0, x, 0.0),)})
        for node, x in zip(made.nodes, case.at, strict=True)
    )
    subscriber = case.subscriber or len(nodes)
    client: dict[str, Any] = {"node": subscriber, "subscription": 1}
    workload = [
        Operation(time=case.subscribed, action="subscribe", filter=TOPIC, **client),
        *(
            Operation(
                time=case.published + number * case.interval, node=node, action="publish",
                sequence=number + 1, event={"topic": "a"}, size=400,
            )
            for node in case.publishers
            for number in range(case.events)
        ),
    ]  # fmt: skip
    if case.unsubscribed is not None:
        workload.append(Operation(time=case.unsubscribed, action="unsubscribe", **client))
    workload.sort(key=lambda operation: operation.time)
    changed = {"nodes": nodes, "workload": tuple(workload), "contacts": case.contacts}
    return made.model_copy(update=changed)


def run(folder: Path, name: str, made: Scenario, *, has_log: bool = True) -> Path:
    made_in = RunFolder(folder / name)
    made_in.path.mkdir()
    made_in.begin(made)
    run_to_frames(made, made_in)
    assert made_in.losses.exists()
    if not has_log:
        made_in.losses.unlink()
    return made_in.path


CUT: Final = {"cut": (b"1.5,sta1,some", 7), "empty": (b"", 1 << 20)}
"""What a log has besides whole lines, and how many bytes are cut off, by the name of a run."""


def cut(folder: Path, name: str) -> Path:
    """Make a run of hidden terminals whose log is cut."""
    path = run(folder, name, scenario(HIDDEN))
    more, off = CUT[name]
    log = RunFolder(path).losses
    text = log.read_bytes() + more
    log.write_bytes(text[: max(len(text) - off, 0)])
    return path


def of_protocols(folder: Path) -> list[Path]:
    """Make a run of each protocol that needs neither a road map nor access points."""
    folders = []
    for name in PROTOCOLS:
        settings = {"nodes": 20, "faults": "crash 20% at 10 for 5; radio 10% at 15"}
        try:
            made = make_scenario("roaming_field", name, seed=2, duration=20.0, settings=settings)
        except ScenarioError:
            continue
        folders.append(run(folder, name, made))
    return folders


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[pd.DataFrame]:
    """What is lost, deliveries and summaries of all runs of this file, in one analysis."""
    folder = tmp_path_factory.mktemp("lost")
    folders = [
        *(run(folder, name, scenario(case), has_log=case.has_log) for name, case in CASES.items()),
        *(cut(folder, name) for name in CUT),
        *of_protocols(folder),
    ]
    return [table.to_pandas() for table in tables_of(spark, folders, (LOST, DELIVERY, SUMMARY))]


@pytest.fixture(scope="module")
def rows(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return tables[0]


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_each_cause(rows: pd.DataFrame, name: str) -> None:
    case = CASES[name]
    mine = rows[rows["run"] == name]
    assert set(mine["cause"]) == {str(case.cause)}
    if case.node is not None:
        assert set(mine["node_id"]) == {case.node}
        assert set(mine["x"]) == {case.at[case.node - 1]}
    assert set(mine["following"].fillna(0)) == {case.following or 0}
    span = case.events * case.interval + 0.1
    assert (mine["time"].between(case.published, case.published + span)).all()
    assert (mine["seen"] >= mine["time"] - 1e-6).all()


def test_all_causes_are_made() -> None:
    assert {case.cause for case in CASES.values()} == set(Cause) == set(MEANING)


@pytest.mark.spark
def test_a_log_that_is_cut_counts_up_to_its_last_whole_line(rows: pd.DataFrame) -> None:
    causes = {name: set(rows.loc[rows["run"] == name, "cause"]) for name in CUT}
    assert causes == {"cut": {Cause.COLLISION}, "empty": {Cause.AIR}}


@pytest.mark.spark
def test_the_sum_is_what_is_missing(tables: list[pd.DataFrame]) -> None:
    lost, delivery, summary = (table[table["run"].isin([*PROTOCOLS])] for table in tables)
    pair = ["run", "publisher", "sequence", "receiver", "client"]
    missing = delivery[delivery["expected"] & (delivery["notifications"] == 0)]
    assert sorted(map(tuple, lost[pair].to_numpy())) == sorted(map(tuple, missing[pair].to_numpy()))
    assert set(lost["cause"]) <= set(Cause)
    counted = lost.groupby("run").size()
    settled = lost[lost["settled"]].groupby("run").size()
    for row in tuples(summary):
        assert counted.get(row.run, 0) == row.expected_all - row.received_all
        assert settled.get(row.run, 0) == row.expected - row.received
    assert (counted > 0).sum() >= 5
