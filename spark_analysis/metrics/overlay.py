"""Overlays by interest: depth, false positives, size of tables; of runs that have an overlay."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_analysis.jobs.overlay import receptions
from spark_analysis.jobs.overlay_links import OVERLAY_LINKS
from spark_analysis.metric import AgreementBound, MeasuredMetric, significant
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Inputs, Measure


def _of_runs(
    inputs: Inputs, name: str, value: Callable[[list[tuple[Any, ...]]], float | None]
) -> DataFrame:
    """Return a number of each run, from its rows of `OVERLAY_RECEPTIONS`."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in inputs.once(receptions):
        rows.setdefault(row[0], []).append(row)
    found = [(run, value(of_run)) for run, of_run in rows.items()]
    return inputs.rows(found, f"run string, {name} double")


def _depth(rows: list[tuple[Any, ...]]) -> float | None:
    depths = [depth for *_, depth, wanted, _ in rows if wanted]
    return fmean(depths) if depths else None


OVERLAY_DEPTH: Final = MeasuredMetric(
    column="overlay_depth",
    measure=Measure(
        column=column("overlay_depth", DOUBLE, "overlay hops of wanted receptions; null: none"),
        make=lambda inputs: _of_runs(inputs, "overlay_depth", _depth),
    ),
    title="Delivery depth",
    caption="Overlay hops from the publisher to peers that want an event, mean.",
    unit="hops",
    text=significant,
    swept=True,
    if_known=True,
    heading="depth",
    # Depths are those of a few ways to each peer, which chance chooses: the bound is wide.
    agreement=AgreementBound("overlay hops", 0.1),
)
FALSE_POSITIVES: Final = MeasuredMetric(
    column="false_positives",
    measure=Measure(
        column=column("false_positives", DOUBLE, "receptions not wanted / all, of an overlay"),
        make=lambda inputs: _of_runs(
            inputs, "false_positives", lambda rows: fmean(not row[-2] for row in rows)
        ),
    ),
    title="False positives",
    caption="Of all peers that get an event, those of which no subscription matches it.",
    unit="%",
    scale=100.0,
    text=significant,
    swept=True,
    if_known=True,
    heading="false positives",
)
OVERLAY_TABLE: Final = MeasuredMetric(
    column="overlay_links",
    measure=Measure(
        column=column("overlay_links", DOUBLE, "links of a peer by heartbeats, mean"),
        make=lambda inputs: (
            inputs.of(OVERLAY_LINKS).groupBy("run").agg(sf.mean("links").alias("overlay_links"))
        ),
    ),
    title="Routing table",
    caption="Peers that a peer sends heartbeats to, mean over peers and time.",
    unit="links",
    text=significant,
    swept=True,
    if_known=True,
    heading="links",
    agreement=AgreementBound("links of a peer", 0.05),
)
