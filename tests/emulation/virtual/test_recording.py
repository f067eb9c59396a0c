"""Captures and columns of the same run say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.decode import COLUMNS, decode_records
from capture.scan import read_header, record_offsets
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual import recording
from emulation.virtual.recording import ColumnRecorder, Observations, PcapRecorder, VirtualRecorder
from emulation.virtual.simulation import Simulation
from topologies.catalog import make_scenario


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    settings = {"nodes": 8, "speed": 10, "interval": 1, "size": 100}
    return make_scenario("roaming_field", "flooding", seed=3, duration=15, settings=settings)


def run(scenario: Scenario, recorder: VirtualRecorder) -> None:
    simulation = Simulation(scenario, recorder)
    # A datagram in fragments, and one that ends between two blocks of columns.
    simulation.clock.call_at(1.0, simulation.nodes[0].send, 0xFFFFFFFF, bytes(4000))
    simulation.run()
    recorder.close()


@pytest.mark.parametrize("rows", [1, 100, 1 << 20])
def test_columns_are_what_captures_decode_to(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(recording, "FLUSH_ROWS", rows)
    blocks: list[Observations] = []
    run(scenario, ColumnRecorder(scenario, blocks.append))
    folder = RunFolder.create(tmp_path, scenario)
    run(scenario, PcapRecorder(scenario, folder))
    assert len(blocks) > 1 or rows > 100
    seen = 0
    for index, node in enumerate(scenario.nodes):
        for loopback, file in ((False, folder.radio_capture(node)), (True, _lo(folder, node))):
            data = np.fromfile(file, np.uint8)
            header = read_header(data[:24].tobytes())
            offsets, stop, problem = record_offsets(data, header)
            assert (stop, problem) == (len(data), None)
            decoded = decode_records(data, header, offsets)
            capture = index + len(scenario.nodes) * loopback
            mine = [b.capture == capture for b in blocks]
            for name in set(COLUMNS) - {"body_offset"}:
                parts = [b.decoded[name][m] for b, m in zip(blocks, mine, strict=True)]
                assert np.concatenate(parts).tolist() == decoded[name].tolist(), name
            numbers = np.concatenate([b.number[m] for b, m in zip(blocks, mine, strict=True)])
            assert numbers.tolist() == list(range(1, len(offsets) + 1))
            bodies = [
                b.data[start : start + length].tobytes()
                for b, m in zip(blocks, mine, strict=True)
                for start, length in zip(
                    b.decoded["body_offset"][m], b.decoded["body_length"][m], strict=True
                )
            ]
            starts, lengths = decoded["body_offset"], decoded["body_length"]
            assert bodies == [
                data[start : start + length].tobytes()
                for start, length in zip(starts, lengths, strict=True)
            ]
            seen += len(offsets)
    assert seen > 500
    assert seen == sum(len(b.capture) for b in blocks)


def _lo(folder: RunFolder, node: object) -> Path:
    return folder.loopback_capture(node)  # type: ignore[arg-type]


def test_captures_are_written_in_parts_alike(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for limit in (1000, 1 << 30):
        monkeypatch.setattr(recording, "WRITE_BYTES", limit)
        folder = RunFolder.create(tmp_path, scenario)
        run(scenario, PcapRecorder(scenario, folder))
        contents.append([file.read_bytes() for file in sorted(folder.captures.iterdir())])
    assert contents[0] == contents[1]
    assert len(contents[0]) == 16


def test_times_are_in_order_and_start_with_the_epoch(scenario: Scenario, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario)
    run(scenario, PcapRecorder(scenario, folder))
    for file in folder.captures.iterdir():
        data = np.fromfile(file, np.uint8)
        header = read_header(data[:24].tobytes())
        times = decode_records(data, header, record_offsets(data, header)[0])["time_ns"]
        assert (np.diff(times) >= 0).all()
        assert (times >= recording.EPOCH_NS).all()
        assert (times <= recording.EPOCH_NS + 15 * 10**9).all()
