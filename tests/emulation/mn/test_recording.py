"""What is recorded of a run."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from emulation.mn.recording import PeerRows, Recording, Row
from emulation.mn.session import ScriptError
from emulation.network.fidelity import CpuSampler


def test_a_full_disk_loses_samples_and_nothing_else() -> None:
    notes: list[str] = []
    answers: dict[str, Any] = {"events": {"next": 0, "events": []}, "stats": {"late": 1}}
    air = SimpleNamespace(states=list, ask=lambda request: answers[request["op"]], running=True)
    net = SimpleNamespace(air=air, radio_nodes=[])
    session = SimpleNamespace(note=notes.append)
    recording = Recording(session, net)  # type: ignore[arg-type]
    recording._file = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", buffering=1)
    recording.stop()
    assert notes == ["a sample of the recording is missing: No space left on device"]
    assert recording._figures == {"late": 1}

    def gone(request: object) -> None:
        raise ScriptError("the medium is gone")

    air.ask = gone
    recording = Recording(session, net)  # type: ignore[arg-type]
    recording._file = io.StringIO()
    recording.stop()
    assert recording._figures is None


def test_a_script_may_remove_interfaces(tmp_path: Path) -> None:
    net = SimpleNamespace(files=SimpleNamespace(state=tmp_path, folder=tmp_path))
    recording = Recording(SimpleNamespace(), net)  # type: ignore[arg-type]
    recording._figures, recording._cpu = {"monitor_drops": 9}, CpuSampler()
    (tmp_path / "recorder.json").write_text('{"kernel_drops": 3, "left": 4, "vanished": 2}')
    (tmp_path / "recorder of sta9.json").write_text('{"kernel_drops": 1, "write_errors": 2}')
    (tmp_path / "recorder.config.json").write_text('{"interfaces": [], "kernel_drops": 100}')
    recording.finish()
    checks = json.loads((tmp_path / "fidelity.json").read_text())["checks"]
    values = {check["name"]: check["value"] for check in checks}
    assert values["packets the captures missed"] == 3 + 4 + 1 + 9
    assert values["captures that ended early"] == 0


def test_a_level_has_a_row_if_it_is_new_has_changed_or_was_written_long_ago() -> None:
    rows = PeerRows()

    def written(now: float, *given: Row, last: bool = False) -> list[Row]:
        return rows.worth(now, given, all_of_them=last)

    one, other = ("a", "b", -50.0), ("b", "a", -60.0)
    assert written(100.0, one, other) == [one, other]
    assert written(101.0, one, other) == []
    assert written(102.0, ("a", "b", -50.6), other) == []
    drifted = ("a", "b", -51.2)  # less than 1 dB a step, more since it was written
    assert written(103.0, drifted, other) == [drifted]
    assert written(110.0, drifted, other) == [other]
    assert written(112.0, drifted) == []  # the other has gone out of reach ...
    assert written(112.5, drifted, other) == [other]  # ... and has come back
    assert written(113.0, drifted, other) == [drifted]
    assert written(113.5, drifted, other, last=True) == [drifted, other]
