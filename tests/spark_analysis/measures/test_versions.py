"""Versions of measures: raised with their queries, and left alone with their words."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from nodeapp.installation import PROJECT
from spark_analysis.engine.code import Module, Sources, read_sources
from spark_analysis.measures import versions
from spark_analysis.measures.registry import MEASURES
from spark_analysis.measures.summary import MEASURED
from spark_analysis.measures.versions import Files, differences, renewed, summary_versions

SOURCES: Final = read_sources(PROJECT)
FOLDER: Final = "spark_analysis.measures"


def edited(measure: str, old: str, new: str) -> dict[str, Module]:
    """Return the sources with a text of one measure replaced, which must be there once."""
    name = f"{FOLDER}.{measure}"
    text = SOURCES[name].text
    assert text.count(old) == 1, f"{name} has changed: {old!r}"
    return {**SOURCES, name: replace(SOURCES[name], text=text.replace(old, new))}


def outdated(sources: Sources) -> list[str]:
    return [name.removeprefix(f"{FOLDER}.") for name in Files(sources).outdated()]


def test_versions_were_raised_with_their_queries() -> None:
    assert outdated(SOURCES) == [], "python -m spark_analysis.measures --renew (or --same-rows)"


def test_every_query_is_in_a_file_with_a_version() -> None:
    queries = [*(measure.table for measure in MEASURES), *(metric.measure for metric in MEASURED)]
    assert {query.make.__module__ for query in queries} <= Files(SOURCES).stated.keys()


@pytest.mark.parametrize(
    ("measure", "old", "new"),
    [
        ("delay", 'sf.max("delay").alias("max")', 'sf.min("delay").alias("max")'),
        ("delay", 'QUANTILES: Final = {"p50": 0.5,', 'QUANTILES: Final = {"p50": 0.51,'),
        ("copies", 'sf.mean(sf.col("times") - 1)', 'sf.mean("times")'),
        ("copies", 'column("copies", DOUBLE,', 'column("copies", INT,'),
        ("recovery", "RECOVERED: Final = 0.95", "RECOVERED: Final = 0.9"),
        ("columns", "sf.lit(1e9)", "sf.lit(1e6)"),
        ("runs", "SETTLE: Final = 2.0", "SETTLE: Final = 3.0"),
        ("load", "count_if(sent & (sf.col", "count_if(received & (sf.col"),
        ("summary", '"frames_per_event": _ratio(frames, events)', '"frames_per_event": frames'),
    ],
)
def test_another_query_or_schema_makes_its_version_outdated(
    measure: str, old: str, new: str
) -> None:
    assert outdated(edited(measure, old, new)) == [measure]


@pytest.mark.parametrize(
    ("measure", "old", "new"),
    [
        ("delay", "One delivery in ten takes longer; of each run.", "In other words."),
        ("delay", '"Delay by hop count",', '"Delays",'),
        ("delay", "LONG_ROUTE: Final = 10", "LONG_ROUTE: Final = 20"),
        ("delay", "Return `DELAY_BY_HOPS` from `DELAY`.", "Return delays."),
        ("copies", '"copies of an event at a node it is for, beyond the first"', '"copies"'),
        ("copies", 'tile="Duplicate copies"', 'tile="Copies"'),
        ("copies", "swept=True,", "swept=False,"),
        ("recovery", "def _balance(", "def _word(): ...\n\n\ndef _balance("),
        ("delivery", '"Delivery per topic"', '"By topic"'),
        ("delivery", "\nfrom dataclasses import replace\n", "\nimport dataclasses\n"),
        ("delivery", "one row an event and client: expected", "expected"),
    ],
)  # fmt: skip
def test_words_and_what_is_shown_do_not(measure: str, old: str, new: str) -> None:
    assert outdated(edited(measure, old, new)) == []


def test_what_queries_use_of_the_analysis_has_a_version_of_its_own_or_none() -> None:
    files = Files(SOURCES)
    used = {
        origin.rpartition(".")[0]
        for name, indices in files.needed.items()
        for origin in files.origins(name, indices)
        if origin.startswith("spark_analysis.")
    }
    allowed = ("spark_analysis.measures.", "spark_analysis.captures.", "spark_analysis.engine.")
    assert {name for name in used if not name.startswith(allowed)} == {
        "spark_analysis.report.metric"  # MeasuredMetric, of which the summary takes the queries
    }


def test_the_summary_is_made_of_what_it_reads_and_of_nothing_else() -> None:
    made_of = set(summary_versions())
    assert {"summary", "delivery", "delay", "overhead", "packets", "runs", "columns"} <= made_of
    assert {"copies", "recovery", "tree_length"} <= made_of, "metrics with columns of their own"
    assert made_of.isdisjoint({"airtime", "counters", "lateness", "links", "load", "stages"})


def test_differences_are_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(summary_versions()) == ""
    monkeypatch.setattr(versions, "summary_versions", lambda: {"delay": 2, "copies": 1})
    assert differences({"delay": 1, "copies": 1}) == "delay 1, now 2"
    assert differences({"copies": 1, "gone": 3}) == "delay none, now 2, gone 3, now none"


def test_a_version_is_raised_unless_rows_are_the_same() -> None:
    text = 'import x\n\nVERSION: Final = Version(4, "abc")\n'
    assert 'Version(5, "def")' in renewed(text, "def", same_rows=False)
    assert 'Version(4, "def")' in renewed(text, "def", same_rows=True)
    new = text.replace("abc", "")
    assert 'Version(4, "def")' in renewed(new, "def", same_rows=False), "of a new file"
    with pytest.raises(ValueError, match="has no version: add"):
        renewed("import x\n", "def", same_rows=False)


@pytest.mark.slow
def test_the_command_tells_and_renews(tmp_path: Path) -> None:
    for package in ("spark_analysis", "topologies", "emulation", "capture", "nodeapp"):
        shutil.copytree(
            PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )

    def command(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "spark_analysis.measures", *options],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def version() -> Mapping[str, str]:
        match = re.search(r'Version\((?P<number>\d+), "(?P<code>\w+)"', file.read_text())
        assert match is not None
        return match.groupdict()

    file = tmp_path / "spark_analysis/measures/copies.py"
    assert command() == (0, "")
    before = version()
    file.write_text(file.read_text().replace('sf.col("times") - 1', 'sf.col("times") - 2'))
    assert command() == (
        1,
        "spark_analysis.measures.copies: its queries have changed and its version has not: "
        "--renew\n",
    )
    assert command("--renew") == (0, "spark_analysis.measures.copies: renewed\n")
    assert int(version()["number"]) == int(before["number"]) + 1
    assert version()["code"] != before["code"]
    assert command() == (0, "")


def test_workers_load_neither_figures_nor_pandas_with_a_query() -> None:
    names = ", ".join(sorted(Files(SOURCES).stated))
    code = f"import sys, {names}; print({{'matplotlib', 'pandas'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
