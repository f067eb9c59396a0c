"""All measures: the tables of an analysis, and the numbers that pages show of a run.

A file of this folder that has `MEASURES` is found, and nothing else changes.  Reports list tables,
and have their text tables and figures, in the order of `MEASURES`: first those of `FIRST`, then the
others by the names of their files.  Pages have metrics in the order of `METRICS`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from spark_analysis.errors import AnalysisError
from spark_analysis.measures import (
    choices,
    delay,
    delivery,
    legs,
    load,
    lost,
    nodes,
    overhead,
    overlay,
    recovery,
    state,
    subscriptions,
    summary,
)
from spark_analysis.measures.measure import Measure, declared
from spark_analysis.report.metric import Metric

FIRST: Final = (
    *(summary, nodes, subscriptions, delivery, lost, recovery, delay, overhead, load, legs),
    *(overlay, choices, state),
)


_FIRST: Final[tuple[Measure, ...]] = tuple(
    measure for module in FIRST for measure in module.MEASURES
)
MEASURES: Final[tuple[Measure, ...]] = (
    *_FIRST,
    *(measure for measure in declared("MEASURES") if measure not in _FIRST),
)

METRICS: Final[tuple[Metric, ...]] = (
    delivery.DELIVERY_RATIO,
    delivery.RECEIVED,
    delivery.CENSORED,
    delay.DELAY_MEAN,
    delay.DELAY_P50,
    delay.DELAY_P90,
    delay.DELAY_P99,
    overhead.FRAMES_PER_DELIVERY,
    overhead.BYTES_PER_DELIVERY,
    overhead.EVENT_FRAMES_PER_EVENT,
    load.LOAD_MEAN,
    delay.HOPS_MEAN,
    delivery.DUPLICATES,
    delivery.UNEXPECTED,
    delivery.EVENTS_PUBLISHED,
    *summary.MEASURED,
)


def check_names() -> None:
    """Raise `AnalysisError` if several tables, or columns of the summary, share a name."""
    for what, names in (
        ("tables", [measure.table.name for measure in MEASURES]),
        ("columns of the summary", summary.SUMMARY.schema.names),
    ):
        for name, times in Counter(names).items():
            if times > 1:
                raise AnalysisError(f"{times} {what} are called {name}: rename one of them")
