"""Overlays by interest: who gets events, over how many overlay hops, and why without an interest.

An overlay hop is a frame from one peer to another, whatever is on the way.  A frame that arrives at
the peer that it is for is a reception; the depth of a peer's first reception of an event is one
more than that of the sender's.  A reception by a peer of which no subscription matches the event is
a false positive.  Its cause follows from the peer's subscriptions at the time of the PUBLISH, as
its loopback shows them, and from the overlay's rules in the scenario:

    grid         the event's cell is one of the peer's, of which its filters ask for a part
    bloom        all bits of the event are the peer's, by a collision
    forwarding   neither: the peer is on the way of others

Protocols that are no overlay (`Service.is_overlay`) have no rows, and cost no query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from emulation.scenario.runfolder import Run
from nodeapp.events import Subscription
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits, covers, identifier
from nodeapp.pubsub.overlay.space import Space
from nodeapp.pubsub.registry import service_of
from nodeapp.wire import EVENT_KINDS
from spark_analysis.jobs.columns import EVENT
from spark_analysis.jobs.delivery import DELIVERY
from spark_analysis.jobs.overhead import PACKETS
from spark_analysis.jobs.publications import PUBLICATIONS
from spark_analysis.jobs.subscriptions import SUBSCRIPTIONS
from spark_analysis.schemas import (
    BOOLEAN,
    INT,
    PUBLISHER,
    RECEIVER,
    RUN,
    SEQUENCE,
    STRING,
    column,
)
from spark_analysis.table import Inputs, Table


def _overlays(inputs: Inputs) -> list[Run]:
    return [run for run in inputs.runs if service_of(run.scenario.protocol.name).is_overlay]


class _Rules:
    """The cells and bits of a run's overlay."""

    def __init__(self, run: Run) -> None:
        parameters = run.scenario.protocol.parameters
        self._space = Space(parameters["space"])
        self._rules = parameters["bits"], parameters["hashes"]
        self._cells: dict[bytes, frozenset[int]] = {}

    def cause(self, event: Mapping[str, Any], bodies: list[bytes]) -> str:
        """Return why a peer with these subscriptions gets an event that none of them matches."""
        cell = self._space.cell(event)
        cells: set[int] = set()
        for body in bodies:
            if body not in self._cells:
                wanted = Subscription.decode(body).filter
                self._cells[body] = self._space.filter_cells(wanted)
            cells |= self._cells[body]
        if cell in cells:
            return "grid"
        wanted_bits = SHARED_BIT | cell_bits(cell, *self._rules)
        return "bloom" if covers(identifier(cells, *self._rules), wanted_bits) else "forwarding"


def receptions(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `OVERLAY_RECEPTIONS`."""
    runs = _overlays(inputs)
    if not runs:
        return []
    rules = {run.name: _Rules(run) for run in runs}
    names = list(rules)
    wanting = {
        tuple(row)
        for row in inputs.of(DELIVERY)
        .filter(sf.col("run").isin(names) & sf.col("expected"))
        .select(*EVENT, "receiver")
        .collect()
    }
    published = {
        (row.run, row.publisher, row.sequence): (json.loads(row.attributes), row.time_ns)
        for row in inputs.of(PUBLICATIONS).filter(sf.col("run").isin(names)).collect()
    }
    subscribed: dict[tuple[str, int], list[tuple[int, int, bytes]]] = {}
    table = inputs.of(SUBSCRIPTIONS).filter(sf.col("run").isin(names))
    for run, node, begin, end, body in table.select(
        "run", "node_id", "from_ns", "until_ns", "body"
    ).collect():
        subscribed.setdefault((run, node), []).append((begin, end, bytes(body)))
    found = []
    for event, node, depth, hops in _first(inputs, names):
        attributes, time_ns = published.get(event, (None, 0))
        if attributes is None:
            continue
        wanted = (*event, node) in wanting
        cause = None
        if not wanted:
            held = subscribed.get((event[0], node), ())
            bodies = [body for begin, end, body in held if begin <= time_ns < end]
            cause = rules[event[0]].cause(attributes, bodies)
        found.append((*event, node, depth, hops, wanted, cause))
    return found


def _first(
    inputs: Inputs, names: list[str]
) -> Iterator[tuple[tuple[str, int, int], int, int, int]]:
    """Yield event, receiver, depth and hops of each peer's first reception."""
    arrived = inputs.of(PACKETS).filter(
        sf.col("run").isin(names)
        & sf.col("kind").isin([int(kind) for kind in EVENT_KINDS])
        & ~sf.col("sent")
        & (sf.col("destination") == sf.col("node_id"))
    )
    depths: dict[tuple[str, int, int], dict[int, int]] = {}
    columns = (*EVENT, "originator", "node_id", "hops")
    for run, publisher, sequence, sender, node, hops in (
        arrived.select(*columns, "time_ns").orderBy("time_ns").drop("time_ns").collect()
    ):
        event = run, publisher, sequence
        of_event = depths.setdefault(event, {publisher: 0})
        if node not in of_event:
            of_event[node] = of_event.get(sender, 0) + 1
            yield event, node, of_event[node], hops


OVERLAY_RECEPTIONS: Final[Table] = Table(
    name="overlay_receptions",
    description="overlays: the first time that each peer got each event, and why",
    schema=StructType(
        [
            RUN,
            PUBLISHER,
            SEQUENCE,
            RECEIVER,
            column("depth", INT, "overlay hops from the publisher"),
            column("hops", INT, "hops of the network below, from the publisher"),
            column("wanted", BOOLEAN, "the event was due to a client of the receiver"),
            column("cause", STRING, "of one that is not wanted: grid, bloom or forwarding"),
        ]
    ),
    order=("publisher", "sequence", "depth", "receiver"),
    make=lambda inputs: inputs.rows(inputs.once(receptions), OVERLAY_RECEPTIONS.schema),
)
"""One peer that got an event over the overlay; the publisher's own node is left out."""
