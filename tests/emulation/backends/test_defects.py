"""Internal errors of node apps: counted from logs and told, on every backend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.backends.defects import AT_ONCE, DefectLogs, Defects
from emulation.network.processes import StateFolder
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROJECT
from nodeapp.pubsub.flooding import Flooding
from testbed.app import app

DEFECT = (
    "2026-03-14 15:09:26,535 ERROR defect at a datagram from 2: 00ff\n"
    "Traceback (most recent call last):\n"
    '  File "protocol.py", line 7, in receive\n'
    "KeyError: 'seen'\n"
)
INFO = "2026-03-14 15:09:26,100 INFO node 1 runs flooding on sta1-wlan0\n"


def test_the_first_error_is_told_with_its_traceback_and_then_the_count(tmp_path: Path) -> None:
    told: list[str] = []
    defects = Defects(tmp_path, told.append)
    logs = DefectLogs(tmp_path, defects)
    assert defects.record() is None
    assert defects.problems() == []
    log = tmp_path / "sta1.log"
    log.write_text(INFO)
    logs.look(["sta1", "sta2"])
    assert told == []
    with log.open("a") as file:
        file.write(DEFECT + INFO + DEFECT)
    logs.look(["sta1", "sta2"])
    (first,) = told
    assert first.startswith("sta1: defect in the protocol: KeyError: 'seen' (")
    assert "line 7, in receive" in first
    (tmp_path / "sta2.log").write_text(DEFECT * 9)
    logs.look(["sta1", "sta2"])
    assert told[1:] == ["11 internal errors so far, at 2 nodes"]
    logs.look(["sta1", "sta2"])  # nothing is counted twice
    record = defects.record()
    assert record is not None
    assert (record.count, record.nodes, record.first) == (11, {"sta1": 2, "sta2": 9}, "sta1")
    assert record.traceback.endswith("KeyError: 'seen'")
    (line,) = defects.problems()
    assert line.startswith("11 internal errors at 2 nodes (sta2 9, sta1 2)")


def test_a_log_that_has_grown_much_is_counted_to_the_entry(tmp_path: Path) -> None:
    defects = Defects(tmp_path, lambda text: None)
    count = 2 * AT_ONCE // len(DEFECT) + 5
    (tmp_path / "sta1.log").write_text(DEFECT * count)
    DefectLogs(tmp_path, defects).look(["sta1"])
    record = defects.record()
    assert record is not None
    assert record.count == count


@pytest.mark.parametrize("kind", [KeyError, TimeoutError])
def test_a_run_whose_protocol_raises_ends_with_an_error(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Flooding, *_: object) -> None:
        raise kind("[seen]")

    monkeypatch.setattr(Flooding, "disseminate", broken)
    words = "run roaming_field flooding --backend virtual --no-analyze --nodes 6 --duration 21"
    done = CliRunner().invoke(app, [*words.split(), "--runs", str(tmp_path), "--set", "side=200"])
    assert done.exit_code == 1
    assert f"defect in the protocol: {kind.__name__}: " in done.output
    assert "[seen]" in done.output
    assert "internal errors of node apps, the first at sta" in done.output


@pytest.mark.root
def test_internal_errors_of_processes_are_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node apps are made to raise at every reception by a module that Python loads first."""
    (tmp_path / "sitecustomize.py").write_text(
        "from nodeapp.pubsub.base import Service\n"
        "def broken(self, *_):\n    raise KeyError('seen')\n"
        "Service.datagram_received = broken\n"
    )
    before = StateFolder.environment

    def environment(self: StateFolder) -> dict[str, str]:
        return before(self) | {"PYTHONPATH": f"{tmp_path}:{PROJECT}"}

    monkeypatch.setattr(StateFolder, "environment", environment)
    words = "run roaming_field broker-gpsr --backend tap --no-analyze --nodes 3 --duration 2"
    for each in ("side=100", "speed=0", "topics=0", "hello_interval=0.05"):
        words += f" --set {each}"
    done = CliRunner().invoke(app, [*words.split(), "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 1
    assert "defect in the protocol: KeyError: 'seen'" in done.output
    assert "Traceback" in done.output
    assert "internal errors of node apps, the first at sta" in done.output
    (path,) = (tmp_path / "runs").iterdir()
    folder = RunFolder(path)
    record = json.loads(folder.record.read_text())
    assert record["defects"]["count"] > 5
    assert set(record["defects"]["nodes"]) <= {"sta1", "sta2", "sta3"}
    assert "internal errors" in record["problems"][-1]
