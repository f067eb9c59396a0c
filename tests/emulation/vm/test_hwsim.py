"""The kernel's own 802.11, in a machine whose clock waits: run there, judged here by captures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scapy.layers.dot11 import Dot11Beacon
from scapy.layers.inet import UDP
from scapy.utils import PcapReader

from capture.radiotap import ACK, BEACON, CONTROL, DATA, MANAGEMENT, decode_air
from capture.scan import AIR, RADIOTAP, read_header, record_offsets
from emulation.scenario.scenario import Scenario
from emulation.vm.build import Image
from nodeapp.installation import PROJECT
from nodeapp.kinds import CommonKind
from nodeapp.wire import WireError, decode
from spark_analysis import sweeps

pytestmark = [pytest.mark.vm, pytest.mark.root, pytest.mark.spark]

SIDE = 2
STATIONS = 2  # at opposite corners, as drawn
SUBSCRIBERS = 1


def on_this_machine(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the testbed on this machine."""
    command = [sys.executable, "-m", "testbed", *map(str, words)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def settings(**values: object) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def logs(root: Path) -> str:
    """Return what the processes of a run had to say: the reason of a failure may be there."""
    return "".join(path.read_text() for path in sorted(root.glob("*/nodes/*.log")))


def test_events_cross_access_points_under_a_controller(image: Image, tmp_path: Path) -> None:
    done = on_this_machine(
        *("run", "mesh_grid", "flooding", "--backend", "machine"),
        *("--nodes", STATIONS, "--duration", 14, "--runs", tmp_path),
        # A station that moves on misses what comes while it changes the access point.
        *settings(
            side=SIDE, topics=1, publishers=1, subscribers=SUBSCRIBERS, interval=0.5, speed=0
        ),
    )
    assert done.returncode == 0, done.stderr + logs(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert f"run folder: {folder}" in done.stderr
    points = SIDE**2
    assert len(list(folder.glob("captures/sta*.pcap"))) == 2 * STATIONS
    assert len(list(folder.glob("captures/ap*.pcap"))) == 2 * points
    assert (folder / "report.html").is_file()

    delivery = pd.read_parquet(folder / "metrics/delivery.parquet")
    published = len(delivery.groupby(["publisher", "sequence"]))
    assert published >= 4
    assert len(delivery) == SUBSCRIBERS * published
    assert delivery["expected"].all()
    assert set(delivery["notifications"]) == {1}

    # Every node floods an event, a broker to its stations and over the mesh.
    overhead = pd.read_parquet(folder / "metrics/overhead.parquet")
    events = overhead[overhead["kind"] == int(CommonKind.EVENT)]
    frames = (STATIONS + 2 * points) * published
    assert events["sent_frames"].sum() == frames

    # The switches have counted the same.
    counters = pd.read_parquet(folder / "metrics/counters.parquet")
    assert set(counters["access_point"]) == {f"ap{number + 1}" for number in range(points)}
    assert counters["counted_frames"].sum() > frames
    for unit in ("frames", "bytes"):
        assert (counters[f"counted_{unit}"] == counters[f"captured_{unit}"]).all()

    # Frames of the mesh are more than UDP in 802.11; access points without stations keep silent.
    seen = on_the_air(folder / "captures" / AIR)
    assert STATIONS < seen["event"] / published <= STATIONS + points
    check_infrastructure(folder)


def check_infrastructure(folder: Path) -> None:
    """Check by the air who sends beacons, and that stations talk to access points alone."""
    scenario = Scenario.load(folder / "scenario.json")
    data = (folder / "captures" / AIR).read_bytes()
    header = read_header(data, RADIOTAP)
    offsets, _, reason = record_offsets(data, header)
    assert reason is None
    air = decode_air(data, header, offsets)
    assert air["is_frame"].all()
    points = {number(point.bssid) for point in scenario.access_points}
    meshes = {number(point.mesh_mac) for point in scenario.access_points}
    stations = {number(node.mac) for node in scenario.stations}

    beacons = (air["type"] == MANAGEMENT) & (air["subtype"] == BEACON)
    assert set(air["transmitter"][beacons].tolist()) == points | meshes
    assert (air["rate_kbps"][beacons] == 6000).all()  # the basic rate of 802.11g
    # A frame's time is when its sending began, and it is captured when that ends.  Beacons of four
    # access points, which are due together, say nothing of the order of the others.
    assert (np.diff(air["time_ns"][~beacons]) >= 0).mean() > 0.9
    # To the access point, whatever it is for, and acknowledged.
    sent = (air["type"] == DATA) & np.isin(air["transmitter"], list(stations))
    assert set(air["receiver"][sent].tolist()) <= points
    answers = (air["type"] == CONTROL) & (air["subtype"] == ACK)
    answered = air["receiver"][answers].tolist()
    assert stations <= set(answered)
    # Hardly a frame is given up.
    assert 0.9 * sent.sum() <= sum(mac in stations for mac in answered)


def number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


@pytest.mark.long
def test_it_agrees_with_tap_and_the_virtual_clock_and_is_the_same_twice(
    image: Image, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = on_this_machine(
        *("agree", "roaming_field", "flooding", "--backends", "tap,machine,virtual"),
        *("--repeats", 2, "--nodes", 5, "--duration", 14, "--out", out),
        *settings(topics=1, subscribers=3, side=250, speed=0, interval=0.5),
    )
    # Whether tap keeps real time is a question to this machine.
    assert done.returncode in (0, 1), done.stderr + logs(out)
    for other in ("machine", "virtual"):
        written = out / f"agreement-tap-{other}.json"
        assert written.exists(), done.stderr + logs(out)
        result = json.loads(written.read_text(encoding="utf-8"))
        assert result["backends"] == ["tap", other]
        for criterion in result["criteria"]:
            if criterion["name"] != "time on the air":
                assert criterion["ok"], criterion
            assert criterion["quantity"]["second"]["mean"] > 0
    first = out / "repeat1-machine"
    air = on_the_air(first / "captures" / AIR)
    assert air["event"] >= 5
    assert air["beacon"] > 0

    runs = tmp_path / "again"
    scenario = ("--scenario", first / "scenario.json")
    done = on_this_machine(
        *("run", *scenario, "--backend", "machine", "--no-analyze", "--runs", runs)
    )
    assert done.returncode == 0, done.stderr + logs(runs)
    (second,) = runs.iterdir()
    captures = sorted(path.name for path in (first / "captures").iterdir())
    assert len(captures) == 2 * 5 + 1
    for name in captures:
        assert (first / "captures" / name).read_bytes() == (
            second / "captures" / name
        ).read_bytes(), name


FIELD = ("--nodes", 8, *settings(topics=1, subscribers=3, interval=0.5))
GRID = ("--nodes", 4, *settings(side=2, subscribers=2, interval=0.5, speed=0))


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("roaming_field", "mqtt", *FIELD, *settings(routing="babel")),
        *(("roaming_field", system, *FIELD) for system in ("zeromq", "zenoh", "dds", "nats")),
        ("mesh_grid", "mqtt", *GRID),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_other_peoples_systems_do_the_same_twice(
    words: tuple[object, ...], image: Image, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        done = on_this_machine(
            *("run", *words, "--duration", 14, "--backend", "machine"), "--runs", tmp_path / name
        )
        assert done.returncode == 0, done.stderr + logs(tmp_path / name)
    (first,), (second,) = ((tmp_path / name).iterdir() for name in ("first", "second"))
    delivery = pd.read_parquet(first / "metrics/delivery.parquet")
    assert delivery["expected"].sum() >= 10
    assert set(delivery["notifications"]) == {1}
    captures = sorted(path.name for path in (first / "captures").iterdir())
    assert AIR in captures
    assert captures == sorted(path.name for path in (second / "captures").iterdir())
    for name in captures:
        assert (first / "captures" / name).read_bytes() == (
            second / "captures" / name
        ).read_bytes(), name


@pytest.mark.long
def test_a_sweep_runs_there(image: Image, tmp_path: Path) -> None:
    words = (
        *("sweep", "roaming_field", "mqtt", "flooding", "--seeds", 1, "--backend", "machine"),
        *("--nodes", 8, "--duration", 14, "--vary", "interval=0.5,1", "--out", tmp_path),
        *settings(topics=1, subscribers=3),
    )
    done = on_this_machine(*words)
    assert done.returncode == 0, done.stderr
    results = sweeps.load(tmp_path)
    assert len(results) == 4
    assert results.kept_real_time.all()
    assert results.delivery_ratio.min() == 1
    assert "in a machine whose clock waits" in (tmp_path / "sweep.html").read_text()
    again = on_this_machine(*words)
    assert again.returncode == 0
    assert "analysed: 4 of 4" in done.stderr
    assert "running" not in again.stderr


@pytest.mark.long
def test_repeats_in_real_time_share_a_machine(image: Image, tmp_path: Path) -> None:
    done = on_this_machine(
        *("agree", "roaming_field", "flooding", "--backends", "virtual,virtual@vm"),
        *("--repeats", 2, "--nodes", 6, "--duration", 14, "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr + logs(tmp_path / "out")
    assert done.stderr.count("booting the virtual machine") == 1


def on_the_air(capture: Path) -> Counter[str]:
    """Return how many beacons and frames with an event a capture of 802.11 frames has."""
    found: Counter[str] = Counter()
    with PcapReader(str(capture)) as reader:
        for packet in reader:
            if packet.haslayer(Dot11Beacon):
                found["beacon"] += 1
            elif packet.haslayer(UDP):
                try:
                    found["event"] += decode(bytes(packet[UDP].payload)).kind == CommonKind.EVENT
                except WireError:
                    continue
    return found
