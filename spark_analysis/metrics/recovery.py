"""Recovery time: from a fault until delivery is as before; mean over the faults of a run."""

from __future__ import annotations

import math
from typing import Final

from spark_analysis.jobs.recovery import rows
from spark_analysis.metric import MeasuredMetric, significant
from spark_analysis.recovering import RECOVERED
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Inputs, Measure

_COLUMN: Final = column(
    "recovery", DOUBLE, "s until delivery is as before, mean over faults that it recovers from"
)


def _means(inputs: Inputs) -> list[tuple[str, float]]:
    times: dict[str, list[float]] = {}
    for run, *_, recovery in inputs.once(rows):
        if recovery is not None:
            times.setdefault(run, []).append(recovery)
    return [(run, sum(each) / len(each)) for run, each in times.items()]


def _text(value: float) -> str:
    return significant(value) if math.isnan(value) else f"{significant(value)} s"


RECOVERY_TIME: Final = MeasuredMetric(
    column="recovery",
    title="Recovery time",
    caption=f"From a fault until delivery is {RECOVERED:.0%} of before; mean of each run's faults.",
    unit="s",
    text=_text,
    swept=True,
    heading="recovery",
    if_known=True,
    measure=Measure(
        make=lambda inputs: inputs.rows(_means(inputs), "run string, recovery double"),
        column=_COLUMN,
    ),
)
