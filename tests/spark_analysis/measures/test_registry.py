"""One list of metrics serves all who show or compare some: nobody types a column or word twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from spark_analysis.agreement.measures import OWN
from spark_analysis.analysis import analyse_runs, tables_of
from spark_analysis.errors import AnalysisError
from spark_analysis.measures import registry, summary
from spark_analysis.measures.copies import COPIES
from spark_analysis.measures.registry import MEASURES, METRICS
from spark_analysis.measures.summary import SUMMARY
from tests.house import modules, strings, tree

ELSEWHERE = ("spark_analysis.measures.",)
"""Where the columns of the summary are made."""


def test_every_metric_is_of_a_column_and_listed_once() -> None:
    columns = [metric.column for metric in METRICS]
    assert len(set(columns)) == len(columns)
    assert set(columns) <= set(SUMMARY.schema.names)


def test_a_name_of_two_measures_is_refused_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.check_names()
    no_spark: Any = None
    table = {measure.table.name: measure for measure in MEASURES}["delivery"]
    columns = StructType([*SUMMARY.schema, COPIES.measure.column])
    for where, name, value, message in (
        (registry, "MEASURES", (*MEASURES, table), "2 tables are called delivery: rename one"),
        (summary, "SUMMARY", replace(SUMMARY, schema=columns), "y are called copies: re"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            with pytest.raises(AnalysisError, match=message):
                analyse_runs(no_spark, ())
            with pytest.raises(AnalysisError, match=message):
                tables_of(no_spark, [], [])


def test_a_metric_declares_how_it_tells_whether_backends_agree() -> None:
    assert {column: bound.share for column, bound in OWN.items()} == {
        "overlay_depth": 0.1,
        "overlay_links": 0.05,
        "event_frames_per_event": 0.05,
    }
    assert {bound.beside for bound in OWN.values()} <= {None, *SUMMARY.schema.names}
    assert all(metric.agreement is OWN.get(metric.column) for metric in METRICS)


def test_no_page_lists_columns_of_metrics_by_hand() -> None:
    tables = [measure.table for measure in MEASURES if measure.table is not SUMMARY]
    others = {table.name for table in tables} | {
        name for table in tables for name in table.schema.names
    }
    columns = {metric.column for metric in METRICS} - others
    assert {"delivery_ratio", "delay_p50", "load_mean", "overlay_depth"} <= columns
    typed = {
        module
        for module, path in modules().items()
        if module.startswith(("spark_analysis.", "testbed."))
        and not module.startswith(ELSEWHERE)
        # A paper's claims are about columns; what it shows of them is `Quantity.of` a metric.
        and not (module.startswith("spark_analysis.papers.") and module.count(".") > 2)
        and columns & set(strings(tree(path)))
    }
    assert typed == set()
