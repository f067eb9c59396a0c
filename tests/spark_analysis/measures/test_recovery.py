"""Faults in the analysis: who is expected to get events meanwhile, and when delivery is back."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.scenario.faults import Fault
from spark_analysis.analysis import analyse
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.measures.recovery import (
    FAULTS_RECOVERED,
    FAULTS_RECOVERED_LIVING,
    Published,
    Recovery,
    recovery,
)
from spark_analysis.reports import write_report
from tests.spark_analysis.runs import RunBuilder


def published(*ratios: float) -> list[Published]:
    """Ten deliveries each second; `ratios` are of stretches of 10 s."""
    return [
        Published(10 * stretch + second + 0.5, 10, round(10 * ratio))
        for stretch, ratio in enumerate(ratios)
        for second in range(10)
    ]


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ((1, 1, 1, 1), Recovery(1.0, 1.0, 0.0)),
        ((1, 0.2, 1, 1), Recovery(1.0, 0.2, 10.5)),
        ((0.8, 0.2, 0.8, 1), Recovery(0.8, 0.2, 10.5)),
        ((1, 0.5, 0.5, 0.5), Recovery(1.0, 0.5, None)),
    ],
)
def test_recovery_is_from_the_fault_until_delivery_is_as_before(
    ratios: tuple[float, ...], found: Recovery
) -> None:
    assert recovery(published(*ratios), 10.0, 40.0) == found


def test_without_anything_before_or_after_nothing_is_known() -> None:
    assert recovery(published(1, 1), 0.0, 20.0).recovery is None
    assert recovery(published(1, 1), 20.0, 30.0) == Recovery(1.0, None, None)
    assert recovery(published(0, 1), 10.0, 20.0) == Recovery(0.0, None, None)


def test_less_than_a_window_before_the_last_event_tells_nothing() -> None:
    # Two publishers, an event each 5 s; of one that is down from 20 s on everything is lost.
    both = [Published(5.0 * turn, 4, 4) for turn in range(4)]
    down = [
        Published(20 + 5.0 * turn + late, 4, received)
        for turn in range(7)
        for late, received in ((0.0, 4), (2.0, 0))
    ]
    for until in (60.0, 1e9):
        assert recovery([*both, *down, Published(55.0, 4, 4)], 20.0, until).recovery is None
    (*most, last) = published(1, 1, 1)
    assert recovery([*most, last._replace(received=9)], 10.0, 60.0) == Recovery(1.0, 1.0, 0.0)


def ended(folder: Path) -> Path:
    """Write a run that ended before its second fault."""
    run = RunBuilder(folder / "ended", nodes=2, duration=40.0)
    run.publish(1, 5.0, 1, ["a"])
    folder = run.write(lasted=20.0)
    faults = tuple(
        Fault(kind="radio", start=start, end=start + 20, nodes=("sta2",)) for start in (10.0, 25.0)
    )
    run.scenario().model_copy(update={"faults": faults}).save(folder / "scenario.json")
    return folder


def restarted(folder: Path) -> Path:
    """Write a run in which a receiver crashes, a radio is off, and a link fails."""
    run = RunBuilder(folder / "restarted", nodes=3, duration=40.0)
    for node in (2, 3):
        run.subscribe(node, 1.0, ["a"])
    run.subscribe(2, 12.0, ["a"])  # nobody hears that
    run.subscribe(2, 15.0, ["a"])  # when its node app is back
    for sequence, time in enumerate((5.0, 11.0, 13.0, 16.0, 22.0, 27.0), start=1):
        run.publish(1, time, sequence, ["a"])
        for node in (2, 3):
            if not (node == 2 and 10 <= time < 15) and not (node == 3 and 20 <= time < 25):
                run.notify(node, time + 0.01, (1, sequence), hops=1)
    run.publish(1, 30.5, 7, ["a"])  # nobody gets that
    run.publish(1, 36.0, 8, ["b"])
    folder = run.write()
    faults = (
        Fault(kind="crash", start=10, end=15, nodes=("sta2",), text="crash sta2 at 10 for 5"),
        Fault(kind="radio", start=20, end=25, nodes=("sta3",), text="radio sta3 at 20 for 5"),
        Fault(kind="link", start=30, end=35, nodes=("sta1", "sta2"), text="link sta1 sta2 at 30"),
    )
    run.scenario().model_copy(update={"faults": faults}).save(folder / "scenario.json")
    return folder


def killed(folder: Path) -> Path:
    """Write a run in which, of publishers 1 and 3, node 3 is killed for good at 20 s.

    A second later node 1 is as before.
    """
    run = RunBuilder(folder / "killed", nodes=3, duration=60.0)
    run.subscribe(2, 1.0, ["a"])
    for sequence, time in enumerate(range(2, 55), start=1):
        for publisher in (1, 3):
            run.publish(publisher, time + 0.1 * publisher, sequence, ["a"])
            if time < 20 or (publisher == 1 and time >= 21):
                run.notify(2, time + 0.5, (publisher, sequence), hops=1)
    folder = run.write()
    fault = Fault(kind="crash", start=20, nodes=("sta3",), text="crash sta3 at 20")
    run.scenario().model_copy(update={"faults": (fault,)}).save(folder / "scenario.json")
    return folder


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysis]:
    """Return the runs above, analysed together, by name."""
    root = tmp_path_factory.mktemp("runs")
    analysis = analyse(spark, [write(root) for write in (ended, restarted, killed)])
    return {run.name: analysis.of(run) for run in analysis.runs}


@pytest.mark.spark
def test_faults_after_the_end_did_not_happen(analysed: dict[str, Analysis]) -> None:
    analysis = analysed["ended"]
    tables = RunTables(analysis, analysis.runs[0])
    assert tables.table("recovery")[["start", "end"]].values.tolist() == [[10.0, 20.0]]
    assert FAULTS_RECOVERED.cell(tables) == "\N{EN DASH}"


@pytest.mark.spark
def test_deliveries_are_expected_at_receivers_that_are_up(analysed: dict[str, Analysis]) -> None:
    analysis = analysed["restarted"]
    tables = RunTables(analysis, analysis.runs[0])
    delivery = tables.table("delivery")
    due = delivery[delivery["expected"]].groupby("receiver")["sequence"].apply(sorted)
    assert due.to_dict() == {2: [1, 4, 5, 6, 7], 3: [1, 2, 3, 4, 6, 7]}
    summary = tables.table("summary")
    assert summary["delivery_ratio"].tolist() == [9 / 11]
    assert summary["recovery"].tolist() == [0.0], "of the faults that it recovers from"
    assert summary["recovered"].tolist() == [2 / 3], "and the share of these"
    found = tables.table("recovery")
    assert found["living_recovery"].isna().tolist() == [False, False, True]
    columns = [name for name in map(str, found) if name.startswith("living_")]
    found = found.drop(columns=["run", "fault", "text", "start", "end", *columns])
    assert found[:2].values.tolist() == [
        ["crash", "sta2", 1.0, 1.0, 0.0],
        ["radio", "sta3", 1.0, 1.0, 0.0],
    ]
    assert found["lowest"][2] == 0.0
    assert math.isnan(found["recovery"][2])
    assert FAULTS_RECOVERED.cell(tables) == "2 of 3"
    page = write_report(analysis, tables.run).read_text()
    assert "crash sta2 at 10 for 5" in page
    assert "Faults of the scenario are shaded" in page
    assert re.search(r"came back after 2 of 3 faults, after 0\ss on average of these", page)


@pytest.mark.spark
def test_what_the_dead_publish_is_told_apart(analysed: dict[str, Analysis]) -> None:
    analysis = analysed["killed"]
    tables = RunTables(analysis, analysis.runs[0])
    (row,) = tables.table("recovery").to_dict("records")
    assert math.isnan(row["recovery"])
    assert (row["living_before"], row["living_lowest"]) == (1.0, 0.8)
    assert row["living_recovery"] == pytest.approx(1.1)
    assert tables.table("summary")["recovered"].tolist() == [0.0]
    assert tables.table("summary")["recovered_living"].tolist() == [1.0]
    assert FAULTS_RECOVERED.cell(tables) == "0 of 1"
    assert FAULTS_RECOVERED_LIVING.cell(tables) == "1 of 1"
    page = write_report(analysis, tables.run).read_text()
    assert re.search(r"came back after 0 of 1 faults; among the living after 1 of 1\.", page)
