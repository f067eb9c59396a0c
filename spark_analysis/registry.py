"""The jobs whose tables an analysis has.

A new job is a file in `spark_analysis.jobs` that has a `JOB`: it is found, and nothing else
changes.  Listed here are those that make the summary, which are part of what makes a row of a sweep
(`spark_analysis.summaries`): their files say nothing of how their tables are shown, so that a row
outlives a change of that.

Reports list tables, and have their text tables and figures, in the order of `JOBS`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from spark_analysis import jobs
from spark_analysis.job import Job
from spark_analysis.jobs import (
    choices,
    delay,
    delivery,
    legs,
    nodes,
    overhead,
    overlay,
    overlay_links,
    recovery,
    state,
    subscriptions,
)
from spark_analysis.metrics import summary
from spark_analysis.report import (
    delay_text,
    delivery_text,
    legs_text,
    overlay_text,
    recovery_text,
    rendezvous_text,
    traffic_text,
)


def found() -> tuple[Job, ...]:
    """Return what the modules of `spark_analysis.jobs` call `JOB`, by the modules' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(jobs.__path__))
    modules = [importlib.import_module(f"{jobs.__name__}.{name}") for name in names]
    return tuple(module.JOB for module in modules if hasattr(module, "JOB"))


JOBS: Final[tuple[Job, ...]] = (
    Job(summary.SUMMARY),
    Job(nodes.NODES),
    Job(subscriptions.SUBSCRIPTIONS),
    Job(delivery.EVENTS, delivery_text.TOPICS),
    Job(delivery.DELIVERY),
    Job(delivery.DELIVERY_OVER_TIME, delivery_text.OVER_TIME),
    Job(recovery.RECOVERY, recovery_text.FAULTS),
    Job(delay.DELAY, delay_text.DISTRIBUTION),
    Job(delay.DELAY_BY_HOPS, delay_text.BY_HOPS),
    Job(overhead.OVERHEAD, traffic_text.KINDS),
    Job(overhead.LOAD, traffic_text.LOADS),
    Job(legs.LEGS, legs_text.CLIENTS),
    Job(overlay.OVERLAY_RECEPTIONS, overlay_text.OVERLAY),
    Job(overlay_links.OVERLAY_LINKS),
    Job(choices.CHOICES, rendezvous_text.CHOSEN),
    Job(state.STATE, rendezvous_text.KEPT),
    *found(),
)
