"""Long presets: rounds, results so far, and published points in place of runs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_analysis.errors import AnalysisError
from spark_analysis.measures.versions import VERSIONS
from spark_analysis.papers import registry
from spark_analysis.papers.computed import Computed
from spark_analysis.papers.kept import beside
from spark_analysis.papers.markdown import write_markdown
from spark_analysis.papers.paper import Axis, Paper, Preset, Study, Variation, per_point
from spark_analysis.papers.planned import Part, parts_of
from spark_analysis.papers.published import Known, PointsFile, read_known
from spark_analysis.papers.reproduction import reproduce, show
from spark_analysis.papers.results import Reproduction
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.rows import SUMMARY
from spark_analysis.sweeps.sweep import Progress
from testbed.reproduce import _give_to_caller
from testbed.reproduce import reproduce as command
from tests.spark_analysis.papers import made_up
from tests.spark_analysis.papers.made_up import CELLS, LAZY, walk
from tests.spark_analysis.sweeps.helpers import spec

WALKERS: Final = {"walkers": 50}
LONGER: Final = Variation("longer", "longer walks", {"walkers": "99"}, "To see.", ("walks",))
WALKS: Final = Study(
    "walks",
    "walks",
    (CELLS, LAZY),
    lambda scope: Computed(
        walk,
        scope.values,
        scope.seeds,
        {"walkers": int(scope.settings.get("walkers", 50))},
        inline=True,
    ),
    per_point(0.01),
)
PRESET: Final = Preset(
    "long",
    "four seeds",
    {"walks": {"cells": (4, 8), "lazy": (0, 50)}, "formula": {"cells": (4, 8)}},
    seeds=4,
    varied_seeds=2,
    variations=("longer",),
)
PAPER: Final = replace(
    made_up.PAPER,
    studies=(made_up.PAPER.study("field"), WALKS, made_up.PAPER.study("formula")),
    figures=(),  # drawing takes most of the time, and is tested elsewhere
    variations=(LONGER,),
    presets=(PRESET,),
    seeds=2,
)
ALL: Final = 4 * 4 + 2 + 2 * 4
"""Points of the preset: walks of the base, the formula, walks of the variation."""


def stopped_at(folder: Path, what: str, done: int) -> list[str]:
    """Run the preset until `done` points of `what` are there; return what ran."""
    seen: list[str] = []

    def report(name: str, progress: Progress) -> None:
        seen.append(name)
        if name == what and progress.done == done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(PAPER, PRESET, folder, progress=report)
    return list(dict.fromkeys(seen))


def made(folder: Path) -> int:
    """Return how many points were computed or run in a folder."""
    return len(list(folder.glob("*/points/*")))


def publish(result: Reproduction, folder: Path) -> Path:
    """Publish a page, and return the folder of its points."""
    return write_markdown(result, folder / "page.md", "command").with_suffix("")


def same(one: Reproduction, other: Reproduction) -> None:
    """Assert that results are the same but for what they took."""
    assert [each.variation for each in one.judged] == [each.variation for each in other.judged]
    for mine, its in zip(one.judged, other.judged, strict=True):
        one_table, other_table = (
            each.points.drop(columns="processor_seconds") for each in (mine, its)
        )
        pd.testing.assert_frame_equal(one_table, other_table)
        assert mine.findings == its.findings


def test_a_long_preset_first_shows_as_many_seeds_as_were_published(tmp_path: Path) -> None:
    ran = stopped_at(tmp_path, "walks, as published", 10)
    assert ran == [
        "walks, as published, first seeds",
        "formula, as published, first seeds",
        "walks, as published",
    ]
    said = "As published: the first 2 of 4 seeds of walks; all of formula."
    page = (tmp_path / "reproduction.html").read_text(encoding="utf-8")
    assert f"So far: 10 of {ALL} computed points" in page
    assert said in page
    assert "Nothing yet of: longer walks." in page
    (base,) = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert base["so_far"]["lines"] == [said, "Nothing yet of: longer walks."]
    assert (base["so_far"]["computed"], base["so_far"]["all_computed"]) == (10, ALL)
    assert set(pd.read_parquet(tmp_path / "results.parquet")["seed"].dropna()) == {1, 2}
    # The base is whole before a variation runs.
    ran = stopped_at(tmp_path, "walks, longer walks", 1)
    assert ran == ["walks, as published", "walks, longer walks"]
    page = (tmp_path / "reproduction.html").read_text(encoding="utf-8")
    assert f"So far: 18 of {ALL} computed points" in page
    # What is finished says nothing of it.
    result = reproduce(PAPER, PRESET, tmp_path)
    assert made(tmp_path) == ALL
    assert result.so_far is None
    assert "So far" not in (tmp_path / "reproduction.html").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert [each.get("so_far") for each in found] == [None, None]


def test_so_far_has_whole_seeds_alone(tmp_path: Path) -> None:
    stopped_at(tmp_path, "walks, as published", 3 * 4 + 1)
    result = show(PAPER, PRESET, tmp_path)
    assert result.so_far is not None
    assert result.so_far.lines == (
        "As published: the first 3 of 4 seeds of walks; all of formula.",
        "Nothing yet of: longer walks.",
    )
    (base,) = result.judged
    counted = base.points.groupby("seed", dropna=False).size()
    assert counted.tolist() == [4, 4, 4, 4]  # the last are rows of the formula, without a seed
    page = write_markdown(result, tmp_path / "m.md", "command")
    assert f"**So far: {3 * 4 + 2} of {ALL} computed points.**\n" in page.read_text("utf-8")
    text = (tmp_path / "m" / "appendix.md").read_text(encoding="utf-8")
    assert f"**So far: {3 * 4 + 2} of {ALL} computed points.**\n\n- As published: the" in text
    # A seed in between counts, and the one that is not whole is named as missing.
    first = next(path for path in (tmp_path / "walks" / "points").iterdir() if of(path) == 1)
    (first / "rows.json").unlink()
    result = show(PAPER, PRESET, tmp_path)
    assert result.so_far is not None
    assert "2 of 4 seeds (2, 3) of walks" in result.so_far.lines[0]


def of(point: Path) -> int:
    """Return the seed of a computed point."""
    return int(json.loads((point / "rows.json").read_text(encoding="utf-8"))[0]["seed"])


def test_nothing_so_far_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"no results of made-up --preset long .*: leave out"):
        show(PAPER, PRESET, tmp_path / "none")
    stopped_at(tmp_path, "walks, as published, first seeds", 3)
    with pytest.raises(AnalysisError, match=r"yet \(finished points: 3, but no complete seed\)"):
        show(PAPER, PRESET, tmp_path)


def test_a_fresh_folder_goes_on_from_published_points(tmp_path: Path) -> None:
    stopped_at(tmp_path / "one", "walks, as published", 3 * 4 + 1)
    published = publish(show(PAPER, PRESET, tmp_path / "one"), tmp_path / "published")
    known = read_known(PAPER, [published])
    there = 3 * 4 + 1 + 2  # points of seeds that are not whole are published too
    seen: list[Progress] = []
    result = reproduce(
        PAPER, PRESET, tmp_path / "other", known=known, progress=lambda _, p: seen.append(p)
    )
    assert made(tmp_path / "other") == ALL - there
    assert seen[0].total == 3
    whole = reproduce(PAPER, PRESET, tmp_path / "whole")
    same(result, whole)
    # All of it is published again, and then nothing is run.
    again = publish(result, tmp_path / "again")
    (again / ".walks.parquet").write_bytes(b"half")  # of a killed command
    drawn = reproduce(PAPER, PRESET, tmp_path / "drawn", known=read_known(PAPER, [again]))
    (again / ".walks.parquet").unlink()
    assert made(tmp_path / "drawn") == 0
    same(drawn, whole)
    bytes_of = {path.name: path.read_bytes() for path in again.iterdir()}
    assert {"walks.parquet", "formula.parquet", "appendix.md"} == set(bytes_of)
    publish(drawn, tmp_path / "again")
    assert {path.name: path.read_bytes() for path in again.iterdir()} == bytes_of


def stroll(seed: int, cells: int, lazy: int, walkers: int) -> dict[str, Any]:
    """Return what other code makes of the parameters of `walk`."""
    return {"protocol": "walk", "hops": float(seed + cells + lazy + walkers)}


def with_study(study: Study) -> Paper:
    studies = tuple(study if each.name == study.name else each for each in PAPER.studies)
    return replace(PAPER, studies=studies)


def remarks(paper: Paper, preset: Preset, known: Known, folder: Path) -> list[str]:
    parts = [part for _, of_way in parts_of(paper, preset, folder) for part in of_way]
    return known.remarks(parts)


def test_points_of_other_code_are_told_and_run_again(tmp_path: Path) -> None:
    published = publish(reproduce(PAPER, PRESET, tmp_path / "one"), tmp_path)
    known = read_known(PAPER, [published])
    assert remarks(PAPER, PRESET, known, tmp_path) == []
    changed = with_study(
        replace(
            WALKS, source=lambda scope: Computed(stroll, scope.values, scope.seeds, WALKERS, True)
        )
    )
    short = replace(PRESET, variations=())
    assert remarks(changed, short, known, tmp_path) == [
        f"24 of 24 points of {published / 'walks.parquet'} were made by other code: they are not "
        "used, but run again"
    ]
    result = reproduce(changed, short, tmp_path / "changed", known=known)
    assert made(tmp_path / "changed") == 4 * 4
    walks = result.judged[0].points.query("study == 'walks'")
    assert (walks["hops"] == walks["seed"] + walks["cells"] + walks["lazy"] + 50).all()
    # Of the same code but not of this preset is something else.
    assert remarks(PAPER, short, known, tmp_path) == [
        f"8 of 24 points of {published / 'walks.parquet'} were made by other parameters: they are "
        "not used"
    ]


def kinds(seed: int) -> list[dict[str, Any]]:
    """Return rows with values of every type, and gaps."""
    return [
        {"count": 2**53 + seed, "flag": True, "name": "ä|b", "odd": 0.1 + 0.2, "gap": math.nan},
        {"count": -seed, "flag": False, "name": "", "odd": -0.0, "only": seed},
    ]


def test_types_survive(tmp_path: Path) -> None:
    study = Study("kinds", "kinds", (), lambda _: Computed(kinds, {}, 3, {}, True), per_point(0.01))
    preset = Preset("kinds", "all types", {"kinds": {}})
    paper = replace(PAPER, studies=(study,), claims=(), variations=(), presets=(preset,))
    first = reproduce(paper, preset, tmp_path / "one")
    known = read_known(paper, [publish(first, tmp_path)])
    second = reproduce(paper, preset, tmp_path / "two", known=known)
    assert made(tmp_path / "two") == 0
    one, two = first.judged[0].points, second.judged[0].points
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert two["count"].dtype == "int64"
    assert two["flag"].dtype == bool
    assert two["count"].iloc[0] == 2**53 + 1
    table = pq.read_table(tmp_path / "page" / "kinds.parquet")
    assert math.isnan(table["gap"][0].as_py())
    assert table["gap"][1].as_py() is None


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """Return the command with this paper alone."""
    monkeypatch.setattr(made_up, "PAPER", PAPER)
    monkeypatch.setattr(registry, "PAPERS", MappingProxyType({"made-up": made_up.__name__}))
    app = typer.Typer()
    app.command()(command)
    app.command()(lambda: None)
    return app


def run(app: typer.Typer, *words: str | Path) -> tuple[int, str]:
    line = ["reproduce", "made-up", "--preset", "long", *map(str, words)]
    result = CliRunner().invoke(app, line, env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_the_command_publishes_goes_on_and_shows(app: typer.Typer, tmp_path: Path) -> None:
    stopped_at(tmp_path / "a", "walks, as published", 12)
    code, said = run(app, "--out", tmp_path / "a", "--so-far", "--markdown", tmp_path / "p.md")
    assert code == 0
    assert f"So far: 14 of {ALL} computed points." in " ".join(said.split())
    words: list[str | Path] = ["--out", tmp_path / "b", "--known", tmp_path / "p"]
    code, said = run(app, *words, "--so-far")
    assert code == 0
    assert f"So far: 14 of {ALL} computed points." in " ".join(said.split())
    assert made(tmp_path / "b") == 0
    code, said = run(app, *words, "--markdown", tmp_path / "p.md")
    assert code == 0
    assert "So far" not in said
    assert made(tmp_path / "b") == 12
    assert "So far" not in (tmp_path / "p.md").read_text(encoding="utf-8")
    code, said = run(app, "--out", tmp_path / "none", "--so-far")
    assert code == 1
    assert "there are no results of made-up --preset long" in said


@pytest.mark.root
def test_what_the_command_makes_and_what_it_shows_is_the_callers(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.setenv(name, "65534")
    assert run(app, "--out", tmp_path / "a", "--markdown", tmp_path / "p.md")[0] == 0
    assert run(app, "--out", tmp_path / "b", "--known", tmp_path / "p", "--so-far")[0] == 0
    (tmp_path / "a" / "claims.json").unlink()  # as one that was interrupted
    os.chown(tmp_path / "a", 0, 0)
    _give_to_caller(tmp_path / "a")
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {65534}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--share", "1/2"], "No such option: --share"),
        (["--markdown", "page.html"], "--markdown names a file that ends in .md"),
    ],
)
def test_options_that_do_not_fit_end_in_one_line(
    app: typer.Typer, words: Sequence[str], message: str
) -> None:
    code, said = run(app, *words)
    assert code == 2
    assert message in said


def test_files_that_cannot_be_used_are_refused_in_one_line(
    app: typer.Typer, tmp_path: Path
) -> None:
    published = publish(reproduce(PAPER, PRESET, tmp_path / "one"), tmp_path)
    file = published / "walks.parquet"
    good = file.read_bytes()

    def refused(*reasons: str) -> None:
        code, said = run(app, "--out", tmp_path / "new", "--known", published)
        assert code == 1
        assert len(said.strip().splitlines()) <= 3
        for reason in reasons:
            assert reason in " ".join(said.split())
        assert not (tmp_path / "new").exists()

    file.write_bytes(good[: len(good) // 2])
    refused("walks.parquet cannot be read, get it again or move it away: ")
    damaged = bytearray(good)
    damaged[200] ^= 0xFF  # in a page of data
    file.write_bytes(damaged)
    refused("walks.parquet cannot be read, get it again or move it away: ")
    pd.DataFrame({"run": ["a"]}).to_parquet(file)
    refused("walks.parquet has no points that this version's --markdown wrote: move it away")
    table = pq.read_table(published / "formula.parquet")
    of_other = {**(table.schema.metadata or {}), b"paper": b"other"}
    pq.write_table(table.replace_schema_metadata(of_other), file)
    refused("walks.parquet has points of other, not of made-up: name another folder")
    file.unlink()
    (published / "formula.parquet").unlink()
    refused("has no points: name the folder beside a page that --markdown wrote")


def compared(folder: Path) -> Part:
    """Return a study of two systems whose deliveries are compared."""
    speed = Axis("speed", "speed", "m/s")
    study = Study(
        "field",
        "field",
        (speed,),
        lambda scope: spec(vary={"speed": ("5",)}, seeds=scope.seeds),
        per_point(0.5),
        deliveries=True,
    )
    preset = Preset("pairs", "pairs", {"field": {"speed": (5.0,)}}, seeds=2)
    paper = replace(PAPER, studies=(study,), claims=(), variations=(), presets=(preset,))
    [(_, [part])] = parts_of(paper, preset, folder)
    return part


def test_runs_that_are_compared_are_taken_together_or_not_at_all(tmp_path: Path) -> None:
    part = compared(tmp_path)
    assert [len(keys) for keys in part.groups.values()] == [2, 2]
    assert {part.points[key].seed for key in next(iter(part.groups.values()))} == {1}
    rows = {(key, group): [{"run": key}] for key, group in part.group_of.items()}
    sources = {key: point.code for key, point in part.points.items()}
    lost = next(iter(rows))
    known = Known([PointsFile(tmp_path, "field", rows, sources)])
    assert {key for found in known.groups(part).values() for key in found} == set(part.points)
    del rows[lost]
    known = Known([PointsFile(tmp_path, "field", rows, sources)])
    assert list(known.groups(part)) == list(part.groups)[1:]
    known = Known([PointsFile(tmp_path, "field", rows, sources, "delay 1, now 2")])
    assert known.groups(part) == {}
    assert known.remarks([part]) == [
        f"4 points of {tmp_path} are of other versions of measures (delay 1, now 2): they are not "
        "used, but run again"
    ]
    # The same run in other company is of another group.
    rows[lost[0], "other"] = [{"run": lost[0]}]
    known = Known([PointsFile(tmp_path, "field", rows, sources)])
    assert list(known.groups(part)) == list(part.groups)[1:]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_runs_are_continued_elsewhere_and_shown_while_they_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    part = compared(tmp_path)
    study, preset = part.study, Preset("pairs", "pairs", {"field": {"speed": (5.0,)}}, seeds=2)
    paper = replace(
        PAPER, studies=(study,), claims=(), variations=(), presets=(preset,), seeds=None
    )
    folder = tmp_path / "one" / "field"
    whole = reproduce(paper, preset, tmp_path / "one")
    late = next(point for point in part.points.values() if point.seed == 2)
    (folder / "points" / late.key / "metrics" / SUMMARY).unlink()  # as if it were still running
    with SweepFolder(folder).alone():
        files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        shown = show(paper, preset, tmp_path / "one")
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files
    assert shown.so_far is not None
    assert shown.so_far.text == "So far: 2 of 4 runs. As published: the first of 2 seeds."
    # The other run of that seed is finished, but its group is not.
    known = read_known(paper, [publish(shown, tmp_path)])
    assert known.remarks([part]) == []
    there = reproduce(paper, preset, tmp_path / "two", known=known)
    assert (made(tmp_path / "one"), made(tmp_path / "two")) == (4, 2)
    same(there, whole)
    assert there.judged[0].points[beside("flooding")].notna().all()
    # Rows that are marked with other versions of measures are not taken.
    file = tmp_path / "page" / "field.parquet"
    table = pq.read_table(file)
    old = {**(table.schema.metadata or {}), VERSIONS: b'{"delay": 0}'}
    pq.write_table(table.replace_schema_metadata(old), file)
    known = read_known(paper, [file.parent])
    assert known.groups(part) == {}
    assert "2 points" in known.remarks([part])[0]
    assert "delay 0, now" in known.remarks([part])[0]
