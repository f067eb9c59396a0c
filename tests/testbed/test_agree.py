"""Running one scenario on two backends, and the command that compares them."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from emulation.backends.base import Backend, BackendError, Observer
from emulation.backends.virtual import VirtualBackend
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from spark_analysis.agreement.agreement import AgreementOutcome
from testbed import agree, comparing
from testbed.agree import MOST_REPEATS, enough
from testbed.ahead import Analyst, serve
from testbed.app import app
from testbed.repeats import AgreeError, RepeatTurn, check, make_folder, names, run_repeats
from tests.spark_starts import SparkStarts
from topologies.catalog import make_scenario


def test_middlewares_are_refused() -> None:
    scenario = make_scenario("roaming_field", "zeromq", seed=1, duration=14, settings={})
    with pytest.raises(AgreeError, match="zeromq is no protocol of the testbed, so its events"):
        check([Fake("tap", [])], scenario)


class Silent:
    """An observer that says nothing."""

    def stage(self, text: str) -> None: ...

    def elapsed(self, seconds: float) -> None: ...

    def problem(self, text: str) -> None: ...


class Fake:
    """A backend that writes down what it is asked for."""

    summary = "made up"

    def __init__(self, name: str, log: list[Any], failure: BaseException | None = None) -> None:
        self.name = name
        self._log = log
        self._failure = failure
        self.lacking: list[str] = []

    def unsupported(self, scenario: Scenario) -> list[str]:
        return []

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        return self.lacking

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        self._log.append((self.name, scenario, folder))
        if self._failure is not None:
            raise self._failure


class HardOfHearing(VirtualBackend):
    """Runs the scenario with a quarter of the radio range."""

    name = "hard-of-hearing"

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        assert scenario.radio.range is not None
        radio = scenario.radio.model_copy(update={"range": scenario.radio.range / 4})
        super().execute(scenario.model_copy(update={"radio": radio}), folder, observer, interact)


@pytest.fixture
def scenario() -> Scenario:
    return make_scenario(
        "roaming_field", "flooding", seed=5, duration=21.0, settings={"nodes": 6, "speed": 0}
    )


@contextmanager
def unwatched(_turn: RepeatTurn) -> Iterator[Observer]:
    yield Silent()


def test_backends_take_turns_on_the_same_scenario_with_new_seeds(
    scenario: Scenario, tmp_path: Path
) -> None:
    log: list[tuple[str, Scenario, RunFolder]] = []
    turns: list[RepeatTurn] = []

    @contextmanager
    def watch(turn: RepeatTurn) -> Iterator[Observer]:
        turns.append(turn)
        yield Silent()

    pairs = run_repeats(scenario, [Fake("a", log), Fake("b", log)], 3, tmp_path, watch)
    assert [name for name, _, _ in log] == ["a", "b"] * 3
    assert [given.seed for _, given, _ in log] == [5, 5, 6, 6, 7, 7]
    for _, given, folder in log:
        assert given.model_copy(update={"seed": 5}) == scenario
        assert Scenario.load(folder.scenario) == given
        assert folder.captures.is_dir()
        assert folder.logs.is_dir()
    assert [folder.path for _, _, folder in log] == [path for pair in pairs for path in pair]
    assert len({path.name for pair in pairs for path in pair}) == 6
    assert turns[3] == RepeatTurn(4, 6, 2, "b")


def test_a_backend_can_be_compared_with_itself(scenario: Scenario, tmp_path: Path) -> None:
    log: list[Any] = []
    same: list[Backend] = [Fake("a", log), Fake("a", log)]
    ((first, second),) = run_repeats(scenario, same, 1, tmp_path, unwatched)
    assert names(same) == ("a", "a again")
    assert (first.name, second.name) == ("repeat1-a", "repeat1-a-again")


def test_a_seed_at_its_end_goes_on_from_zero(scenario: Scenario, tmp_path: Path) -> None:
    log: list[tuple[str, Scenario, RunFolder]] = []
    last = scenario.model_copy(update={"seed": 2**63 - 1})
    run_repeats(last, [Fake("a", log), Fake("b", log)], 2, tmp_path, unwatched)
    assert [given.seed for _, given, _ in log] == [2**63 - 1] * 2 + [0] * 2
    Scenario.load(log[-1][2].scenario)


def test_an_obstacle_is_named_with_its_backend(scenario: Scenario) -> None:
    cannot = Fake("b", [])
    check([Fake("a", []), cannot], scenario)
    cannot.lacking = ["needs a moon: wait for one"]
    with pytest.raises(AgreeError, match="backend b: needs a moon"):
        check([Fake("a", []), cannot], scenario)


def test_a_run_that_fails_is_named(scenario: Scenario, tmp_path: Path) -> None:
    broken = Fake("b", [], BackendError("the medium was not ready"))
    with pytest.raises(AgreeError, match=r"run 2 of 4 on b: the medium was not ready \(logs: "):
        run_repeats(scenario, [Fake("a", []), broken], 2, tmp_path, unwatched)
    record = read_run(tmp_path / "repeat1-b").record
    assert record is not None
    assert (record.backend, record.ended) == ("b", "failed")
    assert record.problems == ("the run failed: the medium was not ready",)


def test_runs_go_into_a_folder_of_their_own(scenario: Scenario, tmp_path: Path) -> None:
    made = make_folder(None, tmp_path / "runs", scenario)
    assert made.parent == tmp_path / "runs"
    assert made.name.startswith("agree-")
    assert made.name.endswith("-roaming_field-flooding")
    assert len({make_folder(None, tmp_path / "runs", scenario) for _ in range(3)}) == 3
    assert make_folder(tmp_path / "mine", tmp_path, scenario) == tmp_path / "mine"
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(AgreeError, match="not empty"):
        make_folder(tmp_path / "mine", tmp_path, scenario)


# The command.


def invoke(*words: object) -> tuple[int, str]:
    """Return exit code and output of the command."""
    result = CliRunner().invoke(app, ["agree", *map(str, words)], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("moon flooding", "no topology 'moon'"),
        ("roaming_field flooding --backends tap", "takes two to 6 names, separated by commas"),
        ("roaming_field flooding --backends tap,ns9", "no backend 'ns9'; there are: tap"),
        ("roaming_field flooding --repeats 1", "--repeats must be 2 to 100"),
        ("roaming_field flooding --set warp=9", "no parameter 'warp'"),
        ("roaming_field flooding --duration 0", "--duration must be above 0"),
    ],
)
def test_mistakes_end_with_one_line_that_says_what_to_do(line: str, message: str) -> None:
    code, output = invoke(*line.split())
    assert code == 2
    assert message in output
    assert len(output.strip().splitlines()) == 1


def test_a_machine_that_cannot_run_a_backend_says_why_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    out = tmp_path / "out"
    code, output = invoke("roaming_field", "flooding", "--backends", "tap,virtual", "--out", out)
    assert code == 1
    assert "needs root: run it with sudo" in output
    assert not out.exists()


def test_an_interrupt_keeps_the_runs_so_far(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes = {"a": Fake("a", []), "b": Fake("b", [], KeyboardInterrupt())}
    monkeypatch.setattr("testbed.agree.all_backends", lambda: fakes)
    code, output = invoke("roaming_field", "flooding", "--backends", "a,b", "--out", tmp_path)
    assert code == 130
    assert "interrupted: stopped everything" in output
    assert "run 2 of 10: repeat 1 on b" in output
    assert (tmp_path / "repeat1-a" / "scenario.json").exists()


def compared(
    monkeypatch: pytest.MonkeyPatch,
    out: Path,
    *backends: Backend,
    repeats: str = "2",
    fault: str = "",
) -> tuple[int, str]:
    """Run the command for real, on two of the backends that need no root."""
    monkeypatch.setattr("testbed.agree.all_backends", lambda: {b.name: b for b in backends})
    chosen = ",".join((backends[0].name, backends[-1].name))
    line = (
        f"roaming_field flooding --repeats {repeats} --nodes 8 --duration 21 --seed 3"
        f" --set speed=0 --set interval=1 --set topics=2 --backends {chosen} --out"
    )
    return invoke(*line.split(), out, *(("--fault", fault) if fault else ()))


@pytest.mark.spark
def test_the_virtual_backend_agrees_with_itself_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spark_starts = SparkStarts(monkeypatch)
    fault = "crash 4 of them at 8 for 5"
    code, output = compared(monkeypatch, tmp_path, VirtualBackend(), fault=fault)
    assert spark_starts.count == 1
    assert code == 0, output
    assert "virtual and virtual again agree" in output
    result = json.loads((tmp_path / "agreement.json").read_text(encoding="utf-8"))
    for criterion in result["criteria"]:
        difference = criterion["quantity"]["difference"]
        assert difference["mean"] == difference["low"] == difference["high"] == 0
    page = (tmp_path / "agreement.html").read_text(encoding="utf-8")
    assert f"report: {tmp_path / 'agreement.html'}" in output
    runs = [name for names in result["runs"].values() for name in names]
    assert len(runs) == 4
    for run in runs:
        assert run["traced"] == 1.0
        assert f'href="{run["run"]}/report.html"' in page
        assert (tmp_path / run["run"] / "report.html").exists()
        found = read_run(tmp_path / run["run"])
        assert found.record is not None
        assert found.record.ended == "completed"
        report = (tmp_path / run["run"] / "report.html").read_text(encoding="utf-8")
        assert fault in report


@pytest.mark.long
@pytest.mark.spark
def test_another_radio_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through what a process that is made ready is ordered, here inside this one."""
    ready: list[Analyst] = []

    class Inside(Analyst):
        def start(self) -> None:
            ready.append(self)

        def _done(self, again: str, order: str, **arguments: Any) -> Any:
            answers = io.BytesIO()
            assert serve([json.dumps([order, arguments])], answers, stack) == 0
            return pickle.loads(answers.getvalue())

    monkeypatch.setattr(agree, "Analyst", Inside)
    monkeypatch.setattr(agree, "AT_FIRST", 2)
    monkeypatch.setattr(agree, "enough", lambda made, _: 3)
    spark_starts = SparkStarts(monkeypatch)
    both = VirtualBackend(), HardOfHearing()
    with ExitStack() as stack:
        code, output = compared(monkeypatch, tmp_path, *both, repeats="auto")
    assert code == 1, output
    assert "not decided after 2 repeats: 3 to try" in output
    assert spark_starts.count == 1, "for both rounds"
    assert len(ready) >= 6, "from the first run on"
    assert len(set(ready)) == 1
    assert "virtual and hard-of-hearing differ: delivery" in output
    result = json.loads((tmp_path / "agreement.json").read_text(encoding="utf-8"))
    assert result["outcome"] == "disagree"
    assert not result["criteria"][0]["ok"]


@pytest.mark.parametrize(
    ("made", "needed", "then"),
    [(3, 0, 3), (3, 2, 4), (3, 5, 5), (3, 50, 6), (60, 90, 90), (60, 400, MOST_REPEATS)],
)
def test_as_many_repeats_are_made_as_would_decide(made: int, needed: int, then: int) -> None:
    assert enough(made, needed) == then


@pytest.mark.parametrize(
    ("estimates", "told", "runs"),
    [([9, 7, 0], [3, 6], 7), ([400] * 9, [3, 6, 12, 24, 48, 96], MOST_REPEATS), ([0], [], 3)],
)
def test_auto_repeats_until_it_is_decided_or_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    estimates: list[int],
    told: list[int],
    runs: int,
) -> None:
    log: list[Any] = []
    known = {name: Fake(name, log) for name in ("one", "two")}
    left = iter(estimates)
    compared: list[int] = []

    def compare(folders: list[Any], *_: object) -> list[Any]:
        """In place of Spark: the comparison of runs is tested where it is."""
        compared.append(len(folders))
        found = SimpleNamespace(needed=next(left), outcome=AgreementOutcome.AGREE)
        return [SimpleNamespace(agreement=found, page=tmp_path / "page.html")]

    monkeypatch.setattr(agree, "all_backends", lambda: known)
    monkeypatch.setattr(comparing, "agree_and_report", compare)
    monkeypatch.setattr(comparing, "spark_session", nullcontext)
    monkeypatch.setattr(agree, "show", lambda *_: None)
    words = ["agree", "roaming_field", "flooding", "--backends", "one,two", "--repeats", "auto"]
    words += ["--nodes", "6", "--fault", "crash 1 of them at 20 for 5"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert compared == [*told, runs]
    seeds = [(name, scenario.seed) for name, scenario, _ in log]
    assert len(seeds) == len(set(seeds)) == 2 * runs, "no repeat is made twice"
    assert all(fault.kind == "crash" for _, scenario, _ in log for fault in scenario.faults)
    assert all(len(scenario.faults) == 1 for _, scenario, _ in log)
    for made in told:
        assert f"not decided after {made} repeats" in result.output
