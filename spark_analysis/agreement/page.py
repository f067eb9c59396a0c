"""From the run folders of a comparison to its page and its `agreement.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np
import pandas as pd

from emulation.whole import write_text
from spark_analysis.agreement import figures as agreement_figures
from spark_analysis.agreement import text as agreement_text
from spark_analysis.agreement.agreement import LEAST_REPEATS, Agreement, compare
from spark_analysis.agreement.measures import Side, measure
from spark_analysis.engine.session import plain_errors, spark_session
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.stages import on_air, split, stages, steps
from spark_analysis.report import page as report
from spark_analysis.report.figures import Array
from spark_analysis.report.scenario_text import plain
from spark_analysis.reports import REPORT, write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analysis.engine.results import Analysis

STEM: Final = "agreement"
"""Stem of the files' names; with several pairs, the names of the backends follow."""


@dataclass(frozen=True)
class WrittenComparison:
    """A comparison and its page."""

    agreement: Agreement
    page: Path


def agree_and_report(
    folders: Sequence[Sequence[Path]],
    names: Sequence[str],
    out: Path,
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> list[WrittenComparison]:
    """Compare all repeats of the first backend with those of each other backend.

    `folders` has the folders of each repeat in the order of `names`.  Writes a page and the numbers
    of each pair, and each run's report.  Raises `AnalysisError`.
    """
    progress("starting Spark", 0.0)
    with spark_session() as spark:
        agreements, analysis = read_agreements(spark, folders, names, progress)
    written = []
    try:
        for index, run in enumerate(analysis.runs):
            progress(f"writing the report of {run.name}", 0.9 + 0.1 * index / len(analysis.runs))
            write_report(analysis, run)
        for agreement in agreements:
            both = (agreement.first.name, agreement.second.name)
            stem = STEM if len(agreements) == 1 else "-".join((STEM, *both)).replace(" ", "-")
            write_result(agreement, out / f"{stem}.json")
            written.append(
                WrittenComparison(agreement, write_page(agreement, analysis, out / f"{stem}.html"))
            )
    except OSError as error:
        raise AnalysisError(f"cannot write a report: {error.strerror}: {error.filename}") from None
    progress("done", 1.0)
    return written


def write_page(agreement: Agreement, analysis: Analysis, path: Path) -> Path:
    """Write the page beside the run folders and return its path.  Raises OSError."""
    compared = {run.run for side in (agreement.first, agreement.second) for run in side.runs}
    scenario = analysis.runs[0].scenario
    parameters = {**scenario.topology_parameters, **scenario.protocol.parameters}
    html = report.report_environment().get_template("agreement.html").render(
        title=f"{scenario.topology} · {scenario.protocol.name}",
        names=(agreement.first.name, agreement.second.name),
        facts=[
            ("backends", f"{agreement.first.name}, {agreement.second.name}"),
            ("repeats", str(len(agreement.first.runs))),
            ("nodes", str(len(scenario.nodes))),
            ("duration", f"{scenario.duration:g} s"),
            ("seeds", f"{scenario.seed} and following"),
        ],
        verdict=agreement_text.verdict(agreement),
        reasons=agreement_text.reasons(agreement),
        figures=report.numbered(
            agreement_figures.drawings(
                agreement, _delays(agreement, analysis), pairs(agreement, analysis)
            )
        ),
        tables=[
            agreement_text.comparison_table(agreement),
            agreement_text.stage_table(agreement),
            agreement_text.runs_table(agreement),
        ],
        parameters=[(name, plain(value)) for name, value in parameters.items()],
        numbers=path.with_suffix(".json").name,
        runs=[
            (run.name, quote(f"{run.name}/{REPORT}"), analysis.problems[run.name])
            for run in analysis.runs
            if run.name in compared
        ],
    )  # fmt: skip
    return write_text(path, html)


def _delays(agreement: Agreement, analysis: Analysis) -> list[Array]:
    """Return the delays of deliveries to other nodes, all counted repeats of a side together."""
    remote = analysis.table("delay")
    remote = remote[~remote["local"].eq(True)]
    return [
        np.asarray(remote[remote["run"].isin([run.run for run in side.runs])]["delay"], dtype=float)
        for side in agreement.sides
    ]


def pairs(agreement: Agreement, analysis: Analysis) -> pd.DataFrame:
    """Return the deliveries that both sides made, over equally many hops, in counted repeats.

    Columns: repeat (from 0), publisher, sequence, receiver, hops and difference: the first side's
    delay less the second's, seconds.
    """
    same = ["publisher", "sequence", "receiver"]
    remote = analysis.table("delay")
    remote = remote[~remote["local"].eq(True)].sort_values("delay")
    by_repeat = []
    for repeat in agreement.counted:
        first, second = (
            remote[remote["run"] == side.runs[repeat].run].drop_duplicates(same)
            for side in (agreement.first, agreement.second)
        )
        both = first.merge(second, on=[*same, "hops"], suffixes=("_first", "_second"))
        both["difference"] = both["delay_first"] - both["delay_second"]
        by_repeat.append(both.assign(repeat=repeat)[["repeat", *same, "hops", "difference"]])
    return pd.concat(by_repeat, ignore_index=True)


def write_result(agreement: Agreement, path: Path) -> None:
    """Write all numbers as JSON, NaN as null.  Raises OSError."""
    value = {
        "outcome": str(agreement.outcome),
        "backends": [agreement.first.name, agreement.second.name],
        "criteria": [
            asdict(c) | {"ok": c.ok, "answer": str(c.answer), "needed": c.needed}
            for c in agreement.criteria
        ],
        "kinds": {kind: asdict(quantity) for kind, quantity in agreement.kinds.items()},
        "delay": asdict(agreement.delay),
        "in_nodes": asdict(agreement.in_nodes),
        "repeats": len(agreement.first.runs),
        "counted": list(agreement.counted),
        "runs": {
            side.name: [asdict(run) for run in side.runs]
            for side in (agreement.first, agreement.second)
        },
    }
    write_text(path, json.dumps(report.finite(value), indent=1) + "\n")


def read_agreements(
    spark: SparkSession,
    folders: Sequence[Sequence[Path]],
    names: Sequence[str],
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> tuple[list[Agreement], Analysis]:
    """Analyse the run folders of all repeats in one session; return comparisons and analysis.

    `folders` has those of each repeat in the order of `names`; the first backend is compared with
    each of the others.  Raises `AnalysisError`.
    """
    from spark_analysis.analysis import analyse

    if len(folders) < LEAST_REPEATS:
        raise AnalysisError(f"at least {LEAST_REPEATS} repeats are needed, not {len(folders)}")
    every = [folder for repeat in folders for folder in repeat]
    analysis = analyse(spark, every, progress=lambda what, share: progress(what, 0.7 * share))
    progress("following every delivery through the captures", 0.7)
    with plain_errors():
        tables = _tables(spark, analysis)
    of_runs = [measure(run, analysis, tables) for run in analysis.runs]
    first, *others = (
        Side(name, tuple(of_runs[index :: len(names)])) for index, name in enumerate(names)
    )
    return [compare(first, second) for second in others], analysis


def _tables(spark: SparkSession, analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return `STAGES`, `SPLIT` and `ON_AIR` of all runs."""
    from pyspark.sql.types import StructType

    from spark_analysis.captures.materialise import FRAMES_FOLDER, read_frames
    from spark_analysis.engine.tuning import gathered, tuned
    from spark_analysis.measures.delay import DELAY, DELIVERY_KEY
    from spark_analysis.measures.nodes import NODES
    from spark_analysis.measures.packets import radio_packets

    folders = [run.metrics / FRAMES_FOLDER for run in analysis.runs]
    frames = gathered(read_frames(spark, folders), folders)
    nodes = spark.createDataFrame(analysis.table("nodes")[NODES.schema.fieldNames()], NODES.schema)
    runs = spark.createDataFrame(analysis.table("summary")[["run", "epoch_ns", "duration"]])
    # Deliveries that were not expected, around a fault, have no delay in the tables either.
    key = ["run", *DELIVERY_KEY]
    schema = StructType([DELAY.schema[name] for name in key])
    counted = spark.createDataFrame(analysis.table("delay")[key], schema)
    with tuned(spark, folders):
        traced = steps(frames, nodes).join(counted, key, "semi").cache()
        try:
            return {
                "stages": stages(traced).toPandas(),
                "split": split(traced).toPandas(),
                "on_air": on_air(radio_packets(frames, nodes), runs).toPandas(),
            }
        finally:
            traced.unpersist()
