"""The metrics of columns that the summary has, with what is said below their tiles.

A new one is an entry here and in `METRICS`, or, if the summary does not have its column, a file:
`spark_analysis.metrics.measured`.  Pages have them in the order of `METRICS`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from spark_analysis.metric import AgreementBound, Metric
from spark_analysis.metrics.measured import MEASURED
from spark_analysis.metrics.overlay import OVERLAY_DEPTH
from spark_analysis.metrics.summary import LATE
from spark_analysis.report.quantities import count, number, quantity, seconds, share
from spark_analysis.report.text_table import zero
from spark_analysis.report.traffic_text import roles
from spark_analysis.result import RunTables


def _delivered(tables: RunTables) -> str:
    value = tables.value
    settled = (
        f" (events of the last {seconds(value('settle'))} not counted)"
        if value("events_settled") < value("events")
        else ""
    )
    return (
        f"{count(zero(value('received')))} of {count(zero(value('expected')))} "
        f"expected deliveries{settled}{_remote(tables)}{_cut_off(tables)}"
    )


def _remote(tables: RunTables) -> str:
    """Return the ratio without clients at the publisher's own node, if there are any."""
    remote = tables.value("expected_remote")
    if not remote < tables.value("expected"):
        return ""
    return f"; {share(tables.value('delivery_ratio_remote'))} of {count(remote)} at other nodes"


def _cut_off(tables: RunTables) -> str:
    """Return how many deliveries the end of the run may have cut off, if any."""
    censored = tables.value("censored")
    if not censored > 0:
        return ""
    return f"; {count(censored)} of those missing had less than {seconds(LATE)} left"


def _counted(tables: RunTables) -> str:
    hops = tables.value("hops_mean")
    return f"{count(zero(tables.value('delay_count')))} deliveries to other nodes" + (
        f", {number(hops)} hops on average" if math.isfinite(hops) else ""
    )


def _frames(tables: RunTables) -> str:
    value = tables.value
    frames = sum(zero(value(name)) for name in ("event_frames", "control_frames"))
    carrying = value("event_frames_per_delivery")
    return f"{count(frames)} frames sent, {count(zero(value('received_all')))} deliveries" + (
        f"; {number(carrying)} with the event itself" if math.isfinite(carrying) else ""
    )


def _strangers(tables: RunTables) -> str:
    unknown = tables.value("unknown")
    return "clients notified of an event that nothing they subscribed to matches" + (
        f"; {count(unknown)} without captured PUBLISH" if unknown > 0 else ""
    )


def _published(tables: RunTables) -> str:
    topics = tables.table("events")["topic"].nunique()
    publishers, subscribers = roles(tables)
    return (
        f"on {count(topics)} topic{'' if topics == 1 else 's'}; nodes with publishers: "
        f"{count(len(publishers))}, with subscribers: {count(len(subscribers))}"
    )


DELIVERY_RATIO: Final = Metric(
    column="delivery_ratio",
    title="Delivery",
    caption="Deliveries made out of those expected, events published early enough before the end.",
    unit="% of deliveries",
    scale=100.0,
    top=100.0,
    text=share,
    swept=True,
    tile="Delivery ratio",
    detail=_delivered,
    heading="delivery ratio",
    terminal="delivery {value} % ({received:.0f} of {expected:.0f})",
)
RECEIVED: Final = Metric(
    column="received",
    title="Deliveries",
    caption="Deliveries made, of events published early enough before the end.",
    unit="deliveries",
    text=count,
    heading="received of expected",
    of="expected",
)
CENSORED: Final = Metric(
    column="censored",
    title="Cut off by the end",
    caption=f"Deliveries not made of events published less than {LATE:g} s before the end of the "
    "run: they may have been on their way.",
    unit="deliveries",
    text=count,
    of="expected_late",
)
DELAY_MEAN: Final = Metric(
    column="delay_mean",
    title="Mean delay",
    caption="From PUBLISH to NOTIFY, mean of the deliveries made.",
    unit="ms",
    scale=1000.0,
    text=seconds,
)
DELAY_P50: Final = Metric(
    column="delay_p50",
    title="Median delay",
    caption="From PUBLISH at the publisher's node to NOTIFY at the subscriber's, deliveries to "
    "other nodes; median of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    swept=True,
    tile="Median delay",
    detail=_counted,
    heading="median delay",
    terminal="delay {value} ms median",
)
DELAY_P90: Final = Metric(
    column="delay_p90",
    title="90th percentile of the delay",
    caption="One delivery in ten takes longer; of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    swept=True,
)
DELAY_P99: Final = Metric(
    column="delay_p99",
    title="99th percentile of the delay",
    caption="One delivery in a hundred takes longer; of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    tile="99th percentile of delay",
    detail=lambda tables: f"longest {seconds(tables.value('delay_max'))}",
    heading="p99 delay",
    terminal="{value} ms p99",
)
FRAMES_PER_DELIVERY: Final = Metric(
    column="frames_per_delivery",
    title="Frames per delivery",
    caption="Frames sent on all radios, event and control, for one delivery.",
    unit="frames",
    text=number,
    swept=True,
    tile="Frames per delivered event",
    detail=_frames,
    heading="frames per delivery",
    terminal="{value} frames per delivery",
)
BYTES_PER_DELIVERY: Final = Metric(
    column="bytes_per_delivery",
    title="Bytes per delivery",
    caption="Bytes sent on all radios, event and control, for one delivery.",
    unit="bytes",
    text=partial(quantity, unit="B"),
    heading="bytes per delivery",
)
EVENT_FRAMES_PER_EVENT: Final = Metric(
    column="event_frames_per_event",
    title="Event frames per event",
    caption="Frames that carry an event, for one published event.",
    unit="frames",
    text=number,
    swept=True,
    agreement=AgreementBound("messages of an event", 0.05, beside=OVERLAY_DEPTH.column),
)
LOAD_MEAN: Final = Metric(
    column="load_mean",
    title="Load of a node",
    caption="Bytes a second that a node sends by radio, from the Ethernet header; mean of the "
    "nodes.",
    unit="bytes/s",
    text=partial(quantity, unit="B/s"),
    swept=True,
    tile="Load per node",
    detail=lambda tables: (
        f"sent by radio, mean; busiest node {quantity(tables.value('load_max'), 'B/s')}"
    ),
    heading="load per node",
)
HOPS_MEAN: Final = Metric(
    column="hops_mean",
    title="Radio hops",
    caption="Hops of a delivery to another node; mean of each run.",
    unit="hops",
    text=number,
    swept=True,
)
DUPLICATES: Final = Metric(
    column="duplicates",
    title="Duplicates",
    caption="Notifications beyond the first of an event to a client.",
    unit="notifications",
    text=count,
    tile="Duplicates",
    detail=lambda tables: "notifications beyond the first to a client",
    heading="duplicates",
)
UNEXPECTED: Final = Metric(
    column="unexpected",
    title="Unexpected",
    caption="Clients notified of an event that nothing they subscribed to matches.",
    unit="deliveries",
    text=count,
    tile="Unexpected",
    detail=_strangers,
    heading="unexpected",
)
EVENTS_PUBLISHED: Final = Metric(
    column="events",
    title="Events published",
    caption="Events that clients published.",
    unit="events",
    text=lambda value: count(zero(value)),
    tile="Events published",
    detail=_published,
)
METRICS: Final[tuple[Metric, ...]] = (
    DELIVERY_RATIO,
    RECEIVED,
    CENSORED,
    DELAY_MEAN,
    DELAY_P50,
    DELAY_P90,
    DELAY_P99,
    FRAMES_PER_DELIVERY,
    BYTES_PER_DELIVERY,
    EVENT_FRAMES_PER_EVENT,
    LOAD_MEAN,
    HOPS_MEAN,
    DUPLICATES,
    UNEXPECTED,
    EVENTS_PUBLISHED,
    *MEASURED,
)
