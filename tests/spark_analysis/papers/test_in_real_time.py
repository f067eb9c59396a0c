"""Reproductions in real time: runs one after another, as root, and judged without."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from nodeapp.installation import COMMAND
from spark_analysis.papers import registry
from spark_analysis.papers.claims import Claim, Comparison, above
from spark_analysis.papers.cost import preset_cost
from spark_analysis.papers.figures import panels
from spark_analysis.papers.paper import (
    Axis,
    Figure,
    Paper,
    Preset,
    Scope,
    Study,
    Variation,
    per_second,
)
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.folder import RUNNING, alone
from spark_analysis.sweeps.spec import SweepSpec
from testbed.reproduce import reproduce as command
from tests.spark_analysis.sweeps.test_campaign import Recording, interrupted

SPEED: Final = Axis("speed", "speed", "m/s", names={"0.0": "at rest"})
PROTOCOLS: Final = ("flooding", "broker-gpsr")


def runs(scope: Scope) -> SweepSpec:
    return SweepSpec(
        "roaming_field",
        PROTOCOLS,
        {"speed": scope.texts("speed")},
        scope.seeds,
        scope.duration,
        {"nodes": "7", "interval": "1", **scope.settings},
        backend="tap",
    )


def delivers(points: pd.DataFrame) -> list[Comparison]:
    return [above(points, "delivery_ratio", *PROTOCOLS, ("speed",), unit="")]


FIGURE: Final = Figure(
    ("field",), Quantity("delivery_ratio", "Delivery", "", ""), SPEED, (Axis("protocol", ""),)
)
PAPER: Final = Paper(
    key="live",
    title="Live",
    citation="Nobody.",
    anchor="live",
    published=False,
    studies=(Study("field", "field", (SPEED,), runs, per_second(1.0)),),
    figures=(FIGURE,),
    claims=(Claim("delivers", "Flooding delivers more", "common opinion", delivers),),
    base=Variation("defaults", "defaults", {}, "Nothing is set."),
    variations=(Variation("late", "late tail", {"tail": "2"}, "Why not."),),
    presets=(
        Preset(
            "quick",
            "few",
            {"field": {"speed": (0.0,)}},
            seeds=2,
            duration=14.0,
            varied_seeds=1,
            variations=("late",),
        ),
    ),
)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> Recording:
    recording = Recording()
    monkeypatch.setattr("testbed.campaign.backends", lambda: {"tap": recording})
    monkeypatch.setattr("testbed.campaign.running", lambda: [])  # another test's run may be
    monkeypatch.setattr("testbed.campaign.STATE", tmp_path_factory.mktemp("state"))
    papers = {"six-schemes": registry.PAPERS["six-schemes"], "live": __name__}
    monkeypatch.setattr(registry, "PAPERS", MappingProxyType(papers))
    monkeypatch.setattr(sys.modules[__name__], "PAPER", PAPER)
    return recording


def reproduce(*words: Any) -> tuple[int, str]:
    """Run the command; return its exit code and what it prints, in one line."""
    app = typer.Typer()
    app.command()(command)
    app.command()(lambda: None)
    done = CliRunner().invoke(app, ["reproduce", "live", *map(str, words)], env={"COLUMNS": "200"})
    assert "Traceback" not in done.output
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_runs_are_resumed_published_and_known(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = backend.execute
    left = [3]

    def three(*arguments: Any) -> None:
        left[0] -= 1
        execute(*arguments) if left[0] >= 0 else interrupted()

    monkeypatch.setattr(backend, "execute", three)
    code, output = reproduce("--out", tmp_path / "a")
    assert code == 130
    assert "the same command resumes" in output
    assert "run 1 of 6, about 2 min left: flooding speed=0.0 seed=1" in output
    assert backend.ran == ["flooding", "broker-gpsr", "flooding"], "seed by seed"
    monkeypatch.setattr(backend, "execute", execute)
    backend.failing = "broker-gpsr"
    code, output = reproduce("--out", tmp_path / "a")
    assert code == 1
    assert len(backend.ran) == 6, "only what was missing"
    assert "its radios did not start" in output
    assert "failed points: 2" in output
    code, output = reproduce(
        "--out", tmp_path / "a", "--so-far", "--markdown", tmp_path / "live.md"
    )
    assert code == 0, output
    assert "So far: 2 of 6 runs. Defaults: the first of 2 seeds." in output
    assert f"\n    sudo {COMMAND} reproduce live " in (tmp_path / "live.md").read_text("utf-8")
    backend.failing = ""
    code, output = reproduce("--out", tmp_path / "b", "--known", tmp_path / "live")
    assert code == 0, output
    assert len(backend.ran) == 8, "only what was not published"
    page = (tmp_path / "b" / "reproduction.html").read_text(encoding="utf-8")
    assert "systems that people deploy, compared" in page
    assert "the paper" not in page
    assert "So far" not in page
    results = pd.read_parquet(tmp_path / "b" / "results.parquet")
    assert len(results) == 6
    kept = results.set_index("protocol")["kept_real_time"]
    assert kept["flooding"].all()
    assert not kept["broker-gpsr"].any()
    assert not any(tmp_path.glob("*/field/points/*/captures/*")), "packets are dropped"
    both = pd.concat([results, results.assign(speed=5.0)])
    curve = panels(FIGURE, both.assign(_cluster=both["seed"]))[""]["flooding"]
    assert [x for x, _ in curve] == ["at rest", 5.0]


def test_bad_input_ends_in_one_line(
    backend: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = reproduce("--out", tmp_path, "--master", "local[2]")
    assert code == 2
    assert output.endswith("those of virtual go on here, one after another")
    monkeypatch.setattr(
        backend, "obstacles", lambda one, *_: [f"{one.protocol.name} is not here: install it"]
    )
    assert reproduce("--out", tmp_path) == (1, "error: flooding is not here: install it")
    assert not any(tmp_path.iterdir())


def test_two_commands_do_not_work_on_one_folder(backend: Recording, tmp_path: Path) -> None:
    with alone(tmp_path, RUNNING):
        code, output = reproduce("--out", tmp_path)
    assert (code, backend.ran) == (1, [])
    assert "is being worked on: wait for it" in output


@pytest.mark.usefixtures("backend")
def test_all_papers_are_those_under_the_virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Paper, Preset]] = []
    monkeypatch.setattr("testbed.reproduce._all", lambda chosen, *_: asked.extend(chosen))
    app = typer.Typer()
    app.command()(command)
    app.command()(lambda: None)
    assert CliRunner().invoke(app, ["reproduce", "all"]).exit_code == 0
    assert [paper.key for paper, _ in asked] == ["six-schemes"]


def test_a_preset_costs_time_whatever_the_processors() -> None:
    assert preset_cost(PAPER, PAPER.presets[0]).text(64) == "6 runs, about 1 min in real time"
