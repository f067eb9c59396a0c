"""Access points under the virtual clock: the scenarios of the tap backend, checked alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture.decode import decode_records
from capture.scan import read_header, record_offsets
from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import ColumnRecorder, NullRecorder, Observations, PcapRecorder
from emulation.virtual.recording import captures as captured
from emulation.virtual.simulation import Simulation
from tests.emulation.mesh_lab import (
    cells,
    check_cells,
    check_counters,
    check_handover,
    handover,
    moves,
)
from topologies.catalog import make_scenario


def simulated(scenario: Scenario, root: Path) -> RunFolder:
    folder = RunFolder.create(root, scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    return folder


def test_stations_of_different_cells_reach_each_other_and_all_is_counted_twice(
    tmp_path: Path,
) -> None:
    scenario = cells()
    folder = simulated(scenario, tmp_path)
    check_cells(folder, scenario)
    check_counters(folder, scenario)


def test_a_handover_moves_the_flow_and_shows_in_the_captures(tmp_path: Path) -> None:
    scenario = handover()
    check_handover(simulated(scenario, tmp_path), scenario)


def test_the_same_scenario_gives_the_same_run(tmp_path: Path) -> None:
    fast = {"speed": 20}
    scenario = make_scenario("mesh_grid", "broker-gpsr", seed=3, duration=20, settings=fast)
    one, two = (simulated(scenario, tmp_path / name) for name in ("one", "two"))
    files = sorted(path.name for path in one.captures.iterdir())
    assert len(files) == 2 * 15 + 2 * 9
    for name in files:
        assert (one.captures / name).read_bytes() == (two.captures / name).read_bytes()
    assert one.flows.read_bytes() == two.flows.read_bytes()
    assert len(moves(one)) > 6


@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr"])
def test_columns_are_what_captures_decode_to(protocol: str, tmp_path: Path) -> None:
    scenario = make_scenario("mesh_grid", protocol, seed=3, duration=20, settings={"side": 2})
    folder = simulated(scenario, tmp_path)
    blocks: list[Observations] = []
    recorder = ColumnRecorder(scenario, blocks.append)
    Simulation(scenario, recorder).run()
    recorder.close()
    for number, interface in enumerate(captured(scenario)):
        data = np.fromfile(folder.port_capture(interface), np.uint8)
        header = read_header(data[:24].tobytes())
        decoded = decode_records(data, header, record_offsets(data, header)[0])
        for name in ("time_ns", "length", "ip_src", "dscp", "kind", "sequence"):
            parts = [block.decoded[name][block.capture == number] for block in blocks]
            assert np.concatenate(parts).tolist() == decoded[name].tolist(), (interface, name)


def test_in_a_larger_mesh_every_broker_sends_every_event_once() -> None:
    scenario = make_scenario(
        "mesh_grid", "flooding", seed=1, duration=20, settings={"side": 7, "nodes": 20, "speed": 0}
    )
    simulation = Simulation(scenario, NullRecorder())
    simulation.run()
    counted = simulation.channel.exported()
    assert counted is not None
    published = sum(operation.action == "publish" for operation in scenario.workload)
    for point in counted["access_points"]:
        (sent,) = [
            each["frames"]
            for each in point["counters"]
            if (each["path"], each["class"]) == ("BROKER_TO_ALL", "EVENTS")
        ]
        assert sent == published > 5
