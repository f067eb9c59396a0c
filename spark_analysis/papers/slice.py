"""A slice of a paper in real time, beside virtual time: every protocol once, at one setting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from spark_analysis.measures.delay import DELAY_MEAN
from spark_analysis.measures.delivery import DELIVERY_RATIO
from spark_analysis.measures.load import LOAD_MEAN
from spark_analysis.papers.paper import Paper
from spark_analysis.report import page as report
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import NOTHING
from spark_analysis.report.text_table import TextTable

SHOWN: Final[Sequence[Metric]] = (DELIVERY_RATIO, DELAY_MEAN, LOAD_MEAN)
"""What both backends are shown by: all that one run of each can tell."""


def slice_table(paper: Paper, rows: pd.DataFrame, backends: Sequence[str]) -> TextTable:
    """Return what every protocol did on each backend; `rows` are summaries of runs."""
    head = ["scenario", "scheme"]
    for metric in SHOWN:
        title = metric.title[0].lower() + metric.title[1:]
        head += [f"{title}, {backend}" for backend in backends]
    protocols = paper.slice.protocols if paper.slice is not None else ()
    body = []
    for topology, of_topology in rows.groupby("topology", sort=True):
        for protocol in protocols:
            line = [str(topology), paper.names.get(protocol, protocol)]
            for metric in SHOWN:
                for backend in backends:
                    found = of_topology[
                        (of_topology["protocol"] == protocol) & (of_topology["backend"] == backend)
                    ][metric.column].dropna()
                    line.append(metric.text(float(found.iloc[0])) if len(found) else NOTHING)
            body.append(line)
    note = "One run each of the same scenario: placement, motion and workload are the same."
    return TextTable("Real time beside virtual time", note, head, body, words=2)


def write_slice(
    paper: Paper,
    rows: pd.DataFrame,
    backends: Sequence[str],
    problems: Sequence[str],
    path: Path,
) -> Path:
    """Write the page of a slice and return its path.  Raises OSError."""
    html = report.report_environment().get_template("slice.html").render(
        title=paper.title,
        citation=paper.citation,
        anchor=paper.anchor,
        backends=", ".join(backends),
        problems=problems,
        tables=[slice_table(paper, rows, backends)],
    )  # fmt: skip
    return report.write_html(path, html)
