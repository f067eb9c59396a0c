"""Energy and batteries under the virtual clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulation.backends.virtual import simulate
from emulation.errors import ScenarioError
from emulation.scenario.runfolder import Run, RunFolder, read_run
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import PcapRecorder
from nodeapp.parameters import ParameterError
from tests.emulation.virtual.test_faults import scenario as flooding
from tests.emulation.virtual.test_simulation import digest, roaming
from topologies.catalog import make_scenario


def energetic(scenario: Scenario, **settings: object) -> Scenario:
    radio = scenario.radio.model_copy(update={"energy": "intel-5300", **settings})
    return scenario.model_copy(update={"radio": radio})


def ran(root: Path, scenario: Scenario) -> Run:
    folder = RunFolder.create(root, scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    return read_run(folder.path)


def total(run: Run, *states: str) -> list[float]:
    assert run.energy is not None
    return [sum(getattr(each, state) for state in states) for each in run.energy.stations]


ALL = ("transmit", "receive", "overhear", "idle", "sleep", "off")


def test_counting_energy_changes_no_packet(tmp_path: Path) -> None:
    plain = roaming("flooding")
    assert digest(energetic(plain), tmp_path) == digest(plain, tmp_path)
    assert not read_run(sorted(tmp_path.iterdir())[1]).folder.energy.exists()


def test_the_states_of_every_station_are_in_the_run_folder(tmp_path: Path) -> None:
    run = ran(tmp_path, energetic(roaming("broker-gpsr")))
    assert total(run, *ALL) == pytest.approx([20.0] * 15)
    assert min(total(run, "transmit")) > 0
    assert max(total(run, "overhear")) > 0  # unicasts for others
    assert total(run, "sleep", "off") == [0.0] * 15


def test_access_points_are_on_mains(tmp_path: Path) -> None:
    made = make_scenario(
        "mesh_grid",
        "broker-gpsr",
        seed=2,
        duration=14,
        settings={"nodes": 8, "energy": "esp32-s2", "battery": 1e-3},
    )
    assert made.mesh_radio is not None
    assert made.mesh_radio.energy is None
    run = ran(tmp_path, made)
    assert run.energy is not None
    assert [each.node for each in run.energy.stations] == [node.name for node in made.stations]
    assert all(each.empty is not None and each.empty < 0.01 for each in run.energy.stations)


def test_a_node_is_off_from_when_its_battery_is_empty(tmp_path: Path) -> None:
    lasts = 12.0
    run = ran(tmp_path, energetic(flooding(), battery=0.82 * lasts))
    assert run.energy is not None
    for station in run.energy.stations:
        assert station.empty is not None
        assert station.empty == pytest.approx(lasts, abs=0.05)
        assert station.off == pytest.approx(30.0 - station.empty, abs=1e-6)
        taken = 1.14 * station.transmit + 0.94 * (station.receive + station.overhear)
        assert taken + 0.82 * station.idle == pytest.approx(0.82 * lasts, abs=2e-6)
    by_name = {station.node: station.empty for station in run.energy.stations}
    assert {fault.nodes[0]: fault.start for fault in run.faults} == by_name
    assert {(fault.kind, fault.end) for fault in run.faults} == {("off", None)}
    assert "sta1: battery empty" in [fault.text for fault in run.faults]
    assert run.performed.faults == ()  # it would empty them again
    again = ran(tmp_path, run.performed)
    assert again.energy == run.energy
    assert [*(path.read_bytes() for path in sorted(again.captures.iterdir()))] == [
        *(path.read_bytes() for path in sorted(run.captures.iterdir()))
    ]
    # What is published while the publisher has power arrives, and no packet leaves afterwards.
    sizes = {path.name: path.stat().st_size for path in run.captures.iterdir()}
    whole = ran(tmp_path, energetic(flooding()))
    assert sizes["sta2-wlan0.pcap"] < 0.5 * (whole.captures / "sta2-wlan0.pcap").stat().st_size


def test_the_hungriest_go_first(tmp_path: Path) -> None:
    run = ran(tmp_path, energetic(flooding(), battery=1.0))
    assert run.energy is not None
    taken = {each.node: each.transmit / (each.empty or 1.0) for each in run.energy.stations}
    first = min(run.energy.stations, key=lambda each: each.empty or 99.0)
    assert taken[first.node] == max(taken.values())


def test_a_node_without_power_comes_back_with_it(tmp_path: Path) -> None:
    run = ran(tmp_path, energetic(flooding("off sta3 at 4 for 5; radio sta4 at 8 for 3")))
    assert total(run, "off") == pytest.approx([0, 0, 5, 0, 0, 0])
    assert total(run, "sleep") == pytest.approx([0, 0, 0, 3, 0, 0])
    assert total(run, *ALL) == pytest.approx([30.0] * 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"energy": "intel5300"}, r"'intel5300' is none of none, .*did you mean intel-5300\?"),
        ({"energy": "esp32-s2", "battery": -1}, "battery: -1 is below 0"),
        ({"battery": 5}, "a battery needs to know what the radio takes: add energy="),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises((ParameterError, ScenarioError), match=message) as refused:
        roaming("flooding", **settings)
    assert "\n" not in str(refused.value)


def test_hosts_on_a_switch_have_no_radio_that_takes_energy() -> None:
    made = json.loads(roaming("flooding").model_dump_json())
    made["wire"] = {"delays": [0.001] * 15}
    made["nodes"] = [node | {"device": "eth0"} for node in made["nodes"]]
    made["radio"]["energy"] = "esp32-s2"
    with pytest.raises(ValueError, match="no radios that take energy: leave it out"):
        Scenario.model_validate(made)
