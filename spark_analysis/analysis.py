"""From run folders to tables: `analyse`.

Captures are surveyed (what can be read, what is damaged) and decoded once (`materialise`); the
jobs then run over the frames of all runs together.  Every table is returned, and written to each
run's `metrics` folder, whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.runfolder import Run
from emulation.virtual.recording import captures
from spark_analysis.captures.air import air_captures, read_air
from spark_analysis.captures.materialise import materialise, read_frames, recorded
from spark_analysis.captures.runs import read_runs
from spark_analysis.captures.source import Capture, Survey, Surveyed, find_captures, survey
from spark_analysis.errors import AnalysisError, plain_errors
from spark_analysis.jobs.delivery import SETTLE
from spark_analysis.queries import captured_interfaces, queries
from spark_analysis.schemas import TABLES

Progress = Callable[[str, float], None]
"""Called with what is being done, and the share of the whole that is done already."""

_ORDER: Final = (
    *("run", "time", "from_ns", "publisher", "sequence", "receiver", "sender"),
    *("client", "node_id", "kind", "hops", "second"),
    *("access_point", "port", "direction", "traffic_class", "frame_class"),
)
"""Columns that tables are sorted by, where they have them."""


@dataclass(frozen=True)
class Analysis:
    """The tables of one or several runs, as pandas frames.

    Columns, with units, are those of the schema of the same name in `spark_analysis.schemas`
    (`SUMMARY` for `summary`, and so on); every table has a column `run`.  Nulls are pandas' own:
    NaN in numbers (which are float where a column has nulls), None in text and truth values.
    `problems` are one-line messages by run: files skipped or cut off, captures that are missing,
    an estimated time 0.
    """

    runs: tuple[Run, ...]
    problems: Mapping[str, tuple[str, ...]]
    summary: pd.DataFrame
    nodes: pd.DataFrame
    subscriptions: pd.DataFrame
    events: pd.DataFrame
    delivery: pd.DataFrame
    delivery_over_time: pd.DataFrame
    delay: pd.DataFrame
    delay_by_hops: pd.DataFrame
    overhead: pd.DataFrame
    load: pd.DataFrame
    links: pd.DataFrame
    counters: pd.DataFrame
    airtime: pd.DataFrame

    def of(self, run: Run) -> Analysis:
        """Return the analysis of one of the runs alone."""
        tables = {
            name: table[table["run"] == run.name].reset_index(drop=True)
            for name, table in ((name, getattr(self, name)) for name in TABLES)
        }
        return replace(self, runs=(run,), problems={run.name: self.problems[run.name]}, **tables)


def analyse(
    spark: SparkSession,
    folders: Sequence[Path],
    *,
    settle: float = SETTLE,
    width: float | None = None,
    progress: Progress = lambda what, share: None,
) -> Analysis:
    """Analyse run folders and write each one's `metrics`.

    Events published in the last `settle` seconds are told apart (`jobs.delivery`); `width` is that
    of the buckets over time in seconds, chosen by the length of the longest run unless given.
    Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    surveys: dict[str, Survey] = {}
    airs: dict[str, Survey] = {}
    for number, run in enumerate(runs):
        progress(f"looking through the captures of {run.name}", 0.1 * number / len(runs))
        surveys[run.name] = survey_of(run)
        airs[run.name] = survey(air_captures(run))
    with plain_errors():
        folders = []
        for number, run in enumerate(runs):
            progress(f"decoding the captures of {run.name}", 0.1 + 0.4 * number / len(runs))
            folders.append(_frames(spark, run, surveys[run.name]))
        frames = read_frames(spark, folders)
        air = read_air(spark, runs, airs)
        tables: dict[str, pa.Table] = {}
        with queries(spark, runs, surveys, frames, air, settle=settle, width=width) as asked:
            for number, (name, query) in enumerate(asked.items()):
                progress(f"working out {name}", 0.5 + 0.5 * number / len(asked))
                tables[name] = _collect(query)
    undecoded = {row["run"]: row["packets"] for row in tables.pop("undecoded").to_pylist()}
    unknown = {row["run"]: row["unknown"] for row in tables["summary"].to_pylist()}
    problems = {}
    for run in runs:
        problems[run.name] = (
            *run.problems,
            *surveys[run.name].problems.get(run.name, ()),
            *airs[run.name].problems.get(run.name, ()),
            *_missing(run, surveys[run.name]),
            *_strange(undecoded.get(run.name, 0), unknown[run.name]),
        )
    for run in runs:
        _write(run, tables)
    progress("done", 1.0)
    return Analysis(runs, problems, **{name: table.to_pandas() for name, table in tables.items()})


def summaries(
    spark: SparkSession, folders: Sequence[Path], *, settle: float = SETTLE
) -> pd.DataFrame:
    """Return the `SUMMARY` rows of several runs, and nothing else; writes nothing but frames.

    Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    surveys = {run.name: survey_of(run) for run in runs}
    with plain_errors():
        found = [_frames(spark, run, surveys[run.name]) for run in runs]
        frames = read_frames(spark, found)
        air = read_air(spark, [], {})  # the summary has nothing of it
        with queries(spark, runs, surveys, frames, air, settle=settle, width=None) as asked:
            return _collect(asked["summary"]).to_pandas()


def _frames(spark: SparkSession, run: Run, found: Survey) -> Path:
    """Return the folder of a run's frames: those that it recorded, else its captures, decoded."""
    return recorded(run) or materialise(spark, run, [each.capture for each in found.captures])


def survey_of(run: Run) -> Survey:
    """Return what captures there are; of a run without any, those that it would have written."""
    if recorded(run) is None:
        return survey(find_captures([run.captures]))
    paths = [run.captures / f"{interface}.pcap" for interface in captures(run.scenario)]
    return Survey(tuple(Surveyed(Capture(path), 0, 0, None) for path in paths), {})


def _missing(run: Run, survey: Survey) -> Iterator[str]:
    """Say which nodes are not captured, and which captures are of no node."""
    captured = captured_interfaces(survey)
    scenario = run.scenario
    names = [node.name for node in scenario.nodes]
    points = [point.name for point in scenario.access_points]
    by_radio = "what these nodes sent and received by radio is not counted"
    for interface, owners, lost in (
        (ACCESS, [node.name for node in scenario.stations], by_radio),
        (ACCESS, points, by_radio),
        (MESH, points, by_radio),
        (WIRED, [node.name for node in scenario.nodes if node.wired], "flow counters are alone"),
        ("lo", names, "what these nodes' clients published and received is not counted"),
    ):
        without = [name for name in owners if (name, interface) not in captured]
        if without:
            yield f"no capture of {interface} of {_listed(without)}: {lost}"
    strangers = sorted({node for node, _ in captured} - {*names, *points})
    if strangers:
        yield f"captures of nodes that are not in the scenario are left out: {_listed(strangers)}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _strange(undecoded: int, unknown: int) -> Iterator[str]:
    if undecoded:
        yield (
            f"{undecoded} packets to the node port are no whole frame (malformed, cut short or"
            " fragmented): they count as other traffic"
        )
    if unknown:
        yield f"{unknown} deliveries are of events whose PUBLISH is in no capture: not counted"


def _collect(query: DataFrame) -> pa.Table:
    """Run a query and return its rows in a fixed order, with the comments of its columns."""
    comments = [{"comment": str(field.metadata.get("comment", ""))} for field in query.schema]
    table = query.toArrow()
    keys = [(name, "ascending") for name in _ORDER if name in table.column_names]
    fields = zip(table.schema, comments, strict=True)
    schema = pa.schema([field.with_metadata(comment) for field, comment in fields])
    return table.sort_by(keys).cast(schema)


def _write(run: Run, tables: Mapping[str, pa.Table]) -> None:
    """Write the run's rows of each table, each file whole or not at all."""
    try:
        for name, table in tables.items():
            path = run.metrics / f"{name}.parquet"
            scratch = path.with_name(f".{path.name}-{os.getpid()}")
            pq.write_table(table.filter(pc.field("run") == run.name), scratch)
            scratch.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise AnalysisError(f"cannot write in {run.metrics}: {reason}") from None
