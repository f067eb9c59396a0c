"""What scripts need: rerunning, JSON, strictness, and mistakes that are refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import emulation.workloads
import topologies
from emulation.backends.base import BackendError
from emulation.backends.virtual import VirtualBackend
from emulation.scenario import provenance
from emulation.scenario.prompt import Effect, PromptCommand, append
from emulation.scenario.provenance import code
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.workloads.base import Operation
from nodeapp.installation import PROJECT
from spark_analysis.report import scenario_text
from testbed.app import app
from tests.emulation.network.test_fidelity import verdict as measured
from topologies.catalog import make_scenario

SMALL = "run roaming_field flooding --backend virtual --no-analyze --nodes 6 --duration 21 --quiet"


def invoke(*words: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    runs: Path = tmp_path_factory.mktemp("runs")
    exit_code, shown, said = invoke(*SMALL.split(), "--runs", str(runs), "--json")
    assert exit_code == 0
    return next(runs.iterdir()), shown, said


def test_a_quiet_run_says_nothing_but_its_outcome_as_json(done: tuple[Path, str, str]) -> None:
    folder, shown, said = done
    assert said == ""
    told = json.loads(shown)
    assert told["run"] == str(folder)
    assert (told["backend"], told["ended"], told["problems"]) == ("virtual", "completed", [])
    assert told["internal_errors"] == 0


def test_a_run_that_is_refused_says_why_in_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Refusing(VirtualBackend):
        def execute(self, *_: object, **__: object) -> None:
            raise BackendError("6 nodes need about 4 TB of memory")

    monkeypatch.setattr("testbed.run.all_backends", lambda: {"virtual": Refusing()})
    exit_code, _, said = invoke(*SMALL.split(), "--runs", str(tmp_path))
    assert (exit_code, "4 TB of memory (logs: " in said) == (1, True)
    (folder,) = tmp_path.iterdir()
    assert read_run(folder).problems == (
        "the run failed: 6 nodes need about 4 TB of memory",
        "the run was not completed: failed",
    )


@pytest.mark.skipif(code() is None, reason="no repository, or no git: apt-get install git")
def test_a_run_says_of_which_commit_it_is(done: tuple[Path, str, str]) -> None:
    record = read_run(done[0]).record
    assert record is not None
    assert record.code == code()
    head = subprocess.run(
        ["git", "-C", str(PROJECT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert record.code is not None
    assert record.code.commit == head.stdout.strip()
    _, shown, _ = invoke("--version")
    assert shown.startswith("run_testbed.sh 0.")
    assert head.stdout[:12] in shown


@pytest.mark.skipif(shutil.which("git") is None, reason="no git: apt-get install git")
def test_changes_to_the_code_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        subprocess.run(["git", "-C", tmp_path, *own, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "module.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "--message", "first")
    monkeypatch.setattr(provenance, "PROJECT", tmp_path)
    clean = code.__wrapped__()  # of a process that asks for the first time
    (tmp_path / "result.csv").write_text("of no matter")
    assert clean is not None
    assert not clean.changed
    assert code.__wrapped__() == clean
    (tmp_path / "module.py").write_text("x = 2\n")
    code.cache_clear()
    try:
        assert invoke(*SMALL.split(), "--runs", str(tmp_path / "runs"))[0] == 0
    finally:
        code.cache_clear()
    (folder,) = (tmp_path / "runs").iterdir()
    noted = json.loads((folder / "run.json").read_text())["code"]
    assert noted == {"commit": clean.commit, "changed": True}
    git("commit", "--all", "--message", "second")
    then = code.__wrapped__()
    assert then is not None
    assert (then.commit != clean.commit, then.changed) == (True, False)


def test_a_scenario_runs_again_from_its_file(done: tuple[Path, str, str], tmp_path: Path) -> None:
    words = ["run", "--backend", "virtual", "--no-analyze", "--runs", str(tmp_path)]
    exit_code, _, _ = invoke(*words, "--scenario", str(done[0] / "scenario.json"))
    assert exit_code == 0
    again = next(tmp_path.iterdir())
    assert read_run(again).scenario == read_run(done[0]).scenario
    first, second = (
        (each / "captures" / "sta1-wlan0.pcap").read_bytes() for each in (done[0], again)
    )
    assert first == second, "byte for byte, as the virtual clock promises"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"tll": 5}, "no parameter 'tll' (did you mean ttl?)"), ({"ttl": 0}, "ttl: 0 is below 1")],
)
def test_parameters_in_a_scenarios_file_are_checked_before_it_runs(
    parameters: dict[str, int], message: str, tmp_path: Path
) -> None:
    made = make_scenario("roaming_field", "flooding", seed=1, duration=14, settings={})
    changed = made.model_copy(
        update={"protocol": ProtocolSpec(name="flooding", parameters=parameters)}
    )
    changed.save(tmp_path / "scenario.json")
    exit_code, _, errors = invoke("run", "--scenario", str(tmp_path / "scenario.json"))
    assert exit_code == 2
    assert f"scenario.json: flooding: {message}" in errors
    assert len(errors.strip().splitlines()) == 1


def test_operations_in_a_scenarios_file_are_checked_before_it_runs(tmp_path: Path) -> None:
    made = make_scenario("roaming_field", "broker-aodv", seed=1, duration=14, settings={})
    wrong = Operation(time=2.0, node=1, action="publish", sequence=1, event={"a b": 1})
    changed = made.model_copy(
        update={"workload": (wrong, *made.workload), "protocol": ProtocolSpec(name="flooding")}
    )
    changed.save(tmp_path / "scenario.json")
    exit_code, _, errors = invoke("run", "--scenario", str(tmp_path / "scenario.json"))
    assert exit_code == 2
    assert "scenario.json: node 1, publish at 2 s: 'a b' is not an attribute name" in errors
    assert len(errors.strip().splitlines()) == 1


def test_a_run_folder_runs_again_with_the_motion_of_its_prompt(
    done: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "by-hand"
    folder.mkdir()
    (folder / "captures").mkdir()
    (folder / "scenario.json").write_bytes((done[0] / "scenario.json").read_bytes())
    effect = Effect(kind="move", nodes=("sta2",), position=(1.0, 2.0))
    append(folder / "prompt.jsonl", PromptCommand(time=5.0, command="move", effect=effect))
    words = ["run", "--backend", "virtual", "--no-analyze", "--runs", str(tmp_path / "runs")]
    exit_code, _, _ = invoke(*words, "--scenario", str(folder))
    assert exit_code == 0
    nodes = read_run(next((tmp_path / "runs").iterdir())).scenario.nodes
    assert nodes[1].waypoints[-1] == (5.0, 1.0, 2.0)


def test_an_access_point_that_was_moved_is_said_instead_of_repeated(tmp_path: Path) -> None:
    folder = RunFolder.create(
        tmp_path, make_scenario("mesh_grid", "flooding", seed=1, duration=14, settings={})
    )
    effect = Effect(kind="move", nodes=("ap1",), position=(100.0, 100.0))
    append(folder.prompt, PromptCommand(time=5.0, command="move", effect=effect))
    run = read_run(folder.path)
    assert run.performed.nodes == run.scenario.nodes != run.driven
    assert scenario_text.again(run) == ""
    exit_code, _, errors = invoke("run", "--scenario", str(folder.path))
    assert exit_code == 2
    assert "ap1 moved at the prompt, which a scenario cannot repeat" in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run a b --scenario /nowhere.json", "--scenario fixes everything: leave out topology"),
        (
            "run roaming_field flooding --backend virtual --no-captures --live",
            "--live is for runs in real time",
        ),
        ("run --scenario /nowhere.json --seed 2", "leave out seed"),
        ("run --scenario /nowhere.json --fault radio", "leave out fault"),
        ("run --scenario /nowhere.json", "nowhere.json"),
        ("run roaming_field flooding --set speed=1 --set speed=2", "--set speed is given twice"),
        (
            "run roaming_field flooding --set workload=content --workload topic",
            "--workload topic and --set workload=content: give one of them",
        ),
        ("run roaming_field flooding --nodes 9 --set nodes=8", "give one of them"),
    ],
)
def test_contradictions_are_refused(line: str, message: str) -> None:
    exit_code, _, said = invoke(*line.split())
    assert exit_code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_a_strict_run_fails_if_something_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emulation.virtual.simulation import Simulation

    monkeypatch.setattr(Simulation, "problems", property(lambda self: ["a client was refused"]))
    words = [*SMALL.split(), "--runs", str(tmp_path)]
    assert invoke(*words)[0] == 0
    exit_code, _, said = invoke(*words, "--strict")
    assert exit_code == 1
    assert "--strict: a client was refused" in said


@pytest.mark.spark
def test_a_strict_run_fails_if_nothing_was_to_be_delivered(tmp_path: Path) -> None:
    words = "run roaming_field flooding --backend virtual --nodes 3 --duration 12 --set topics=0"
    exit_code, _, said = invoke(*words.split(), "--runs", str(tmp_path), "--strict")
    assert exit_code == 1
    assert re.search("warning: .*: nothing was to be delivered", said)
    assert said.splitlines()[-1].endswith("no published event had a subscriber")


def test_a_strict_run_fails_if_it_lost_real_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = measured(medium={"lateness": {"p99_us": 20_000}})
    assert late.kept_real_time is False
    execute = VirtualBackend.execute

    def run(self: VirtualBackend, scenario: Scenario, folder: RunFolder, *more: Any) -> None:
        execute(self, scenario, folder, *more)
        folder.write_fidelity(late)

    monkeypatch.setattr(VirtualBackend, "execute", run)
    words = [*SMALL.split(), "--runs", str(tmp_path)]
    assert invoke(*words)[0] == 0
    exit_code, _, said = invoke(*words, "--strict")
    assert exit_code == 1
    assert "--strict: the run lost real time or packets" in said


def test_lists_are_there_as_json() -> None:
    _, shown, _ = invoke("list", "--json")
    assert {"topologies", "protocols", "backends"} <= json.loads(shown).keys()
    _, shown, _ = invoke("list", "flooding", "--json")
    assert {"ttl", "max_jitter"} <= {each["name"] for each in json.loads(shown)}
    _, shown, _ = invoke("doctor", "--json")
    assert "backend virtual" in {each["subject"] for each in json.loads(shown)}


def test_one_broken_file_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_one.py").write_text("import nothing_like_this[\n")
    for package in (topologies, emulation.workloads):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    exit_code, shown, _ = invoke("list")
    assert exit_code == 0
    assert "roaming_field" in shown
    assert "churn" in shown
    for folder in ("topologies", "emulation/workloads"):
        assert f"{folder}/broken_one.py cannot be loaded: SyntaxError" in shown
    exit_code, _, error = invoke("list", "broken_one")
    assert exit_code == 2
    assert "error: topologies/broken_one.py cannot be loaded: SyntaxError" in error
