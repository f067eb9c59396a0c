"""Versions of measures: raised with their queries, and left alone with their words."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from nodeapp.installation import PROJECT
from spark_analysis.engine.code import Module, Sources, read_sources
from spark_analysis.measures import __main__ as measures_command
from spark_analysis.measures import versions
from spark_analysis.measures.registry import MEASURES
from spark_analysis.measures.summary import MEASURED
from spark_analysis.measures.versions import Files, differences, renewed, summary_versions

SOURCES: Final = read_sources(PROJECT)
FOLDER: Final = "spark_analysis.measures"


Edit = tuple[str, str, str]
"""A measure, and a text of it to replace by another one."""


@functools.cache
def files() -> Files:
    return Files(SOURCES)


def edited(edits: Sequence[Edit]) -> dict[str, Module]:
    """Return the sources with texts of measures replaced, each of which must be there once."""
    sources = dict(SOURCES)
    for measure, old, new in edits:
        name = f"{FOLDER}.{measure}"
        text = sources[name].text
        assert text.count(old) == 1, f"{name} has changed: {old!r}"
        sources[name] = replace(sources[name], text=text.replace(old, new))
    return sources


def outdated(sources: Sources) -> list[str]:
    return [name.removeprefix(f"{FOLDER}.") for name in Files(sources).outdated()]


def test_versions_were_raised_with_their_queries() -> None:
    assert files().outdated() == [], "python -m spark_analysis.measures --renew (or --same-rows)"


def test_every_query_is_in_a_file_with_a_version() -> None:
    queries = [*(measure.table for measure in MEASURES), *(metric.measure for metric in MEASURED)]
    assert {query.make.__module__ for query in queries} <= files().stated.keys()


@pytest.mark.parametrize(
    "edits",
    [
        [
            ("delay", 'sf.max("delay").alias("max")', 'sf.min("delay").alias("max")'),
            ("copies", 'column("copies", DOUBLE,', 'column("copies", INT,'),
            ("recovery", "RECOVERED: Final = 0.95", "RECOVERED: Final = 0.9"),
        ],
        [
            ("delay", 'QUANTILES: Final = {"p50": 0.5,', 'QUANTILES: Final = {"p50": 0.51,'),
            ("copies", 'sf.mean(sf.col("times") - 1)', 'sf.mean("times")'),
            ("load", "count_if(sent & (sf.col", "count_if(received & (sf.col"),
        ],
        [
            ("columns", "sf.lit(1e9)", "sf.lit(1e6)"),
            ("runs", "SETTLE: Final = 2.0", "SETTLE: Final = 3.0"),
        ],
        [("summary", '"frames_per_event": _ratio(frames, events)', '"frames_per_event": frames')],
    ],
)
def test_another_query_or_schema_makes_its_version_outdated(edits: list[Edit]) -> None:
    assert outdated(edited(edits)) == sorted(measure for measure, *_ in edits)


WORDS: Final[Sequence[Edit]] = (
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
)


def test_words_and_what_is_shown_do_not() -> None:
    assert outdated(edited(WORDS)) == [], [edit for edit in WORDS if outdated(edited([edit]))]


def test_what_queries_use_of_the_analysis_has_a_version_of_its_own_or_none() -> None:
    used = {
        origin.rpartition(".")[0]
        for name, indices in files().needed.items()
        for origin in files().origins(name, indices)
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


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_command_tells_and_renews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = python("-m", "spark_analysis.measures")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    folder = tmp_path / "spark_analysis"
    folder.mkdir()
    shutil.copy(PROJECT / "spark_analysis" / "__init__.py", folder)
    shutil.copytree(PROJECT / "spark_analysis" / "measures", folder / "measures")
    monkeypatch.setattr(measures_command, "PROJECT", tmp_path)

    def command(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["measures", *options])
        code = measures_command.main()
        return code, "".join(capsys.readouterr())

    def version() -> Mapping[str, str]:
        match = re.search(r'Version\((?P<number>\d+), "(?P<code>\w+)"', file.read_text())
        assert match is not None
        return match.groupdict()

    file = folder / "measures" / "copies.py"
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
    names = ", ".join(sorted(files().stated))
    code = f"import sys, {names}; print({{'matplotlib', 'pandas'}} & set(sys.modules))"
    assert python("-c", code).stdout == "set()\n"
