"""Hosts on a switch with real processes: an overlay over the kernel's own network stack."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.backends.base import LiveRun
from emulation.backends.hwsim import HwsimBackend
from emulation.backends.tap import TapBackend
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from testbed.app import app
from testbed.prompt.console import Console
from tests.emulation.backends.test_tap import Recorded
from tests.emulation.mesh_lab import notified
from topologies.catalog import make_scenario

WORDS = "run stock_peers semantic-overlay --nodes 6 --duration 9 --set warm_up=4 --set tail=2"
SETTINGS = "--set stocks=1 --set settle=0.05 --set hashes=1 --set requery_interval=0.5"


def test_settings_of_radios_are_refused() -> None:
    result = CliRunner().invoke(app, [*WORDS.split(), "--set", "data_rate=54"])
    assert result.exit_code == 2
    assert "hosts on a switch have no radios: leave out data_rate" in result.output


@pytest.mark.root
def test_peers_are_processes_on_a_switch(tmp_path: Path) -> None:
    line = [*WORDS.split(), *SETTINGS.split(), "--no-analyze", "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.iterdir()
    folder = RunFolder(path)
    facts = json.loads(folder.record.read_text())
    assert (facts["backend"], facts["ended"], facts["problems"]) == ("tap", "completed", [])
    scenario = Scenario.load(folder.scenario)
    received = notified(folder, scenario)
    assert len(received) > 6
    assert set(received.values()) == {1}
    macs = [bytes.fromhex(node.mac.replace(":", "")) for node in scenario.nodes]
    for node in scenario.nodes:
        captured = folder.port_capture(node.interface).read_bytes()
        assert sum(mac in captured for mac in macs) > 1


@pytest.mark.root
def test_at_the_prompt_shares_are_those_of_the_hosts(tmp_path: Path) -> None:
    settings = {"nodes": 4, "warm_up": 4, "tail": 2}
    scenario = make_scenario(
        "stock_peers", "semantic-overlay", seed=1, duration=20.0, settings=settings
    )
    folder = RunFolder.create(tmp_path, scenario)
    script = tmp_path / "commands"
    script.write_text("crash 50%\nfault jam 1,1\n")
    said = io.StringIO()

    def prompt(run: LiveRun) -> None:
        with Path(os.devnull).open(encoding="ascii") as nothing:
            Console(run, stdin=nothing, script=str(script), stdout=said)

    TapBackend().execute(scenario, folder, Recorded(), prompt)
    crash, jam = read_run(folder.path).prompt
    assert crash.effect is not None
    assert len(crash.effect.nodes) == 2, said.getvalue()
    assert "hosts on a switch have no radios" in jam.error


def test_backends_with_radios_only_say_which_has_a_switch() -> None:
    scenario = make_scenario(
        "stock_peers", "semantic-overlay", seed=1, duration=20.0, settings={"nodes": 4}
    )
    assert TapBackend().unsupported(scenario) == []
    [said] = HwsimBackend().unsupported(scenario)
    assert "--backend tap or virtual" in said
