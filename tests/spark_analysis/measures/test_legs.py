"""Legs from captures: packets, probes, delay and waiting beside what the run itself did."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, ClassVar, cast

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.virtual.recording import PcapRecorder
from nodeapp import wire
from nodeapp.pubsub import registry
from nodeapp.pubsub.mesh.messages import MeshKind
from spark_analysis.analysis import tables_of
from spark_analysis.engine.pandas_rows import groups
from spark_analysis.engine.results import RunTables
from spark_analysis.measures.legs import CLIENTS, LEGS
from spark_analysis.measures.summary import SUMMARY
from topologies.catalog import make_scenario


class Counting(PcapRecorder):
    """Counts, of each client, the deliveries and probes that nodes sent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.counted: Counter[tuple[int, str]] = Counter()
        self._brokers = {point.broker for point in arguments[0].access_points}

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Any:
        frame = wire.decode(datagram)
        way = "mesh" if to in self._brokers and station + 1 in self._brokers else "access"
        if frame.kind == MeshKind.DELIVERY:
            self.counted[frame.destination, f"{way}_packets"] += 1
        return super().sent(time, station, to, datagram)


NEWCOMERS = {"predicting": "mobility-prediction", "fetching": "periodic-probing"}
"""Protocols by names that no module knows: a new one of a mesh needs its file and its line only."""


@pytest.mark.spark
def test_legs_are_what_the_run_did(
    spark: SparkSession, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = {name: registry.PROTOCOLS[known] for name, known in NEWCOMERS.items()}
    monkeypatch.setattr(registry, "SYSTEMS", {**registry.SYSTEMS, **lines})
    root = tmp_path_factory.mktemp("legs")
    folders, counted = {}, {}
    for protocol, known in NEWCOMERS.items():
        settings = {"k": "2", "nodes": "4", "speed": "10", "graph": "fixed", "interval": "2"}
        scenario = make_scenario("mesh_legs", known, seed=3, duration=3600, settings=settings)
        named = scenario.protocol.model_copy(update={"name": protocol})
        scenario = scenario.model_copy(update={"protocol": named})
        folder = RunFolder.create(root, scenario)
        recorder = Counting(scenario, folder)
        simulate(scenario, folder, recorder)
        folders[protocol], counted[protocol] = folder, recorder.counted
    found = tables_of(spark, [folder.path for folder in folders.values()], (LEGS, SUMMARY))
    legs, summary = (table.to_pandas() for table in found)
    summary = summary.set_index("protocol")
    names = {folder.path.name: protocol for protocol, folder in folders.items()}
    legs = legs.assign(protocol=legs["run"].map(names))
    for protocol, of in groups(legs, "protocol"):
        assert len(of) == of["client"].nunique() == 4
        assert set(of["leg"]) == {1}
        assert (of["start"].sub(12.0).abs() < 1e-3).all()
        for row in of.to_dict("records"):
            sent = counted[str(protocol)]
            assert row["mesh_packets"] == sent[row["client"], "mesh_packets"]
            # An access point drops what is for a station that is not there: that is on no radio.
            dropped = sent[row["client"], "access_packets"] - row["access_packets"]
            assert 0 <= dropped <= 3
            assert row["access_packets"] >= row["events"]
        packets = of["mesh_packets"] + of["mesh_probes"]
        expected = (packets / of["events"]).mean()
        assert summary.loc[protocol, "leg_mesh_packets"] == pytest.approx(expected)
        pooled = packets.sum() / of["events"].sum()
        assert summary.loc[protocol, "event_mesh_packets"] == pytest.approx(pooled)
    prediction = legs[legs["protocol"] == "predicting"]
    probing = legs[legs["protocol"] == "fetching"]
    assert (prediction[["mesh_probes", "access_probes"]] == 0).all(axis=None)
    assert (prediction["waiting"] < 0.01).all()
    assert (probing["access_probes"] > 0).all()
    assert 2.0 < probing["waiting"].mean() < 8.0  # half of 10 s
    assert ((probing["delay"] - probing["waiting"]).abs() < 0.6).all()


class Made:
    """Stands for the tables of a run."""

    names: ClassVar = {7: "sta7"}

    def __init__(self, legs: pd.DataFrame) -> None:
        self._legs = legs

    def table(self, name: str) -> pd.DataFrame:
        assert name == "legs"
        return self._legs


def test_the_report_lists_clients_and_says_nothing_of_runs_without_legs() -> None:
    legs = pd.DataFrame(
        {
            "client": [7, 7, 7], "leg": [1, 2, 3], "events": [1, 3, 4],
            "mesh_packets": [2, 10, 4], "access_packets": [1, 3, 4], "mesh_probes": [0, 4, 0],
            "access_probes": [0, 1, 4], "delay": [1e-5, 3e-5, math.nan],
            "waiting": [0.0, 2.0, math.nan],
        }
    )  # fmt: skip
    (table,) = CLIENTS.tables(cast(RunTables, Made(legs)))
    (row,) = table.rows
    assert row == ["sta7", "3", "8", "2.50", "1.62", "25\u202fµs", "1.50\u202fs"]
    assert CLIENTS.tables(cast(RunTables, Made(legs[:0]))) == []


@pytest.mark.spark
def test_a_leg_ends_where_the_client_does_and_not_with_its_pause_there(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = {"side": "3", "nodes": "4", "speed": "20", "pause": "15", "interval": "1"}
    scenario = make_scenario(
        "mesh_grid", "mobility-prediction", seed=3, duration=90, settings=settings
    )
    folder = RunFolder.create(tmp_path_factory.mktemp("pauses"), scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    (table,) = tables_of(spark, [folder.path], (LEGS,))
    legs = table.to_pandas()
    assert legs["end"].notna().sum() >= 3
    for client, of in legs.groupby("client"):
        said = [each for each in scenario.navigation if each.node == client]
        starts = [each.time + float(each.event["remaining"]) for each in said]
        ends = [each.time for each in said[1:]]
        for row in of.to_dict("records"):
            assert row["start"] == pytest.approx(starts[row["leg"] - 1], abs=0.01)
            if row["leg"] <= len(ends):
                assert row["end"] == pytest.approx(ends[row["leg"] - 1], abs=0.01)
