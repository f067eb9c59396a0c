"""Unnecessary messages of a subscriber's choice among rendezvous cells, beside their bound."""

from __future__ import annotations

from typing import Final

from spark_analysis.jobs.choices import CHOICES
from spark_analysis.jobs.columns import mean_a_run
from spark_analysis.metric import MeasuredMetric, significant
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Measure

UNNECESSARY_BOUND: Final = MeasuredMetric(
    column="unnecessary_bound",
    measure=Measure(
        column=column("unnecessary_bound", DOUBLE, "what `unnecessary_messages` should come to"),
        make=lambda inputs: mean_a_run(inputs.of(CHOICES), "bound", "unnecessary_bound"),
    ),
    title="Bound of unnecessary messages",
    caption="3(n - 1) messages a choice among n rendezvous cells, with one filter and one "
    "publisher; (n - 1)(filters + 2 publishers) with more of them.",
    unit="messages",
    text=significant,
    if_known=True,
)
UNNECESSARY_MESSAGES: Final = MeasuredMetric(
    column="unnecessary_messages",
    measure=Measure(
        column=column("unnecessary_messages", DOUBLE, "messages a choice of a rendezvous cell"),
        make=lambda inputs: mean_a_run(inputs.of(CHOICES), "unnecessary", "unnecessary_messages"),
    ),
    title="Unnecessary messages",
    caption="Subscriptions, notifications and prunes at rendezvous cells that a subscriber tried "
    "and did not choose; mean of its choices.",
    unit="messages",
    text=significant,
    swept=True,
    if_known=True,
    tile="Unnecessary messages",
    detail=lambda tables: (
        "a choice among rendezvous cells; by the bound, "
        f"{significant(tables.value(UNNECESSARY_BOUND.column))}"
    ),
    heading="unnecessary messages, of the bound",
    of=UNNECESSARY_BOUND.column,
)
