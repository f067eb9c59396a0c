"""What the page of a run that goes on is told, of runs whose packets are known."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP
from scapy.packet import Raw

from emulation.mn import record
from emulation.mn.record import NETWORK, ScriptRecord
from emulation.mn.recording import SAMPLES
from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame
from testbed.live import feed
from testbed.live.delivery import DueClient
from testbed.live.feed import Changes, Cursor
from testbed.live.run import FollowedRun
from testbed.live.script import FollowedScript
from tests.spark_analysis.measures.test_middleware import MqttRun
from tests.spark_analysis.runs import RunBuilder


def test_counts_of_frames_that_are_no_longer_kept_stay_in_the_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LOADS_KEPT", 4)
    loads = FollowedScript(tmp_path).loads
    for second in range(10):
        loads.add(second % 2, second, 1, 10 * second)
    late = loads.since(0)
    assert [sum(row[column] for row in late) for column in (2, 3)] == [10, 450]
    assert late == [[0, None, 3, 60], [1, None, 3, 90], *loads.since(6)]
    assert loads.since(6) == [[0, 6, 1, 60], [1, 7, 1, 70], [0, 8, 1, 80], [1, 9, 1, 90]]
    assert loads.since(10) == []


def test_events_that_are_no_longer_kept_stay_in_the_counts() -> None:
    log = Changes(2)
    log.add("event", 0, 1, "a", 1.0, [DueClient(1, 7), DueClient(2, 7)])
    log.add("notify", 0, 1, 1, 7, 1.5, True)
    log.add("notify", 0, 1, 3, 7, 1.6, False)
    log.add("event", 0, 2, "a", 2.0, [])
    older = [["older", 0, 1, 0, 0], ["older", 1, 0, 1, 1], ["older", 2, 0, 1, 0]]
    assert log.since(0) == [["missed"], *older, *log.since(2)]
    assert [entry[0] for entry in log.since(2)] == ["notify", "event"]


class FaultyRun(RunBuilder):
    """A run in which a radio fails and stays so."""

    def scenario(self) -> Scenario:
        fault = Fault(kind="radio", start=5.0, nodes=("sta2",), text="radio sta2 at 5")
        return super().scenario().model_copy(update={"faults": (fault,)})


def note(folder: Path, **facts: Any) -> None:
    """Change facts in a run's record."""
    path = RunFolder(folder).record
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_the_page_goes_on_with_the_prompt_after_the_scenario(tmp_path: Path) -> None:
    folder = FaultyRun(tmp_path / "run", nodes=2, duration=10.0).write()
    note(folder, ended="running", epoch_ns=time.time_ns() - 30 * 10**9)
    live = FollowedRun(folder)
    state = live.state(Cursor())
    assert state["time"] >= 30
    assert state["until"] >= 28
    (mark,) = state["marks"]
    assert mark["until"] > state["time"], "the fault lasts"
    note(folder, ended="completed", lasted=10.0)
    after = live.state(Cursor())
    assert (after["ended"], after["time"]) == ("completed", 10.0)
    assert after["until"] >= state["until"], "what came later can be looked at"


def test_the_last_part_of_a_second_counts_once_the_run_has_ended(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", nodes=2, duration=20.0)
    run.radio(1, 10.2, Frame(CommonKind.HELLO, 1, hops=1), heard_by=[2])
    state = FollowedRun(run.write(lasted=10.5)).state(Cursor())
    assert state["until"] == 10.5
    assert state["loads"] == [[0, 10, 1, 0], [1, 10, 0, 1]]


def test_a_middlewares_frames_are_of_the_nodes_whose_radios_sent_them(tmp_path: Path) -> None:
    run = MqttRun(tmp_path / "run", nodes=3, duration=20.0)
    packet = IP(src="10.0.0.1", dst="10.0.0.3") / UDP(sport=5000, dport=1883) / Raw(bytes(8))
    run.send(1, 5.0, packet, to=2)
    run.send(2, 5.1, packet, to=3)  # the kernel forwards it
    run.send(3, 6.0, ARP(), to=2)
    state = FollowedRun(run.write(lasted=20.0)).state(Cursor())
    assert [entry[1:3] for entry in state["log"] if entry[0] == "link"] == [[0, 1], [1, 2]]
    assert state["loads"] == [
        [0, 5, 1, 0], [1, 5, 1, 1], [2, 5, 0, 1], [1, 6, 0, 1], [2, 6, 1, 0],
    ]  # fmt: skip


def test_a_scripts_frames_are_of_the_second_before_their_sample(tmp_path: Path) -> None:
    kinds = {"sta1": ("MyStation", "managed"), "ap1": ("MyPoint", "master")}
    network = {
        "epoch_ns": 0, "plot": {},
        "nodes": [
            {"name": name, "kind": kind, "position": [1, 2, 0]} for name, (kind, _) in kinds.items()
        ],
        "radios": [
            {"interface": f"{name}-wlan0", "node": name, "mode": mode}
            for name, (_, mode) in kinds.items()
        ],
    }  # fmt: skip
    (tmp_path / NETWORK).write_text(json.dumps(network))
    with (tmp_path / SAMPLES).open("w") as file:
        for at, sent, received in ((0.02, 5, 1), (1.03, 9, 2), (2.04, 9, 4)):
            counters = {"tx_frames": sent, "rx_frames": received}
            radio = {"interface": "sta1-wlan0", "mode": "managed", "channel": 1}
            sample = {"time": at, "positions": {}, "radios": [{**radio, "counters": counters}]}
            file.write(json.dumps(sample) + "\n")
    record.write(tmp_path, ScriptRecord(script="mine.py", ended="completed"))
    live = FollowedScript(tmp_path)
    assert live.state(Cursor())["loads"] == [[0, 0, 4, 1], [0, 1, 0, 2]]
    points = {node["name"]: node["point"] for node in live.scene()["nodes"]}
    assert points == {"sta1": False, "ap1": True}, "whatever the class"
