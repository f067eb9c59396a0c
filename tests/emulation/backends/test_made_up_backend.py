"""A backend that only the registry knows runs like any other: the example of docs/extending/."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.backends import registry
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from nodeapp.installation import PROJECT
from testbed.app import app
from tests.emulation.mesh_lab import notified
from tests.pages import example

LAN = "tests.emulation.backends.lan:LanBackend"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BACKENDS", (*registry.BACKENDS, LAN))


def ran(runs: Path, *words: str) -> tuple[int, str]:
    line = ["run", *words, "--backend", "lan", "--no-analyze", "--runs", str(runs)]
    result = CliRunner().invoke(app, line)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def farthest(scenario: Scenario) -> float:
    """Return the largest distance of two nodes at the start, metres."""
    starts = [(node.waypoints[0].x, node.waypoints[0].y) for node in scenario.nodes]
    return max(math.dist(one, other) for one, other in itertools.combinations(starts, 2))


@pytest.mark.root
def test_run_takes_it_and_stations_hear_each_other_however_far_apart(tmp_path: Path) -> None:
    words = "roaming_field flooding --nodes 4 --duration 14 --set side=500 --set speed=0"
    settings = "--set topics=1 --set publishers=1 --set subscribers=3 --set interval=1"
    code, output = ran(tmp_path, *words.split(), *settings.split())
    assert code == 0, output
    (path,) = tmp_path.iterdir()
    folder = RunFolder(path)
    facts = json.loads(folder.record.read_text())
    assert (facts["backend"], facts["ended"], facts["problems"]) == ("lan", "completed", [])
    scenario = Scenario.load(folder.scenario)
    published = sum(operation.action == "publish" for operation in scenario.workload)
    received = notified(folder, scenario)
    assert len(received) == 3 * published > 6
    assert set(received.values()) == {1}
    assert farthest(scenario) > scenario.environment().radio_range
    macs = [bytes.fromhex(node.mac.replace(":", "")) for node in scenario.nodes]
    for node in scenario.nodes:
        captured = folder.radio_capture(node).read_bytes()
        assert [mac in captured for mac in macs] == [True] * len(macs)  # every one forwards events
    checks = json.loads(folder.fidelity.read_text())["checks"]
    values = {check["name"]: check["value"] for check in checks}
    assert values["frames delivered late, median"] is None  # nobody measures a bridge
    assert values["packets the captures missed"] == 0


@pytest.mark.root
def test_what_it_cannot_do_ends_in_its_own_words(tmp_path: Path) -> None:
    code, output = ran(tmp_path, "mesh_grid", "flooding", "--set", "side=2", "--duration", "12")
    assert code == 1
    assert "error: the lan backend has no access points: use another backend" in output


def test_the_documentation_shows_the_code_that_runs() -> None:
    shown = example("backend")
    source = (PROJECT / "tests/emulation/backends/lan.py").read_text(encoding="utf-8")
    assert shown.partition("\n\n")[2] == source.partition('"""\n\n')[2]
