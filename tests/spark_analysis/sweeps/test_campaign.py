"""Sweeps in real time: points one after another, on a backend that writes captures."""

from __future__ import annotations

import dataclasses
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.testing import CliRunner

from emulation.backends.base import BackendError, Observer
from emulation.backends.virtual import VirtualBackend
from emulation.scenario.records import Fidelity
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from spark_analysis import sweeps
from spark_analysis.engine.code import project
from spark_analysis.sweeps import spec
from spark_analysis.sweeps.spec import SweepSpec, _image, code_key, is_current, points
from spark_analysis.sweeps.tasks import failed, failure
from testbed import campaign
from testbed.app import app

FEW = ("--nodes", "7", "--duration", "14", "--seeds", "1", "--set", "interval=1")


class Recording(VirtualBackend):
    """Stands for one in real time: without root, with captures and a verdict of fidelity."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing = ""
        """The protocol whose runs fail."""

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        protocol = scenario.protocol.name
        self.ran.append(protocol)
        if protocol == self.failing:
            raise BackendError("its radios did not start")
        super().execute(scenario, folder, observer, interact)
        folder.write_fidelity(Fidelity(kept_real_time=protocol == "flooding"))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> Recording:
    recording = Recording()
    monkeypatch.setattr("testbed.campaign.STATE", tmp_path_factory.mktemp("state"))
    monkeypatch.setattr("testbed.campaign.backends", lambda: {"tap": recording})
    monkeypatch.setattr("testbed.campaign.running", lambda: [])  # another test's run may be
    return recording


def sweep(out: Path, *words: str) -> tuple[int, str]:
    """Run the command in real time; return its exit code and what it prints, in one line."""
    arguments = ["sweep", "roaming_field", *words, "--backend", "tap", "--out", str(out)]
    done = CliRunner().invoke(app, [*arguments, *FEW])
    assert "Traceback" not in done.output
    return done.exit_code, " ".join(done.output.split())


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_points_run_until_they_have_and_say_whether_they_kept_real_time(
    backend: Recording, tmp_path: Path
) -> None:
    backend.failing = "flooding"
    code, output = sweep(tmp_path, "flooding", "broker-gpsr", "--vary", "speed=0,5")
    assert code == 1
    assert backend.ran == ["flooding", "flooding", "broker-gpsr", "broker-gpsr"]
    assert "run 1 of 4, about 1 min left: flooding speed=0.0 seed=1" in output
    assert "failed: flooding speed=0.0 seed=1: its radios did not start" in output
    assert "broker-gpsr speed=5.0 seed=1: lost real time or packets" in output
    assert len(sweeps.load(tmp_path)) == 2
    backend.failing = ""
    code, output = sweep(tmp_path, "flooding", "broker-gpsr", "--vary", "speed=0,5,9")
    assert code == 0, output
    assert backend.ran[4:] == [*3 * ["flooding"], "broker-gpsr"], "what failed, and what is new"
    assert f"report: {tmp_path / 'sweep.html'}" in output
    results = sweeps.load(tmp_path)
    assert list(results.kept_real_time) == [*3 * [True], *3 * [False]]
    assert results.delivery_ratio.between(0, 1).all()
    assert results.command.str.contains("--backend tap").all()
    assert not any(tmp_path.glob("points/*/captures/*")), "packets are dropped"
    page = (tmp_path / "sweep.html").read_text(encoding="utf-8")
    assert "--backend tap" in page
    assert "lost real time" in page
    assert "sweep in real time" in page
    code, output = sweep(tmp_path, "flooding", "broker-gpsr", "--vary", "speed=0,5,9", *OPEN)
    assert code == 1
    assert "the packets of flooding speed=0.0 seed=1 were not kept" in output


OPEN = ("--open", "flooding speed=0.0 seed=1")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_packets_are_kept_if_asked_for_and_a_point_is_opened(
    backend: Recording, tmp_path: Path
) -> None:
    words = ("flooding", "--keep-frames")
    code, output = sweep(tmp_path, *words)
    assert code == 0, output
    assert len({path.parent for path in tmp_path.glob("points/*/captures/*")}) == 1
    code, output = sweep(tmp_path, *words, "--open", "flooding seed=1")
    assert code == 0, output
    assert backend.ran == ["flooding"]
    assert "report.html" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flooding", "--master", "local[2]"), "go on here, one after another"),
        (("flooding", "--backend", "tpa"), "no backend 'tpa' for sweeps (did you mean tap?)"),
        (("flooding", "--set", "nodes=0"), "nodes"),
    ],
)
def test_bad_input_ends_in_one_line(
    backend: Recording, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    arguments = ["sweep", "roaming_field", "--backend", "tap", "--out", str(tmp_path), *words]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert backend.ran == []


def test_a_system_that_is_not_installed_is_told_before_anything_runs(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        backend, "obstacles", lambda one: [f"{one.protocol.name} is not here: install it"]
    )
    assert sweep(tmp_path, "mqtt") == (1, "error: mqtt is not here: install it")
    assert not any(tmp_path.iterdir())


@pytest.fixture
def waiting_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that lacks nothing, with an image of the name "one"."""
    use_machine(monkeypatch, [])
    monkeypatch.setattr("testbed.sweep.ensure_image", lambda _, interrupts: None)
    use_image(monkeypatch, "one")
    yield
    use_image(monkeypatch, "none")


def use_machine(monkeypatch: pytest.MonkeyPatch, lacking: list[str]) -> None:
    monkeypatch.setattr("emulation.vm.waiting.MachineBackend.obstacles", lambda *_: lacking)


def use_image(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("spark_analysis.sweeps.spec.image_name", lambda: name)
    for function in (code_key, _image):
        function.cache_clear()


@pytest.mark.usefixtures("waiting_machine")
@pytest.mark.parametrize(
    ("lacking", "master", "code", "output"),
    [
        (["its image has none"], "local[*]", 1, "error: its image has none"),
        ([], "spark://host:7077", 2, "machines run here, not on spark://host:7077"),
        ([], "local[*]", 130, "the same command goes on from here"),
    ],
)
def test_machines_whose_clock_waits_need_neither_systems_nor_root_here(
    lacking: list[str],
    master: str,
    code: int,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masters = []

    def started(*_: Any, master: str, **__: Any) -> NoReturn:
        masters.append(master)
        raise KeyboardInterrupt

    use_machine(monkeypatch, lacking)
    monkeypatch.setattr("testbed.sweep.room_for", lambda nodes: 0 if nodes == 7 else 99)
    monkeypatch.setattr("testbed.sweep.run_sweep", started)
    words = ["sweep", "roaming_field", "mqtt", "--backend", "machine", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, *FEW, "--master", master])
    assert (done.exit_code, output in " ".join(done.output.split())) == (code, True), done.output
    assert masters == (["local[0]"] if code == 130 else []), "no more than memory has room for"


@pytest.mark.usefixtures("waiting_machine")
def test_another_image_makes_other_points_in_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SweepSpec("roaming_field", ("mqtt",), {}, seeds=1, backend="machine")
    keys = []
    for name in ("one", "other", "one"):
        use_image(monkeypatch, name)
        keys.append(points(spec)[0].key)
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.usefixtures("waiting_machine")
def test_an_image_that_changes_during_a_sweep_fails_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = points(SweepSpec("roaming_field", ("mqtt",), {}, seeds=1, backend="machine"))
    ran: list[str] = []

    def execute(_: object, scenario: Scenario, *__: Any) -> None:
        ran.append(scenario.protocol.name)

    monkeypatch.setattr("emulation.vm.waiting.MachineBackend.execute", execute)
    for image, fails in (("one", False), ("other", True)):
        monkeypatch.setattr("emulation.vm.waiting.image_name", lambda image=image: image)
        point.task(tmp_path / image).run()
        assert failed(tmp_path / image) is fails
    assert ran == ["mqtt"]
    assert "start again to run all in it" in str(failure(tmp_path / "other"))


def test_another_run_on_the_machine_is_waited_for(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [[4711], [4711], []]
    monkeypatch.setattr("testbed.campaign.running", lambda: others.pop(0))
    monkeypatch.setattr(backend, "execute", interrupted)
    code, output = sweep(tmp_path, "flooding")
    assert code == 130
    assert output.startswith("waiting for the run of process 4711 on this machine to end run 1")
    assert others == []


def test_another_campaign_on_the_machine_is_waited_for(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(backend, "execute", interrupted)
    monkeypatch.setattr("testbed.campaign.STATE", tmp_path)
    with (tmp_path / campaign.TURN).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def say(text: str) -> None:
            said.append(text)
            lock.close()

        monkeypatch.setattr("testbed.campaign.console.say", say)
        code, _ = sweep(tmp_path / "out", "flooding")
    assert code == 130
    assert said[0].startswith("waiting for another sweep")
    assert said[1].startswith("run 1")


def test_code_that_changes_during_a_campaign_ends_it(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.campaign.is_current", lambda point: not backend.ran)
    code, output = sweep(tmp_path, "flooding", "broker-gpsr")
    assert code == 1
    assert "the code of the runs has changed: begin again" in output
    assert backend.ran == ["flooding"]


def test_the_code_of_a_point_is_current_until_what_it_runs_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (point,) = points(SweepSpec("roaming_field", ("flooding",), {}, seeds=1, backend="tap"))
    sources = dict(project())

    def change(name: str, text: str) -> None:
        changed = dataclasses.replace(sources[name], text=sources[name].text + text)
        monkeypatch.setattr(spec, "read_sources", lambda root: sources | {name: changed})

    assert is_current(point)
    for name, text, same in (
        ("nodeapp.pubsub.flooding", "# a remark\n", True),
        ("nodeapp.pubsub.georendezvous", "HERE = 1\n", True),
        ("nodeapp.pubsub.flooding", "HERE = 1\n", False),
        ("nodeapp.pubsub.flooding", "HERE =\n", False),
    ):
        change(name, text)
        assert is_current(point) is same, (name, text)


def test_runs_go_on_if_an_analysis_in_between_fails(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.campaign.BETWEEN", -1.0)
    monkeypatch.setattr("testbed.campaign.Analyst.sweep", fails)
    code, output = sweep(tmp_path, "flooding", "broker-gpsr")
    assert code == 3
    assert output.count("the runs go on without it") == 1
    assert backend.ran == ["flooding", "broker-gpsr"]


def fails(*_: Any, **__: Any) -> NoReturn:
    raise typer.Exit(3)


def test_an_interrupt_keeps_what_has_run(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "execute", interrupted)
    code, output = sweep(tmp_path, "flooding")
    assert code == 130
    assert "the same command goes on from here" in output
