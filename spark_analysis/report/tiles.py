"""The key figures of one run, and what is said below each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from spark_analysis.metric import Metric
from spark_analysis.result import RunTables


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    label: str
    value: str
    detail: str = ""


def tiles(tables: RunTables, metrics: Iterable[Metric]) -> list[Tile]:
    """Return the key figures; of metrics that only some runs have a value of, if this one has."""
    return [
        Tile(metric.tile, metric.text(tables.value(metric.column)), metric.detail(tables))
        for metric in metrics
        if metric.tile is not None
        and not (metric.if_known and math.isnan(tables.value(metric.column)))
    ]
