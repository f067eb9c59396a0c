"""Overlays by interest: depth, stretch, false positives and tables; of runs with an overlay."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Final

from pyspark.sql import DataFrame

from spark_analysis.jobs.columns import mean_a_run
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
    depths = [depth for *_, depth, _, wanted, _ in rows if wanted]
    return fmean(depths) if depths else None


def stretch(inputs: Inputs) -> DataFrame:
    """Return run and overlay_stretch: radio hops over overlay hops, of runs on the radio."""
    radio = {run.name for run in inputs.runs if run.scenario.wire is None}
    sums: dict[str, list[int]] = {}
    for run, _, _, _, depth, hops, wanted, _ in inputs.once(receptions):
        if wanted and run in radio:
            of_run = sums.setdefault(run, [0, 0])
            of_run[0] += hops
            of_run[1] += depth
    found = [(run, hops / depth) for run, (hops, depth) in sums.items()]
    return inputs.rows(found, "run string, overlay_stretch double")


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
OVERLAY_STRETCH: Final = MeasuredMetric(
    column="overlay_stretch",
    measure=Measure(
        column=column(
            "overlay_stretch", DOUBLE, "radio hops an overlay hop of wanted receptions; null: wired"
        ),
        make=stretch,
    ),
    title="Overlay stretch",
    caption="Radio hops of events on their way to peers that want them, over the overlay hops of "
    "that way; none on a wired network.",
    unit="radio hops",
    text=significant,
    swept=True,
    if_known=True,
    tile="Overlay stretch",
    detail=lambda tables: (
        "radio hops an overlay hop, of events on their way to peers that want them"
    ),
    heading="radio hops an overlay hop",
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
        make=lambda inputs: mean_a_run(inputs.of(OVERLAY_LINKS), "links", "overlay_links"),
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
