"""What a paper is: its parts fit each other, and a preset says what it costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from nodeapp.installation import PROJECT
from spark_analysis.engine.code import closure, project
from spark_analysis.errors import AnalysisError
from spark_analysis.papers import registry
from spark_analysis.papers.claims import Claim, judge
from spark_analysis.papers.computed import Computed, run_computed
from spark_analysis.papers.cost import PresetCost, about, preset_cost
from spark_analysis.papers.figures import drawn, panels
from spark_analysis.papers.paper import Axis, Figure, Preset, Variation, ends_and_middle
from spark_analysis.papers.results import Judged
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.spec import SweepSpec
from testbed.commands import COMMANDS
from testbed.options import USAGE
from tests.pages import example
from tests.spark_analysis.papers.made_up import PAPER

REGISTERED = {"made-up": "tests.spark_analysis.papers.made_up"}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the made-up paper beside the others: one line."""
    papers = MappingProxyType({**registry.PAPERS, **REGISTERED})
    monkeypatch.setattr(registry, "PAPERS", papers)


def quick() -> Preset:
    found = PAPER.preset("quick")
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.PAPERS)
def test_every_registered_paper_is_whole(name: str) -> None:
    paper = registry.load_paper(name)
    assert paper.key == name
    assert registry.paper_summary(name)
    assert {"quick", "paper"} <= {preset.name for preset in paper.presets}
    for preset in paper.presets:
        cost = preset_cost(paper, preset)
        assert cost.seconds + cost.real_time > 0


@pytest.mark.parametrize("name", registry.PAPERS)
def test_computed_points_outlive_changes_of_what_runs_and_judges_them(name: str) -> None:
    paper = registry.load_paper(name)
    functions = {
        spec.function
        for preset in paper.presets
        for variation in paper.ways(preset)
        for spec in paper.plan(preset, variation).values()
        if isinstance(spec, Computed)
    }
    for function in functions:
        modules = closure(project(), (function.__module__,))
        assert not {Computed.__module__, Claim.__module__} & {*modules}


@pytest.mark.parametrize("name", registry.PAPERS)
def test_the_sources_of_a_paper_are_named(name: str) -> None:
    sources = (PROJECT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert f"# {registry.load_paper(name).anchor}\n" in sources


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claims": PAPER.claims * 2}, "claim 'delivers' occurs twice"),
        ({"studies": PAPER.studies[:1]}, "study 'formula' of figure"),
        ({"presets": (replace(quick(), variations=("none",)),)}, "variation 'none' does not exist"),
        ({"presets": (replace(quick(), values={"field": {"speed": (1,)}}),)}, "axis 'nodes'"),
        ({"presets": (replace(quick(), values={"sea": {}}),)}, "study 'sea' of preset 'quick'"),
        ({"variations": (Variation("v", "v", {}, "", ("sea",)),)}, "of variation 'v'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PAPER, **change)


def test_a_plan_has_runs_and_computed_points_over_their_own_axes() -> None:
    plan = PAPER.plan(quick(), PAPER.base)
    field, walks = plan["field"], plan["walks"]
    assert isinstance(field, SweepSpec)
    assert field.vary == {"nodes": ("4", "6")}
    assert isinstance(walks, Computed)
    assert walks.vary == {"cells": (4, 8), "lazy": (0, 50)}
    sums = PAPER.preset("sums")
    assert sums is not None
    assert list(PAPER.plan(sums, PAPER.base)) == ["formula"]


def test_variations_set_parameters_of_the_studies_they_are_about() -> None:
    far = Variation("far", "far apart", {"side": "900"}, "Why not.", ("field",))
    paper = replace(
        PAPER,
        variations=(far,),
        presets=(replace(quick(), variations=("far",), varied=5.0),),
    )
    (preset,) = paper.presets
    assert paper.ways(preset) == (paper.base, far)
    (spec,) = paper.plan(preset, far).values()
    assert isinstance(spec, SweepSpec)
    assert spec.settings == {"side": "900", "subscribers": "3"}
    assert spec.duration == 5.0
    assert preset_cost(paper, preset).runs == 8


def test_a_cost_is_of_points_and_cores() -> None:
    cost = preset_cost(PAPER, quick())
    assert (cost.runs, cost.computed) == (4, 4 * 10 + 2)
    assert cost.seconds == pytest.approx(4 * (0.5 + 0.01 * 20) + 40 * 0.01 + 2 * 0.001)
    assert cost.text(2) == "4 runs and 42 computed points, less than a minute on 2 cores"
    assert PresetCost(432, 0, 21_600.0).text(2) == "432 runs, about 3.0 h on 2 cores"
    assert PresetCost(1, 0, 540.0).text(1) == "1 run, about 9 min on 1 core"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59, "less than a minute"),
        (600, "about 10 min"),
        (9000, "about 2.5 h"),
        (86_400, "about 24 h"),
        (7 * 86_400, "about 7.0 days"),
    ],
)
def test_times_are_rounded_as_they_are_told(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_ends_and_middle() -> None:
    assert ends_and_middle((1, 2, 3, 4, 5)) == (1, 3, 5)
    assert ends_and_middle((1, 2)) == (1, 2)
    assert ends_and_middle((1,)) == (1,)


def test_an_axis_names_values() -> None:
    scheme = Axis("protocol", "scheme", names={"flooding": "Flood"})
    assert scheme.text("flooding") == "Flood"
    assert scheme.text("gossip") == "gossip"
    assert Axis("k", "k").text(10.0) == "k 10"
    assert Axis("interval", "mean interval", "s").text(4.5) == "mean interval 4.5 s"
    assert Axis("interval", "mean interval", "s").title == "mean interval, s"


def test_curves_have_panels_and_what_does_not_depend_on_x() -> None:
    rows = pd.DataFrame(
        {
            "protocol": ["a"] * 4 + ["limit"],
            "nodes": [80, 300, 80, 300, None],
            "k": [1, 1, 2, 2, None],
            "hops": [1.0, 2.0, 3.0, 4.0, 9.0],
            "_cluster": list("abcde"),
        }
    )
    figure = Figure(
        ("s",),
        Quantity("hops", "Hops", "", "hops"),
        Axis("nodes", "nodes"),
        (Axis("protocol", "system"),),
        panels=(Axis("k", "k"),),
    )
    drawn = panels(figure, rows)
    assert list(drawn) == ["k 1", "k 2"]
    assert [(x, i.mean) for x, i in drawn["k 2"]["a"]] == [(80, 3.0), (300, 4.0)]
    assert [(x, i.mean) for x, i in drawn["k 1"]["limit"]] == [(80, 9.0), (300, 9.0)]


def test_rows_of_one_draw_are_one_value_of_a_curve() -> None:
    rows = pd.DataFrame(
        {"protocol": "a", "nodes": 80, "hops": [1.0, 3.0, 6.0], "_cluster": ["x", "x", "y"]}
    )
    figure = Figure(
        ("s",),
        Quantity("hops", "Hops", "", "hops"),
        Axis("nodes", "nodes"),
        (Axis("protocol", "system"),),
    )
    ((_, interval),) = panels(figure, rows)[""]["a"]
    assert (interval.mean, interval.count) == (4.0, 2)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_the_listing_shows_papers_with_what_presets_cost() -> None:
    app = typer.Typer()
    app.command()(COMMANDS["reproduce"].load())
    app.command()(lambda: None)
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "six-schemes" in text
    assert "made-up" in text
    rows = {row[0]: row for row in registry.papers_rows(cores=2)}
    assert rows["six-schemes"][2].startswith("quick: 96 runs, about ")
    assert rows["made-up"] == (
        "made-up",
        "A made-up paper in one file: floods by the number of nodes, and walks on a line of cells.",
        "quick: 4 runs and 42 computed points, less than a minute on 2 cores\n"
        "sums: 2 computed points, less than a minute on 2 cores",
    )
    result = CliRunner().invoke(app, ["reproduce", "unmade"])
    assert result.exit_code == USAGE
    names = ", ".join([*registry.PAPERS])
    assert f"no paper 'unmade' (did you mean made-up?); there are: {names}" in result.output


def test_an_unknown_paper_ends_in_one_line() -> None:
    with pytest.raises(AnalysisError, match="no paper 'x'; there are: six-schemes"):
        registry.load_paper("x")


WITHOUT_PANDAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "pyspark", "numpy", "matplotlib"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from spark_analysis.papers.registry import papers_rows
print(papers_rows())
"""


def test_papers_are_listed_without_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS],
        cwd=Path(PROJECT), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "'six-schemes', 'Topic-driven brokers" in done.stdout
    assert "runs" not in done.stdout


def test_the_example_of_the_documentation_is_a_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flooding_cost.py").write_text(example("paper"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    papers = MappingProxyType({"flooding-cost": "flooding_cost"})
    monkeypatch.setattr(registry, "PAPERS", papers)
    assert registry.papers_rows(cores=2) == [
        (
            "flooding-cost",
            "Flooding by the number of nodes.",
            "quick: 12 runs and 2 computed points, less than a minute on 2 cores\n"
            "paper: 80 runs and 4 computed points, about 30 min on 2 cores",
        )
    ]
    paper = registry.load_paper("flooding-cost")
    (preset, _) = paper.presets
    spec = paper.plan(preset, paper.base)["bound"]
    assert isinstance(spec, Computed)
    rows = run_computed(spec, tmp_path / "bound").rows.assign(study="bound")
    field = pd.DataFrame(
        [
            {
                "study": "field",
                "protocol": protocol,
                "nodes": nodes,
                "seed": seed,
                "event_frames_per_event": frames + seed / 10,
            }
            for protocol, frames in (("flooding", 20), ("broker-aodv", 8))
            for nodes in (20, 40)
            for seed in (1, 2, 3)
        ]
    )
    points = pd.concat([field, rows])
    findings = {f.claim.key: f for f in judge(paper.claims, points)}
    assert {key: str(f.verdict) for key, f in findings.items()} == {
        "cheaper": "holds",
        "grows": "holds",
    }
    first, *_ = drawn(paper, Judged(paper.base, points, tuple(findings.values())))
    assert "Equation 1: 20 frames at 20, 40 frames at 40" in first.drawing.description
