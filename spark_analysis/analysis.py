"""From run folders to tables: `analyse`, and for sweeps `tables_of`.

Captures are surveyed (what can be read, what is damaged) and decoded once (`materialise`); the
queries of all measures then run over the frames of all runs together.  Every table is returned, and
written to each run's `metrics` folder, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from emulation.backends.virtual import VirtualBackend
from emulation.errors import RunFolderError
from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.runfolder import Run, read_run
from emulation.virtual.recording import captures
from emulation.whole import whole
from nodeapp.budget import FRAMES
from spark_analysis.captures.air import air_captures, read_air
from spark_analysis.captures.files import Capture, find_captures
from spark_analysis.captures.foreign import read_foreign
from spark_analysis.captures.materialise import frames_of, is_recorded, materialise, recorded
from spark_analysis.captures.source import Survey, Surveyed, survey
from spark_analysis.engine.results import Analysis
from spark_analysis.engine.session import plain_errors
from spark_analysis.engine.tables import Inputs, Table, as_declared
from spark_analysis.engine.tuning import few, gathered, tuned
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.nodes import captured_interfaces
from spark_analysis.measures.packets import UNDECODED
from spark_analysis.measures.registry import MEASURES, check_names
from spark_analysis.measures.summary import SUMMARY
from spark_analysis.measures.versions import marked
from spark_analysis.report.quantities import listed


def frames_folder(
    spark: SparkSession,
    run: Run,
    surveyed: Survey,
    problem: Callable[[str], None] = lambda text: None,
) -> Path:
    """Return the folder of a run's frames: those that it recorded, else its captures, decoded.

    Damage that was repaired is reported to `problem`.
    """
    captures = [readable.capture for readable in surveyed.captures]
    return recorded(run) or materialise(spark, run, captures, problem=problem)


def survey_of(run: Run) -> Survey:
    """Survey a run's captures; for a run without any, those that it would have written."""
    if not is_recorded(run):
        return survey(find_captures([run.captures]))
    folder = run.captures
    paths = [folder / f"{interface}.pcap" for interface in captures(run.scenario)]
    return Survey(tuple(Surveyed(Capture(path), 0, 0, None) for path in paths), {})


def rows_of(inputs: Inputs, table: Table) -> pa.Table:
    """Make a table and return its rows, sorted, with the comments of its columns.

    Raises `AnalysisError` if its query makes other columns than it declares.
    """
    rows = as_declared(inputs.collected(table), table.schema, f"table {table.name}")
    ascending: Literal["ascending"] = "ascending"
    return rows.sort_by([(name, ascending) for name in ("run", *table.order)])


Progress = Callable[[str, float], None]
"""Called with the current step, and the share of the whole that is done already."""


def analyse(
    spark: SparkSession,
    folders: Sequence[Path],
    *,
    progress: Progress = lambda what, share: None,
) -> Analysis:
    """Analyse run folders and write each one's `metrics`.

    Events published in the last `measures.runs.SETTLE` seconds are told apart.
    Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    return analyse_runs(spark, runs, progress=progress)


def analyse_runs(
    spark: SparkSession,
    runs: tuple[Run, ...],
    *,
    progress: Progress = lambda what, share: None,
) -> Analysis:
    """Analyse runs that have been read, as `analyse` does."""
    check_names()
    surveys: dict[str, Survey] = {}
    airs: dict[str, Survey] = {}
    for number, run in enumerate(runs):
        progress(f"looking through the captures of {run.name}", 0.1 * number / len(runs))
        surveys[run.name] = survey_of(run)
        airs[run.name] = survey(air_captures(run))
    damaged: dict[str, list[str]] = {run.name: [] for run in runs}
    with plain_errors():
        folders = []
        for number, run in enumerate(runs):
            progress(f"decoding the captures of {run.name}", 0.1 + 0.4 * number / len(runs))
            problem = damaged[run.name].append
            folders.append(frames_folder(spark, run, surveys[run.name], problem))
        air = read_air(spark, runs, airs, lambda name, text: damaged[name].append(text))
        tables: dict[str, pa.Table] = {}
        with _prepared(spark, runs, surveys, folders, air) as inputs:
            # The summary last: it is made of most others, which are kept by then.
            for number, (table, _) in enumerate(
                sorted(MEASURES, key=lambda measure: measure.table is SUMMARY)
            ):
                progress(f"working out {table.name}", 0.5 + 0.5 * number / len(MEASURES))
                tables[table.name] = rows_of(inputs, table)
            undecoded = {row.run: row.packets for row in inputs.of(UNDECODED).collect()}
    unknown = {row["run"]: row["unknown"] for row in tables["summary"].to_pylist()}
    problems = {}
    for run in runs:
        problems[run.name] = (
            *run.problems,
            *damaged[run.name],
            *surveys[run.name].problems.get(run.name, ()),
            *airs[run.name].problems.get(run.name, ()),
            *_missing(run, surveys[run.name]),
            *_strange(undecoded.get(run.name, 0), unknown[run.name]),
            *_beyond_budget(run, tables["load"]),
        )
    # A sweep takes over the summary of its point.
    to_write = tables | {SUMMARY.name: marked(tables[SUMMARY.name])}
    for run in runs:
        _write(run, to_write)
    progress("done", 1.0)
    pandas_tables = {name: table.to_pandas() for name, table in tables.items()}
    return Analysis(runs, problems, pandas_tables)


def _missing(run: Run, survey: Survey) -> Iterator[str]:
    """Yield a line for nodes that are not captured, and for captures that belong to no node."""
    captured = captured_interfaces(survey)
    scenario = run.scenario
    names = [node.name for node in scenario.nodes]
    points = [point.name for point in scenario.access_points]
    by_radio = "what these nodes sent and received by radio is not counted"
    on_switch = scenario.wire is not None
    by_wire = "what these hosts sent is not counted" if on_switch else "flow counters are unchecked"
    for interface, owners, lost in (
        (ACCESS, [node.name for node in scenario.stations], by_radio),
        (ACCESS, points, by_radio),
        (MESH, points, by_radio),
        (WIRED, [node.name for node in scenario.nodes if node.wired], by_wire),
        ("lo", names, "what these nodes' clients published and received is not counted"),
    ):
        without = [name for name in owners if (name, interface) not in captured]
        if without:
            yield f"no capture of {interface} of {listed(without)}: {lost}"
    strangers = sorted({node for node, _ in captured} - {*names, *points})
    if strangers:
        yield f"captures of nodes that are not in the scenario are left out: {listed(strangers)}"


def _strange(undecoded: int, unknown: int) -> Iterator[str]:
    if undecoded:
        yield (
            "packets to the node port that are not whole frames (malformed, cut short, fragmented)"
            f" count as other traffic: {undecoded}"
        )
    if unknown:
        yield f"deliveries of events whose PUBLISH is in no capture are not counted: {unknown}"


def _beyond_budget(run: Run, load: pa.Table) -> Iterator[str]:
    """Yield a line for each node that sent more in a second than node apps take from a neighbour.

    A neighbour hears one of the two radios of a broker behind an access point, and both send each
    broadcast: the busier one counts.
    """
    if run.record is None or run.record.backend == VirtualBackend.name:
        return
    mine = load.filter((pc.field("run") == run.name) & (pc.field("sent_frames") > FRAMES))
    beyond: dict[str, int] = {}
    for row in mine.select(["node", "sent_frames", "mesh_frames"]).to_pylist():
        heard = max(row["mesh_frames"], row["sent_frames"] - row["mesh_frames"])
        if heard > FRAMES:
            beyond[row["node"]] = beyond.get(row["node"], 0) + heard - FRAMES
    for node, frames in sorted(beyond.items()):
        yield (
            f"{node} sent more than the {FRAMES} frames a second that node apps take from a "
            f"neighbour: they drop the rest, {frames} in all"
        )


def _write(run: Run, tables: Mapping[str, pa.Table]) -> None:
    """Write the run's rows of each table."""
    try:
        for name, table in tables.items():
            rows = table.filter(pc.field("run") == run.name)
            with whole(run.metrics / f"{name}.parquet") as unfinished:
                pq.write_table(rows, unfinished)
    except OSError as error:
        reason = error.strerror or str(error)
        raise AnalysisError(f"cannot write in {run.metrics}: {reason}") from None


def tables_of(
    spark: SparkSession, folders: Sequence[Path], tables: Sequence[Table]
) -> list[pa.Table]:
    """Return the rows of tables of several runs, for sweeps; writes nothing but frames.

    Raises `AnalysisError`.
    """
    check_names()
    runs = read_runs(folders)
    surveys = {run.name: survey_of(run) for run in runs}
    with plain_errors():
        frames_folders = [frames_folder(spark, run, surveys[run.name]) for run in runs]
        air = read_air(spark, [], {})  # the summary needs none of it
        with _prepared(spark, runs, surveys, frames_folders, air) as inputs:
            return [rows_of(inputs, table) for table in tables]


@contextmanager
def _prepared(
    spark: SparkSession,
    runs: Sequence[Run],
    surveys: Mapping[str, Survey],
    folders: Sequence[Path],
    air: DataFrame,
) -> Iterator[Inputs]:
    """Yield what tables are made of, with Spark tuned to the frames in `folders`."""
    foreign = read_foreign(spark, runs, surveys)
    with frames_of(spark, folders) as all_frames, tuned(spark, folders):
        frames = gathered(all_frames, folders)
        inputs = Inputs(spark, runs, surveys, frames, air, few(folders), foreign)
        with inputs.kept():
            yield inputs


def read_runs(paths: Iterable[Path]) -> tuple[Run, ...]:
    """Return several runs, each once.

    Raises `AnalysisError` if one cannot be read, or two have the same name.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        try:
            run = read_run(path)
        except RunFolderError as error:
            raise AnalysisError(str(error)) from None
        other = runs.setdefault(run.name, run)
        if other.path != run.path:
            raise AnalysisError(f"{other.path} and {run.path} have the same name: rename one")
    if not runs:
        raise AnalysisError("no run folder given")
    return tuple(runs.values())
