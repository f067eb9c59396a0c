"""Recovery: the faults of a run, and how long delivery takes to be as before after each.

What that means is said in `spark_analysis.recovering`.  All that a publisher on a node that is down
publishes is lost, which no protocol can help: so there are two answers, of all events and of those
whose publisher's node was up.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.jobs.delivery import EVENTS
from spark_analysis.jobs.outages import crashes, silences
from spark_analysis.jobs.runs import facts
from spark_analysis.recovering import BEFORE, RECOVERED, WINDOW, Published, recovery
from spark_analysis.schemas import DOUBLE, INT, RUN, STRING, column
from spark_analysis.table import Inputs, Table


def rows(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `RECOVERY`."""
    faulty = [run for run in inputs.runs if run.faults]
    if not faulty:
        return []
    names = [run.name for run in faulty]
    events: dict[str, list[Published]] = {name: [] for name in names}
    living: dict[str, list[Published]] = {name: [] for name in names}
    outages = _outages(inputs)
    table = inputs.of(EVENTS).filter(sf.col("run").isin(names) & sf.col("settled"))
    columns = "run", "publisher", "time", "expected", "received"
    for name, publisher, time, *counts in table.select(*columns).collect():
        event = Published(time, *counts)
        events[name].append(event)
        if not any(begin <= time < end for begin, end in outages.get((name, publisher), ())):
            living[name].append(event)
    ends = {each.run: (each.end_ns - each.epoch_ns) / 1e9 for each in inputs.once(facts)}
    found = []
    for run in faulty:
        published, of_living = sorted(events[run.name]), sorted(living[run.name])
        end = min(ends[run.name], run.scenario.duration)
        faults = [fault for fault in run.faults if fault.start < end]
        for number, fault in enumerate(faults, start=1):
            following = min((f.start for f in faults if f.start > fault.start), default=end)
            found.append(
                (
                    run.name,
                    number,
                    fault.kind,
                    fault.text,
                    ", ".join(fault.nodes),
                    fault.start,
                    fault.until(end),
                    *recovery(published, fault.start, following),
                    *recovery(of_living, fault.start, following),
                )
            )
    return found


def _outages(inputs: Inputs) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Return when nodes were down, seconds into the run, by run and node id."""
    epochs = {each.run: each.epoch_ns for each in inputs.once(facts)}
    outages: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for run, node, begin, end in (*inputs.once(crashes), *inputs.once(silences)):
        times = (begin - epochs[run]) / 1e9, (end - epochs[run]) / 1e9
        outages.setdefault((run, node), []).append(times)
    return outages


RECOVERY: Final[Table] = Table(
    name="recovery",
    description="faults, and how long delivery took to be as before",
    schema=StructType(
        [
            RUN,
            column("fault", INT, "number of the fault, in order of time"),
            column("kind", STRING, "crash, radio, access-point, link, partition or jam"),
            column("text", STRING, "the fault as it was asked for"),
            column("nodes", STRING, "names of those that failed"),
            column("start", DOUBLE, "s into the run"),
            column("end", DOUBLE, "s into the run; its end if that came first"),
            column("before", DOUBLE, f"delivery of the {BEFORE:g} s before it"),
            column("lowest", DOUBLE, f"lowest delivery of {WINDOW:g} s from then on"),
            column(
                "recovery",
                DOUBLE,
                f"s from its start until delivery was {RECOVERED:.0%} of before; null: never",
            ),
            column("living_before", DOUBLE, "as `before`, of publishers whose node was up"),
            column("living_lowest", DOUBLE, "as `lowest`, of publishers whose node was up"),
            column("living_recovery", DOUBLE, "as `recovery`, of publishers whose node was up"),
        ]
    ),
    order=("fault",),
    make=lambda inputs: inputs.rows(inputs.once(rows), RECOVERY.schema),
)
"""One fault of a scenario, or one that was made at the prompt."""
