"""Workloads by name: discovery, parameters, and which of them a scenario takes."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import emulation.workloads
from emulation.errors import ScenarioError
from emulation.scenario.radio_settings import RadioSettings
from emulation.scenario.runfolder import read_run
from emulation.scenario.scenario import Scenario, WorkloadSpec
from emulation.workloads.recorded import MANY
from emulation.workloads.registry import (
    expanded,
    make_workload,
    workload_names,
    workload_parameters,
    workload_summary,
)
from testbed.app import app
from tests.pages import example
from topologies.catalog import all_parameters, make_scenario, topology_names, topology_parameters

OF_TOPIC = ["topics", "publishers", "subscribers", "interval", "size"]
OF_FEEDS = ["interval", "size", "tail", "arrivals"]
OF_STOCK = ["stocks", "law", "alpha", "interests", "width", "events", "quotes", "joins", "leaving"]
OF_STOCK += ["warm_up", "size", "tail"]
OF_TOPIC += ["selectivity", "admitted", "advertise", "tail", "arrivals"]


def make(topology: str = "roaming_field", **settings: Any) -> Scenario:
    settings = {"nodes": 12, **settings}
    return make_scenario(topology, "flooding", seed=1, duration=20.0, settings=settings)


@pytest.fixture
def bursts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a workload that is the file of the page, and nothing else."""
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "bursts.py").write_text(example("workload"), encoding="utf-8")
    path = [*emulation.workloads.__path__, str(folder)]
    monkeypatch.setattr(emulation.workloads, "__path__", path)
    # Imported during the test; forgotten after it.
    monkeypatch.setitem(sys.modules, "emulation.workloads.bursts", None)
    monkeypatch.delitem(sys.modules, "emulation.workloads.bursts")
    return "bursts"


@pytest.mark.slow
def test_a_new_workload_is_one_file(
    bursts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()
    listed = runner.invoke(app, ["list"]).output
    assert "bursts" in listed
    assert "One node publishes bursts of events, to which all others subscribe." in listed
    assert "s between bursts" in runner.invoke(app, ["list", bursts]).output
    runs = tmp_path / "runs"
    asked = ["run", "roaming_field", "flooding", "--nodes", "6", "--duration", "20"]
    asked += ["--workload", bursts, "--set", "events=3", "--set", "every=4"]
    result = runner.invoke(
        app, [*asked, "--backend", "virtual", "--no-analyze", "--runs", str(runs)]
    )
    assert result.exit_code == 0, result.output
    (folder,) = runs.iterdir()
    run = read_run(folder)
    assert run.record is not None
    assert run.record.problems == ()
    assert run.scenario.workload_spec == WorkloadSpec(
        name="bursts", parameters={"events": 3, "every": 4.0}
    )
    published = [each for each in run.scenario.workload if each.action == "publish"]
    assert sorted({each.time for each in published}) == [6.0, 10.0, 14.0, 18.0]
    assert len(published) == 4 * 3
    assert len({each.node for each in published}) == 1
    assert sum(each.action == "subscribe" for each in run.scenario.workload) == 5
    # Every client of a node writes to its loopback interface: the run really has these events.
    publisher = f"sta{published[0].node}"
    assert b"alarm" in (folder / "captures" / f"{publisher}-lo.pcap").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("import random", "import random[", ".py cannot be loaded: SyntaxError: .*line 3"),
        ("\n\n@dataclass", "\nprint(none)\n@dataclass", r".py:\d+ cannot be loaded: NameError: "),
        (
            "] = 10",
            "]",
            ".py cannot be loaded: TypeError: Bursts: events must be an int, ",
        ),
        ("(Workload)", "", ".py has no subclass of Workload: add one with operations"),
    ],
)
def test_a_workload_that_cannot_be_loaded_says_why_in_a_line(
    bursts: str, old: str, new: str, why: str
) -> None:
    file = Path(emulation.workloads.__path__[-1], "bursts.py")
    file.write_text(file.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError, match=f"^emulation/workloads/bursts{why}"):
        make(workload=bursts)


def test_a_summary_may_be_missing(bursts: str) -> None:
    file = Path(emulation.workloads.__path__[-1], "bursts.py")
    text = file.read_text(encoding="utf-8").replace('    """One node', '    _ = """One node')
    file.write_text(text.replace("@dataclass(frozen=True)", ""), encoding="utf-8")
    assert workload_summary(bursts) == ""


def test_the_workloads_that_there_are() -> None:
    assert workload_names() == ["churn", "content", "feeds", "recorded", "stock", "topic"]
    for name in workload_names():
        assert workload_summary(name).endswith(".")
        assert all(parameter.help for parameter in workload_parameters(name))
    assert [parameter.name for parameter in workload_parameters("topic")] == OF_TOPIC
    with pytest.raises(ScenarioError, match="no workload 'poissson'; there are: churn, content, f"):
        make_workload("poissson", {})
    with pytest.raises(ScenarioError, match="topic: size: 9999 is above 1400"):
        make_workload("topic", {"size": 9999})


@pytest.mark.parametrize("name", topology_names())
def test_topologies_have_the_parameters_of_their_workload(name: str) -> None:
    names = [parameter.name for parameter in topology_parameters(name)]
    own = {"mesh_legs": OF_FEEDS, "stock_peers": OF_STOCK}.get(name, OF_TOPIC)
    assert names[-len(own) :] == own


def test_no_workload_has_a_parameter_that_the_radio_has() -> None:
    radio = {field.name for field in fields(RadioSettings)}
    for name in workload_names():
        assert radio.isdisjoint(parameter.name for parameter in workload_parameters(name)), name


@pytest.mark.parametrize("topology", ["roaming_field", "freeway"])
def test_the_topologys_own_workload_may_be_named(topology: str) -> None:
    plain = make(topology, size="100")
    assert make(topology, size="100", workload="topic") == plain
    assert plain.topology_parameters["size"] == 100
    assert plain.workload_spec is not None
    assert plain.workload_spec.name == "topic"
    assert plain.workload_spec.parameters["size"] == 100


def test_no_topics_are_no_operations() -> None:
    # Neither enough nodes nor enough time for the default workload: it does not matter then.
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=5.0, settings={"nodes": 3, "topics": 0}
    )
    assert scenario.workload == ()


def test_parameters_of_a_replaced_workload_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text('{"time": 1, "node": 2, "action": "publish", "event": "a b=1"}\n')
    chosen = {"workload": f"file:{path}"}
    assert len(make(**chosen).workload) == 1
    with pytest.raises(ScenarioError) as error:
        make(**chosen, topics="2")
    message = str(error.value)
    assert message.startswith("'topics' is a parameter of the workload topic, which recorded rep")
    assert message.endswith("; recorded has most, recording")
    assert "selectivity" not in message
    with pytest.raises(ScenarioError, match="no parameter 'warp'; roaming_field has"):
        make(**chosen, warp=9)
    with pytest.raises(ScenarioError, match="recorded has most, recording"):
        make(**chosen, warp=9)


def test_the_workload_is_recorded_in_the_scenario(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text('{"time": 1, "node": 1, "action": "publish", "event": "a"}')
    scenario = make(workload=f"file:{path}")
    assert scenario.workload_spec == WorkloadSpec(
        name="recorded", parameters={"recording": str(path), "most": MANY}
    )
    assert not set(OF_TOPIC) & set(scenario.topology_parameters)
    scenario.save(tmp_path / "scenario.json")
    assert Scenario.load(tmp_path / "scenario.json") == scenario


def test_scenarios_that_do_not_name_their_workload_load(tmp_path: Path) -> None:
    content = make().model_dump(mode="json")
    del content["workload_spec"]
    old = Scenario.model_validate(content)
    assert old.workload_spec is None
    assert old.workload == make().workload


def test_the_short_form_of_a_file() -> None:
    assert expanded({"workload": "file:a b.jsonl", "nodes": 3}) == {
        "workload": "recorded",
        "recording": "a b.jsonl",
        "nodes": 3,
    }
    assert expanded({"workload": "topic"}) == {"workload": "topic"}
    with pytest.raises(ScenarioError, match="file:PATH"):
        expanded({"workload": "file:"})
    with pytest.raises(ScenarioError, match="--workload file:PATH"):
        make(workload="recorded")


def test_what_may_be_set_depends_on_the_workload() -> None:
    own = all_parameters("roaming_field", "flooding")
    other = all_parameters("roaming_field", "flooding", "recorded")
    assert set(own) - set(other) == set(OF_TOPIC)
    assert set(other) - set(own) == {"most", "recording"}
    assert own["workload"].default == "topic"
    assert own["workload"].choices == ("churn", "content", "feeds", "recorded", "stock", "topic")


def test_clients_are_the_stations_of_a_mesh(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text('{"time": 1, "node": "br1", "action": "subscribe"}\n')
    with pytest.raises(ScenarioError, match=r"w\.jsonl:1: no clients at node 'br1': .*sta1"):
        make("mesh_grid", nodes=2, workload=f"file:{path}")
