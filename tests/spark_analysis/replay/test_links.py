"""Which links and handovers a replay shows, of captures whose contents are known."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from emulation.radio.spec import RadioSpec
from emulation.scenario.access_point import AccessPointSpec
from emulation.scenario.runfolder import Run, read_run
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.registry import MIDDLEWARE
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.foreign import FOREIGN_FOLDER, read_foreign_slice
from spark_analysis.captures.materialise import PACKETS, Decoded, _write
from spark_analysis.captures.schemas import FOREIGN_FRAMES
from spark_analysis.captures.source import plan
from spark_analysis.replay import frames
from spark_analysis.replay.data import replay_data
from tests.spark_analysis.measures.test_middleware import MqttRun
from tests.spark_analysis.replay.test_replay import chain, tables_of
from tests.spark_analysis.runs import EPOCH

FORWARDED = IP(src="10.0.0.1", dst="10.0.0.9") / UDP(sport=5000, dport=5001) / Raw(bytes(8))
"""A packet of sta1 for a node that others know the way to."""
POINTS = {3: "ap1", 4: "ap2"}
"""Access points by the ids of their brokers."""


class BehindPoints(MqttRun):
    """Two stations and two access points, in whose captures is what their brokers' radios hear."""

    def scenario(self) -> Scenario:
        plain = super().scenario()
        nodes = tuple(
            node.model_copy(update={"device": "eth0"}) if node.id in POINTS else node
            for node in plain.nodes
        )
        points = tuple(
            AccessPointSpec(
                id=100 + broker, name=name, position=(10.0 * broker, 0.0), broker=broker
            )
            for broker, name in POINTS.items()
        )
        changes = {"nodes": nodes, "access_points": points, "mesh_radio": RadioSpec(range=100)}
        return plain.model_copy(update=changes)

    def write(self, killed: bool = False, lasted: float | None = None) -> Path:
        folder = super().write(killed, lasted)
        for broker, name in POINTS.items():
            captures = folder / "captures"
            (captures / f"sta{broker}-wlan0.pcap").rename(captures / f"{name}-wlan0.pcap")
        return folder


def analysed(builder: MqttRun) -> Run:
    """Write a run and decode its captures, as an analysis does."""
    run = read_run(builder.write())
    captures = find_captures([run.captures])
    radios = [capture for capture in captures if capture.interface != "lo"]
    read = partial(read_foreign_slice, MIDDLEWARE["mqtt"].service.ports)
    foreign = Decoded(FOREIGN_FOLDER, FOREIGN_FRAMES, read, whole=True)
    for what, files in ((PACKETS, captures), (foreign, radios)):
        folder = run.metrics / what.folder
        folder.mkdir(parents=True)
        for number, part in enumerate(plan(files, 1, whole=what.whole)):
            _write((str(folder / f"part-{number}.parquet"), part.value, what))
    return run


def test_a_packet_that_a_kernel_forwards_links_it_and_not_the_source(tmp_path: Path) -> None:
    builder = MqttRun(tmp_path / "run", nodes=3, duration=20.0)
    builder.send(1, 5.0, FORWARDED, to=2)
    builder.send(2, 5.01, FORWARDED, to=3)
    history = frames.links(analysed(builder), EPOCH, 20.0)
    assert history.pairs.tolist() == [[0, 1], [1, 2]], "and no 0, 2"


def test_a_packet_that_a_kernel_forwards_is_no_handover_of_its_source(tmp_path: Path) -> None:
    builder = BehindPoints(tmp_path / "run", nodes=4, duration=20.0)
    builder.send(1, 5.0, FORWARDED, to=3)
    builder.send(2, 5.01, FORWARDED, to=4)
    history = frames.links(analysed(builder), EPOCH, 20.0)
    assert history.pairs.tolist() == [[0, 2], [1, 3]], "each station and its access point"
    assert history.handovers == []


def test_in_a_long_run_the_page_says_how_exact_its_links_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = chain(tmp_path / "run")
    tables = tables_of(builder, builder.write())
    for steps, notes in ((40, []), (10, ["In so long a run links are shown to 2 s."])):
        monkeypatch.setattr(frames, "STEPS", steps)
        data = replay_data(tables)
        assert data is not None
        assert data["notes"] == notes
