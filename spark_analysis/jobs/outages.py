"""When nodes were down on purpose: by faults of the scenario, or made at the prompt.

A node app that has crashed has no subscriptions, whatever its clients ask for meanwhile.  A node
whose radio fails keeps them, but can be given nothing.  Both are known without the captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from emulation.scenario.faults import Kind, down
from emulation.scenario.runfolder import Run
from spark_analysis.jobs.runs import facts
from spark_analysis.schemas import LONG, RECEIVER, RUN, column
from spark_analysis.table import Inputs

END_NS: Final = 2**62
"""Unix time of the end of what never ends."""
SILENT: Final = [RUN, RECEIVER, column("silent_ns", LONG, "Unix time of the beginning, ns"),
                 column("heard_ns", LONG, "Unix time of the end, ns; exclusive")]  # fmt: skip
"""A node was in reach of nobody."""


class Outage(NamedTuple):
    """A node was down in [from_ns, until_ns)."""

    run: str
    node_id: int
    from_ns: int
    until_ns: int


def crashes(inputs: Inputs) -> list[Outage]:
    """Return when node apps were down."""
    return list(_outages(inputs, ("crash",)))


def silences(inputs: Inputs) -> list[Outage]:
    """Return when nodes had no radio: their own, or those of the access point they are wired to."""
    return list(_outages(inputs, ("radio", "access-point")))


def _outages(inputs: Inputs, kinds: Sequence[Kind]) -> Iterator[Outage]:
    if not any(run.faults for run in inputs.runs):
        return
    epochs = {each.run: each.epoch_ns for each in inputs.once(facts)}
    for run in inputs.runs:
        for kind in kinds:
            yield from _of_run(run, kind, epochs[run.name])


def _of_run(run: Run, kind: Kind, epoch_ns: int) -> Iterator[Outage]:
    scenario = run.scenario
    named = {node.name: node.id for node in scenario.nodes}
    if kind == "access-point":
        named = {point.name: point.broker for point in scenario.access_points}
    for name, node_id in named.items():
        for start, end in down(run.faults, name, kind):
            until = END_NS if end is None else epoch_ns + round(end * 1e9)
            yield Outage(run.name, node_id, epoch_ns + round(start * 1e9), until)
