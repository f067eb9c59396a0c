"""Recovery: the faults of a run, and how long delivery takes to be as before after each.

What that means is said in `spark_analysis.recovering`.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.jobs.delivery import EVENTS
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
    table = inputs.of(EVENTS).filter(sf.col("run").isin(names) & sf.col("settled"))
    for name, *values in table.select("run", "time", "expected", "received").collect():
        events[name].append(Published(*values))
    ends = {each.run: (each.end_ns - each.epoch_ns) / 1e9 for each in inputs.once(facts)}
    found = []
    for run in faulty:
        published = sorted(events[run.name])
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
                )
            )
    return found


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
        ]
    ),
    order=("fault",),
    make=lambda inputs: inputs.rows(inputs.once(rows), RECOVERY.schema),
)
"""One fault of a scenario, or one that was made at the prompt."""
