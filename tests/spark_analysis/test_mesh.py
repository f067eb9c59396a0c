"""The analysis of a run with access points, from its captures to its report."""

from __future__ import annotations

import json
import shutil
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.virtual.recording import PcapRecorder
from spark_analysis.analysis import analyse
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.replay.data import replay_data
from spark_analysis.reports import write_report
from topologies.catalog import make_scenario

pytestmark = pytest.mark.spark


class Analysed(NamedTuple):
    folder: RunFolder
    analysis: Analysis


def copied(whole: RunFolder, name: str) -> RunFolder:
    """Return a copy of a run folder beside it."""
    return RunFolder(shutil.copytree(whole.path, whole.path.parent / name))


@pytest.fixture(scope="module")
def meshes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Analysed]:
    """A mesh with stations that change their access points, all frames of it.

    "whole" is that; "differing" has a frame more in the counters, which say that they are not
    complete; "lacking" has a capture less.  They are analysed together.
    """
    scenario = make_scenario(
        "mesh_grid", "broker-gpsr", seed=2, duration=25, settings={"speed": 20, "nodes": 8}
    )
    whole = RunFolder.create(tmp_path_factory.mktemp("runs"), scenario)
    simulate(scenario, whole, PcapRecorder(scenario, whole))

    differing = copied(whole, "differing")
    flows = json.loads(differing.flows.read_text())
    busiest = max(flows["access_points"][0]["counters"], key=lambda each: int(each["frames"]))
    busiest["frames"] += 1
    flows["complete"] = False
    differing.flows.write_text(json.dumps(flows))

    lacking = copied(whole, "lacking")
    (lacking.captures / "ap2-mesh0.pcap").unlink()

    folders = {"whole": whole, "differing": differing, "lacking": lacking}
    together = analyse(spark, [folder.path for folder in folders.values()])
    parts = [together.of(run) for run in together.runs]
    return {
        name: Analysed(folder, part)
        for (name, folder), part in zip(folders.items(), parts, strict=True)
    }


@pytest.fixture
def mesh(meshes: dict[str, Analysed]) -> Analysed:
    return meshes["whole"]


def test_nothing_is_missing_and_nothing_strange(mesh: Analysed) -> None:
    (problems,) = mesh.analysis.problems.values()
    assert problems == ()
    nodes = mesh.analysis.table("nodes")
    assert nodes["radio_captured"].all()
    assert nodes["access_point"].notna().sum() == 9


def test_counters_of_the_network_equal_the_captures(mesh: Analysed) -> None:
    table = mesh.analysis.table("counters")
    assert len(table) > 9 * 3 * 2
    assert (table["counted_frames"] == table["captured_frames"]).all()
    assert (table["counted_bytes"] == table["captured_bytes"]).all()
    assert set(table["traffic_class"]) == {"EVENTS", "PUBSUB_CONTROL", "ROUTING_CONTROL"}


def test_counters_of_the_network_equal_the_overhead(mesh: Analysed) -> None:
    """What the brokers' radios sent, by the flows and by the table of overhead."""
    flows = json.loads(mesh.folder.flows.read_text())
    copies = {"BROKER_TO_ALL": 2, "BROKER_TO_STATION": 1, "BROKER_TO_MESH": 1}
    counted = dict.fromkeys(("EVENTS", "PUBSUB_CONTROL", "ROUTING_CONTROL"), 0)
    for point in flows["access_points"]:
        for each in point["counters"]:
            if each["class"] in counted:
                counted[each["class"]] += copies.get(each["path"], 0) * each["bytes"]
    overhead = mesh.analysis.table("overhead")
    brokers = overhead[overhead["node"].str.startswith("br")]
    classes = {"EVENT": "EVENTS", "HELLO": "ROUTING_CONTROL"}
    captured = brokers.groupby(
        brokers["kind_name"].map(lambda kind: classes.get(kind, "PUBSUB_CONTROL"))
    )["sent_bytes"].sum()
    assert captured.to_dict() == counted
    assert min(counted.values()) > 0


def test_broadcasts_of_brokers_are_on_both_radios_and_told_apart(mesh: Analysed) -> None:
    load = mesh.analysis.table("load").set_index("node")
    overhead = mesh.analysis.table("overhead")
    beacons = overhead[overhead["kind_name"] == "HELLO"].set_index("node")["sent_frames"]
    sums = load.groupby("node")[["sent_frames", "mesh_frames"]].sum()
    assert sums["mesh_frames"]["sta1"] == 0
    # Beacons are broadcasts: half of their frames leave by each radio.
    assert beacons["br5"] / 2 <= sums["mesh_frames"]["br5"] <= sums["sent_frames"]["br5"]
    assert sums["sent_frames"]["br5"] - sums["mesh_frames"]["br5"] >= beacons["br5"] / 2


def test_the_report_says_that_they_agree(mesh: Analysed) -> None:
    (run,) = mesh.analysis.runs
    page = write_report(mesh.analysis, run).read_text(encoding="utf-8")
    assert "The network&#39;s own counters" in page or "The network's own counters" in page
    assert "They agree at every port" in page
    assert "DIFFER" not in page
    assert "captures/ap1-mesh0.pcap" in page


def test_handovers_are_marked_in_the_replay(mesh: Analysed) -> None:
    (run,) = mesh.analysis.runs
    data = replay_data(RunTables(mesh.analysis, run))
    assert data is not None
    marks = [mark for mark in data["marks"] if mark["kind"] == "handover"]
    names = {node.mac: node.name for node in run.scenario.nodes}
    epoch = mesh.analysis.table("summary")["epoch_ns"].iloc[0]
    changes = {
        f"{names[move['station']]} hands over from {move['left']} to {move['access_point']}": (
            (move["time_ns"] - epoch) / 1e9
        )
        for move in json.loads(mesh.folder.flows.read_text())["moves"]
        if move["left"] is not None
    }
    assert {mark["text"] for mark in marks} == changes.keys()
    assert len(marks) == len(changes) > 4
    for mark in marks:
        assert 0 < mark["time"] - changes[mark["text"]] < 1.1, "at its first beacon there"
        assert run.scenario.nodes[mark["nodes"][0]].name == mark["text"].split()[0]


def test_the_report_says_where_they_differ(meshes: dict[str, Analysed]) -> None:
    analysis = meshes["differing"].analysis
    page = write_report(analysis, analysis.runs[0]).read_text(encoding="utf-8")
    assert "They DIFFER, port by port, by" in page
    assert "the run did not end in order" in page


def test_captures_of_radios_that_are_missing_are_named(meshes: dict[str, Analysed]) -> None:
    analysis = meshes["lacking"].analysis
    (problems,) = analysis.problems.values()
    assert problems == (
        "no capture of mesh0 of ap2: what these nodes sent and received by radio is not counted",
    )
    nodes = analysis.table("nodes").set_index("node")["radio_captured"]
    assert not nodes["br2"]
    assert nodes.drop("br2").all()
