"""The command `check`: what it prints, keeps and runs again, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from markupsafe import escape
from typer.testing import CliRunner

from emulation.check.properties.registry import property_names
from emulation.check.search import Chunk
from emulation.errors import ScenarioError
from emulation.scenario.faults import Fault
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.base import Service
from testbed import check
from testbed.app import app
from tests.emulation.check.planted import (
    ForgetsAll,
    NoDuplicateCheck,
    NumbersAlone,
    StandsStill,
    Trusting,
)
from topologies.catalog import make_scenario


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "RUNS", tmp_path / "runs")


def plant(monkeypatch: pytest.MonkeyPatch, service: type[Service] | None) -> None:
    from nodeapp.pubsub.registry import service_of

    monkeypatch.setattr(check, "service_of", lambda name: service or service_of(name))


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "200"})


TWICE: Final = ("semi-probabilistic", "--property", "twice", "--scenarios", "1")
SEARCH: Final = ("semi-probabilistic", "--property", "delivered", "--scenarios")


@pytest.fixture(scope="module")
def first_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """What a search for a planted bug ends with, and the scenario that it keeps."""
    runs = tmp_path_factory.mktemp("search") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "RUNS", runs)
        plant(patch, ForgetsAll)
        done = invoke(*SEARCH, "20")
    (file,) = (runs / "check" / "semi-probabilistic").glob("delivered-*.json")
    return done, file


def test_a_finding_is_told_kept_run_first_and_gone_when_the_bug_is(
    monkeypatch: pytest.MonkeyPatch, first_search: tuple[Any, Path]
) -> None:
    done, file = first_search
    assert done.exit_code == 0
    assert "delivered does not hold, with 2 nodes:" in done.output
    assert "unsubscribes from" in done.output
    assert "never hears of it." in done.output
    assert "does not hold: delivered" in done.output
    assert str(file) in done.output

    monkeypatch.setattr(check, "RUNS", file.parents[2])
    plant(monkeypatch, ForgetsAll)
    again = invoke(*SEARCH, "20", "--strict", "--json")
    assert again.exit_code == 1
    (finding,) = json.loads(again.stdout)["findings"]
    assert finding["kept before"]
    assert finding["scenario"] == str(file)
    assert finding["nodes"] == 2
    assert finding["story"][-1].endswith("never hears of it.")
    assert finding["report"] is None
    assert set(finding["commands"]) == {"virtual", "tap"}
    for command in finding["commands"].values():
        assert command in done.output
        assert f"run --scenario {file} --backend " in command

    plant(monkeypatch, None)
    mended = invoke(*SEARCH, "5", "--strict")
    assert mended.exit_code == 0
    assert f"holds now: {file}" in mended.output
    assert "nothing found" in mended.output


def test_kept_scenarios_are_run_whatever_others_show_and_if_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, first_search: tuple[Any, Path]
) -> None:
    plant(monkeypatch, ForgetsAll)
    Path("kept").mkdir()
    file = Path(shutil.copy(first_search[1], "kept"))
    scenario = Scenario.load(file)
    scenario.model_copy(update={"seed": 98}).save(Path("kept/delivered-other.json"))
    forged = Fault(kind="stranger", sender="n1", datagram="00", start=1.0, text="")
    scenario.model_copy(update={"faults": (forged,)}).save(Path("kept/delivered-stranger.json"))
    lossy = base_scenario("roaming_field", "flooding").radio
    scenario.model_copy(update={"radio": lossy}).save(Path("kept/delivered-radio.json"))
    longer = scenario.model_copy(update={"duration": scenario.duration + 5})
    for name in ("delivered", "twice"):
        longer.save(Path(f"kept/{name}-longer.json"))
    done = invoke(*SEARCH, "20", "--out", "kept", "--json")
    cases = json.loads(done.stdout)["findings"]
    assert [case["scenario"] for case in cases] == [str(file), "kept/delivered-other.json"]
    assert "not run, it needs --faults stranger: kept/delivered-stranger.json" in done.output
    assert "not run, it needs --topology, as its radio loses frames: kept/deliv" in done.output
    assert "not run, settle or arrival is promised otherwise since: delete it: kept" in done.output
    assert "holds now: kept/twice-longer.json" in invoke(*TWICE, "--out", "kept").output
    assert "1 finding: does not hold: delivered" in " ".join(done.output.split())


def test_an_interrupted_search_tells_and_keeps_what_it_was_shrinking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, ForgetsAll)
    judged = Chunk.judged

    def interrupted(self: Chunk, *arguments: Any, **options: Any) -> Any:
        if self.shrinking == 20:
            raise KeyboardInterrupt
        return judged(self, *arguments, **options)

    monkeypatch.setattr(Chunk, "judged", interrupted)
    done = invoke(*SEARCH, "20", "--out", "kept")
    assert done.exit_code == 130
    assert "delivered does not hold, with " in done.output
    (file,) = Path("kept").glob("delivered-*.json")
    assert str(file) in done.output


def test_a_full_disk_loses_no_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    plant(monkeypatch, NoDuplicateCheck)
    monkeypatch.setattr(Scenario, "save", full)
    done = invoke("flooding", "--scenarios", "20", "--nodes", "2..3", "--property", "twice")
    assert done.exit_code == 1
    assert "is notified of it at " in done.output
    assert "No space left on device" in done.output


@pytest.mark.slow
def test_runs_that_say_little_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, StandsStill)
    line = ("flooding", "--scenarios", "5", "--nodes", "2..3", "--json", "--property", "delivered")
    done = invoke(*line, "--report", "--strict", "--out", "kept")
    assert done.exit_code == 1
    assert "error: judged in no run: delivered; see --property endless" in done.output
    (judged,) = json.loads(done.stdout)["properties"]
    assert (judged["property"], judged["runs"]) == ("delivered", 0)
    assert "5 runs did not end, which may hide the rest: --property endless" in done.output
    assert "No run says anything of delivered." in Path("kept/report.html").read_text("utf-8")


@pytest.mark.slow
def test_what_was_kept_is_not_said_to_hold_if_its_run_has_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = ("flooding", "--scenarios", "20", "--nodes", "2..3", "--property", "delivered")
    plant(monkeypatch, NumbersAlone)
    assert "delivered does not hold" in invoke(*line, "--out", "kept").output
    plant(monkeypatch, StandsStill)
    done = invoke(*line, "--out", "kept")
    assert "not judged, its run has no end: kept/delivered-" in done.output
    assert "holds now" not in done.output


def test_handlers_that_no_message_has_called_are_named() -> None:
    done = invoke("broker-aodv", "--scenarios", "1", "--nodes", "2", "--json", "--faults", "none")
    outcome = json.loads(done.stdout)
    assert "HELLO" in outcome["kinds"]
    assert "ROUTE_ERROR" in outcome["kinds without a message"]
    assert not set(outcome["kinds"]) & set(outcome["kinds without a message"])
    assert f"handlers without a message: {', '.join(outcome['kinds without a message'])}" in (
        done.output
    )
    done = invoke("flooding", "--scenarios", "5", "--json")
    assert json.loads(done.stdout)["kinds without a message"] == []
    assert "handlers without" not in done.output


def test_what_was_looked_at_is_counted_and_shown_on_a_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = ("flooding", "--scenarios", "20", "--nodes", "2..3", "--report", "--json", "--out", "k")
    outcome = json.loads(invoke(*line).stdout)
    judged = {each["property"]: each for each in outcome["properties"]}
    assert set(judged) == set(property_names())
    assert {each["runs"] for each in judged.values()} == {20}
    assert {each["violations"] for each in judged.values()} == {0}
    page = Path("k", "report.html").read_text(encoding="utf-8")
    assert "Nothing found" in page
    assert all(str(escape(each["what must hold"])) in page for each in judged.values())
    frames = f"{outcome['frames']['EVENT']:,}".replace(",", "\u202f")
    assert f'<th scope="row" class="word">EVENT</th><td>{frames}</td>' in re.sub(r"\n\s*", "", page)
    plant(monkeypatch, NoDuplicateCheck)
    monkeypatch.setattr("emulation.check.search.MOST_SHRINKING", 50)  # of 1,000 storms
    outcome = json.loads(invoke(*(word for word in line if word != "--report")).stdout)
    judged = {each["property"]: each for each in outcome["properties"]}
    assert judged["twice"]["violations"] == 1
    assert judged["endless"]["violations"] > 1
    assert judged["unmatched"]["runs"] < judged["endless"]["runs"]


def test_run_repeats_a_kept_scenario(first_search: tuple[Any, Path], tmp_path: Path) -> None:
    _, file = first_search
    words = ["run", "--scenario", str(file), "--backend", "virtual", "--no-analyze"]
    done = CliRunner().invoke(app, [*words, "--runs", str(tmp_path / "again")])
    assert done.exit_code == 0, done.output
    (folder,) = (tmp_path / "again").iterdir()
    assert Scenario.load(folder / "scenario.json") == Scenario.load(file)
    assert len(list((folder / "captures").iterdir())) == 4


def test_a_protocol_that_lets_no_time_pass_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, StandsStill)
    done = invoke("flooding", "--scenarios", "5", "--strict", "--nodes", "2..3")
    assert done.exit_code == 1
    assert "virtual time stands still" in done.output


@pytest.mark.long
def test_a_topology_has_its_own_network_and_motion_then_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, NoDuplicateCheck)
    line = ("flooding", "--scenarios", "20", "--topology", "roaming_field", "--nodes", "2..3")
    done = invoke(*line, "--out", "kept", "--strict")
    assert done.exit_code == 1
    assert "twice does not hold, with 2 nodes:" in done.output
    (file,) = Path("kept").glob("twice-*.json")
    scenario = Scenario.load(file)
    assert scenario.radio == base_scenario("roaming_field", "flooding").radio
    assert {node.name for node in scenario.nodes} == {"sta1", "sta2"}
    assert {node.waypoints[-1].time for node in scenario.nodes} == {20.0}
    assert len(scenario.nodes[0].waypoints) > 1
    plant(monkeypatch, None)
    for protocol, *words in (
        ("flooding", "roaming_field", "--set", "side=200"),
        ("batch-forwarding", "mesh_grid"),
        ("mirinae", "stock_peers"),
    ):
        done = invoke(protocol, "--scenarios", "5", "--strict", "--topology", *words)
        assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_a_topology_may_have_no_placement_for_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def some(nodes: int, seed: int) -> Scenario:
        if seed % 2:
            raise ScenarioError("no placement is connected: raise nodes")
        return base_scenario("roaming_field", "flooding")

    monkeypatch.setattr(check, "_base", lambda *_: some)
    done = invoke("flooding", "--scenarios", "20", "--topology", "roaming_field")
    assert done.exit_code == 0
    assert "nothing found" in done.output


def base_scenario(topology: str, protocol: str) -> Scenario:
    return make_scenario(
        topology, protocol, seed=1, duration=20.0, settings={"nodes": 2, "topics": 0}
    )


def test_contacts_at_the_end_of_the_motion_go_on() -> None:
    Path("contacts.txt").write_text("a b 0 100\nb c 0 100\na c 5 12\n")
    topology = ("--topology", "contact_trace", "--set", "file=contacts.txt", "--nodes", "3")
    line = ("flooding", "--scenarios", "20", *topology, "--strict")
    for words in (("--property", "delivered", "--faults", "none"), ()):
        done = invoke(*line, *words)
        assert done.exit_code == 0, done.output


@pytest.mark.long
def test_strangers_are_drawn_if_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Trusting)
    line = ("flooding", "--scenarios", "100", "--nodes", "2..3", "--strict", "--faults")
    for faults in ("none", "crash,disturb"):
        assert invoke(*line, faults).exit_code == 0
    done = invoke(*line, "crash,stranger")
    assert done.exit_code == 1
    assert "a stranger sends EVENT (originator " in done.output


def test_a_property_that_raises_is_an_error_with_its_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr("emulation.check.properties.twice.Twice.violations", broken)
    done = invoke("flooding", "--scenarios", "5", "--property", "twice", "--out", "kept")
    assert done.exit_code == 1
    (file,) = Path("kept").iterdir()
    wanted = f"error: twice: the property itself raises KeyError: 'a defect' (scenario: {file})"
    assert wanted in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["floodin"], "no protocol 'floodin' (did you mean flooding?); there are: "),
        (["flooding", "--property", "twise"], "no property 'twise' (did you mean twice?)"),
        (["flooding", "--budget", "0.000001s"], "was over before a scenario was drawn: raise it"),
        (["flooding", "--budget", "soon"], "--budget is a time above 0, such as 30s, 5m or 1h"),
        (["flooding", "--scenarios", "0"], "--scenarios must be 1 or more"),
        (["flooding", "--nodes", "1..4"], "--nodes is within 2..12, not 1..4"),
        (["flooding", "--nodes", "2..13"], "--nodes is within 2..12, not 2..13"),
        (["flooding", "--nodes", "5..4"], "--nodes is within 2..12, not 5..4"),
        (["flooding", "--nodes", "few"], "--nodes is a range, such as 2..12, or one number"),
        (
            ["flooding", "--faults", "crush"],
            "--faults takes crash, radio, link, partition, disturb, ",
        ),
        (["flooding", "--faults", ""], "or none, not ''"),
        (["flooding", "--topology", "romaing_field"], "no topology 'romaing_field' (did you mean "),
        (["flooding", "--topology", "uniform_field"], "cannot have 45 neighbours each"),
        (["flooding", "--set", "degree=3"], "--set is for the parameters of a --topology"),
        (["flooding", "--topology", "mesh_grid", "--set", "sdie=2"], "no parameter 'sdie'"),
        (["flooding", "--seed", "-1"], "--seed must be between 0 and"),
        (["flooding", "--topology", "mesh_grid", "--set", "mqtt=true"], "clients of MQTT are"),
        (
            ["flooding", "--topology", "roaming_field", "--set", "faults=crash 30% at 5 for 3"],
            "--set faults: check draws that itself, leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(words: list[str], message: str) -> None:
    done = invoke(*words)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_what_is_no_scenario_of_the_protocol_is_refused(tmp_path: Path) -> None:
    Path("kept").mkdir()
    (Path("kept") / "notes.json").write_text("{}", encoding="utf-8")
    done = invoke("flooding", "--scenarios", "1", "--out", "kept")
    assert done.exit_code == 2
    assert "kept/notes.json is not a scenario" in done.output
