"""State of a node: how many entries it keeps, and how many bytes."""

from __future__ import annotations

from typing import Final

from spark_analysis.jobs.columns import mean_a_run
from spark_analysis.jobs.state import STATE
from spark_analysis.metric import MeasuredMetric, significant, to_units
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Measure

STATE_BYTES: Final = MeasuredMetric(
    column="state_bytes",
    measure=Measure(
        column=column("state_bytes", DOUBLE, "bytes in which these were told, mean"),
        make=lambda inputs: mean_a_run(inputs.of(STATE), "bytes", "state_bytes"),
    ),
    title="State of a node, bytes",
    caption="Bytes of the neighbours, advertisements and subscriptions that a node keeps, as told; "
    "mean over nodes and time.",
    unit="bytes",
    text=to_units,
    swept=True,
    if_known=True,
    heading="bytes a node",
)
STATE_ENTRIES: Final = MeasuredMetric(
    column="state_entries",
    measure=Measure(
        column=column("state_entries", DOUBLE, "entries that a node keeps, mean; null: not known"),
        make=lambda inputs: mean_a_run(inputs.of(STATE), "entries", "state_entries"),
    ),
    title="State of a node",
    caption="Neighbours, advertisements and subscriptions that a node keeps, mean over nodes and "
    "time.",
    unit="entries",
    text=significant,
    swept=True,
    if_known=True,
    tile="State of a node",
    detail=lambda tables: (
        "neighbours, advertisements and subscriptions, mean; told in "
        f"{to_units(tables.value(STATE_BYTES.column))} bytes"
    ),
    heading="entries a node",
)
