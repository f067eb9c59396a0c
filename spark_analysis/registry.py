"""The jobs whose tables an analysis has, each with what the report of a run shows of it.

A new job is a file in `spark_analysis.jobs` and a line below.  Reports list tables, and have their
text tables and figures, in this order.  The metrics are listed in `spark_analysis.metrics.known`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spark_analysis.jobs import (
    airtime,
    counters,
    delay,
    delivery,
    links,
    nodes,
    overhead,
    subscriptions,
)
from spark_analysis.metrics import summary
from spark_analysis.report import (
    air_text,
    counter_text,
    delay_text,
    delivery_text,
    map_text,
    traffic_text,
)
from spark_analysis.report.section import Section
from spark_analysis.table import Table


class Job(NamedTuple):
    """A table, and what is shown of it."""

    table: Table
    section: Section = Section()


JOBS: Final = (
    Job(summary.SUMMARY),
    Job(nodes.NODES),
    Job(subscriptions.SUBSCRIPTIONS),
    Job(delivery.EVENTS, delivery_text.TOPICS),
    Job(delivery.DELIVERY),
    Job(delivery.DELIVERY_OVER_TIME, delivery_text.OVER_TIME),
    Job(delay.DELAY, delay_text.DISTRIBUTION),
    Job(delay.DELAY_BY_HOPS, delay_text.BY_HOPS),
    Job(overhead.OVERHEAD, traffic_text.KINDS),
    Job(overhead.LOAD, traffic_text.LOADS),
    Job(links.LINKS, map_text.MAP),
    Job(airtime.AIRTIME, air_text.AIRTIME),
    Job(counters.COUNTERS, counter_text.COUNTERS),
)
