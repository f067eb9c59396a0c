"""Stages: where the time of each delivery went, from frame to frame of its event.

The path of an event to a subscriber is followed backwards through the captures.  A NOTIFY carries
the hops of the frame that brought the event; that frame is the first with as many that was received
at the subscriber's node.  Its transmission is the last of the same frame in its sender's capture;
what made the sender transmit is the first reception there with one hop less, for the same final
destination if there is one (a broker changes it), and of a broadcast that lists its addressees only
if the node is one; and so on to the first hop, which the
PUBLISH caused.  Every delivery so traced is a chain of steps without gaps:

    originate   PUBLISH on the publisher's loopback -> its first transmission
    medium      that transmission -> its reception at a neighbour: queue, channel access, airtime
    forward     a reception at a forwarder -> its own transmission, deliberate waiting included
    relay       a forwarder's transmission -> its reception at a neighbour
    notify      the last reception -> NOTIFY on the subscriber's loopback

so that the steps of a delivery add up to its delay.  `relay` is apart from `medium` because a
forwarder finds the channel taken by the acknowledgement of the frame that it has just received,
unless it takes longer than that to send it on.  Only deliveries at other nodes than the
publisher's have steps, and only those whose every frame was captured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from nodeapp.kinds import ClientKind, Role
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import ANY_NODE, BROADCAST
from spark_analysis.captures.schemas import (
    CLIENT,
    DOUBLE,
    INT,
    LONG,
    PUBLISHER,
    RECEIVER,
    SEQUENCE,
    SHORT,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.groups import of_groups
from spark_analysis.measures.columns import EVENT, PAIR
from spark_analysis.measures.packets import addressed, category, kind_name


class DelayStage(StrEnum):
    """What an event waits for on its way, in the order in which it first does."""

    ORIGINATE = "originate"
    MEDIUM = "medium"
    FORWARD = "forward"
    RELAY = "relay"
    NOTIFY = "notify"


ON_THE_AIR: Final = (DelayStage.MEDIUM, DelayStage.RELAY)
"""Stages in which the medium has the event; in the others a node has it."""

STEPS: Final = run_schema(
    PUBLISHER,
    SEQUENCE,
    RECEIVER,
    CLIENT,
    column("step", INT, "index in the chain, from 0"),
    column("stage", STRING, "originate, medium, forward, relay or notify"),
    column("node_id", LONG, "node id where the step ends"),
    column("hops", SHORT, "radio hops made when the step ends"),
    column("seconds", DOUBLE, "s, length of the step"),
)
"""One step of one traced delivery."""

STAGES: Final = run_schema(
    column("stage", STRING, "originate, medium, forward, relay or notify"),
    column("deliveries", LONG, "deliveries traced in the run"),
    column("steps", LONG, "steps of this stage in them"),
    column("p50", DOUBLE, "s, median step"),
    column("mean", DOUBLE, "s, mean step"),
    column("per_delivery", DOUBLE, "s of this stage in a delivery, mean"),
)
"""One stage of one run."""

SPLIT: Final = run_schema(
    column("deliveries", LONG, "deliveries traced in the run"),
    column("air_p50", DOUBLE, "s on the air in a delivery, median"),
    column("nodes_p50", DOUBLE, "s in nodes in a delivery, median"),
)
"""Where the time of one run's deliveries was spent: `medium` and `relay` are on the air."""

ON_AIR: Final = run_schema(
    column("kind_name", STRING, "HELLO, EVENT, ...; `other` if not a testbed frame"),
    column("category", STRING, "event, control or other"),
    column("frames", LONG, "frames sent by radio from time 0 to the scenario's end, all nodes"),
    column("bytes", LONG, "bytes of these, from the Ethernet header"),
)
"""Radio traffic of one run in one message kind, while its scenario lasted."""


class Seen(NamedTuple):
    """One captured frame of an event."""

    node: int
    time_ns: int
    kind: int
    sent: bool
    source: int | None
    """Node id of the IPv4 source; null on loopback."""
    target: int | None
    """Node id of the IPv4 destination; null: broadcast or loopback."""
    hops: int
    destination: int
    client: int


class DelayStep(NamedTuple):
    """One step of a delivery; `hops` and `node` are those where it ends."""

    stage: DelayStage
    node: int
    hops: int
    seconds: float


def trace(seen: Iterable[Seen], publisher: int) -> Iterator[tuple[int, int, list[DelayStep]]]:
    """Yield (receiver, client, steps) of every delivery of one event that can be traced.

    `seen` are all captured frames of the event, in order of time.
    """
    published: int | None = None
    first: dict[tuple[int, int], Seen] = {}
    sent: dict[tuple[int, int], list[Seen]] = {}
    received: dict[tuple[int, int], list[Seen]] = {}
    for frame in seen:
        if frame.kind == ClientKind.PUBLISH:
            if frame.node == publisher and published is None:
                published = frame.time_ns
        elif frame.kind == ClientKind.NOTIFY:
            first.setdefault((frame.node, frame.client), frame)
        else:
            known = sent if frame.sent else received
            known.setdefault((frame.node, frame.hops), []).append(frame)
    if published is None:
        return
    for (receiver, client), notify in first.items():
        if receiver != publisher:
            steps = _steps(notify, published, publisher, sent, received)
            if steps is not None:
                yield receiver, client, steps


def _steps(
    notify: Seen,
    published: int,
    publisher: int,
    sent: dict[tuple[int, int], list[Seen]],
    received: dict[tuple[int, int], list[Seen]],
) -> list[DelayStep] | None:
    """Return the steps that led to a NOTIFY, in order of time; None if one is missing."""
    steps: list[DelayStep] = []

    def add(stage: DelayStage, end: Seen, start_ns: int) -> None:
        steps.append(DelayStep(stage, end.node, end.hops, (end.time_ns - start_ns) / 1e9))

    stage, caused, hops, destination = DelayStage.NOTIFY, notify, notify.hops, notify.node
    while True:
        arrival = _arrival(received.get((caused.node, hops), ()), caused, destination)
        if arrival is None or arrival.source is None:
            return None
        add(stage, caused, arrival.time_ns)
        departure = _departure(sent.get((arrival.source, hops), ()), arrival)
        if departure is None:
            return None
        add(DelayStage.MEDIUM if hops == 1 else DelayStage.RELAY, arrival, departure.time_ns)
        if hops == 1:
            break
        stage, caused, hops, destination = (
            DelayStage.FORWARD,
            departure,
            hops - 1,
            departure.destination,
        )
    if departure.node != publisher or departure.time_ns < published:
        return None
    add(DelayStage.ORIGINATE, departure, published)
    return steps[::-1]


def _arrival(candidates: Iterable[Seen], caused: Seen, destination: int) -> Seen | None:
    """Return the reception that made a node do something: the first of the most likely ones."""
    likely = (destination, ANY_NODE, BROADCAST)
    arrival: Seen | None = None
    best = 0
    for frame in candidates:
        if frame.time_ns > caused.time_ns:
            break
        rank = likely.index(frame.destination) if frame.destination in likely else len(likely)
        if arrival is None or rank < best:
            arrival, best = frame, rank
    return arrival


def _departure(candidates: Iterable[Seen], arrival: Seen) -> Seen | None:
    """Return the transmission of a received frame: the last of that frame before it."""
    departure = None
    for frame in candidates:
        if frame.time_ns > arrival.time_ns:
            break
        if (frame.destination, frame.target) == (arrival.destination, arrival.target):
            departure = frame
    return departure


def steps(frames: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return `STEPS` of all runs in `frames`."""
    carries = [*kinds_of(Role.EVENT), int(ClientKind.PUBLISH), int(ClientKind.NOTIFY)]
    local = sf.col("interface") == "lo"
    of_clients = sf.col("kind").isin(int(ClientKind.PUBLISH), int(ClientKind.NOTIFY))
    seen = (
        frames.filter(sf.col("kind").isin(carries) & (local == of_clients))
        .join(sf.broadcast(nodes.select("run", "node", "node_id", "ip")), ["run", "node"])
        .join(_address(nodes, "ip_src", "source"), ["run", "ip_src"], "left")
        .join(_address(nodes, "ip_dst", "target"), ["run", "ip_dst"], "left")
        .filter(local | (sf.col("ip_src") == sf.col("ip")) | addressed())
        .select(
            *EVENT,
            "node_id",
            "time_ns",
            "number",
            "kind",
            (local | (sf.col("ip_src") == sf.col("ip"))).alias("sent"),
            "source",
            "target",
            "hops",
            "destination",
            "port_dst",
        )
    )
    return of_groups(seen, EVENT, ("time_ns", "node_id"), _of_event, STEPS)


def _address(nodes: DataFrame, ip: str, node_id: str) -> DataFrame:
    return sf.broadcast(
        nodes.select("run", sf.col("ip").alias(ip), sf.col("node_id").alias(node_id))
    )


def _of_event(rows: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of one event of one run from the frames that carry it."""
    first = next(rows)
    frames = (Seen(*_SEEN(row)) for row in chain((first,), rows))
    for receiver, client, chained in trace(frames, first.publisher):
        for index, step in enumerate(chained):
            yield {
                "run": first.run,
                "publisher": first.publisher,
                "sequence": first.sequence,
                "receiver": receiver,
                "client": client,
                "step": index,
                "stage": str(step.stage),
                "node_id": step.node,
                "hops": step.hops,
                "seconds": step.seconds,
            }


_SEEN: Final = attrgetter(
    *("node_id", "time_ns", "kind", "sent", "source", "target", "hops", "destination", "port_dst")
)
"""What `Seen` has of a frame."""


def stages(steps: DataFrame) -> DataFrame:
    """Return `STAGES` from `STEPS`; a stage that no delivery of a run had is left out."""
    traced = steps.select(*PAIR).distinct().groupBy("run").agg(sf.count("*").alias("deliveries"))
    table = (
        steps.groupBy("run", "stage")
        .agg(
            sf.count("*").alias("steps"),
            sf.percentile("seconds", 0.5).alias("p50"),
            sf.mean("seconds").alias("mean"),
            sf.sum("seconds").alias("total"),
        )
        .join(traced, "run")
        .withColumn("per_delivery", sf.col("total") / sf.col("deliveries"))
    )
    return table.to(STAGES)


def split(steps: DataFrame) -> DataFrame:
    """Return `SPLIT` from `STEPS`."""

    def where(on_air: bool) -> Column:
        here = sf.col("stage").isin(*ON_THE_AIR) == on_air
        return sf.sum(sf.when(here, sf.col("seconds")).otherwise(0.0))

    of_delivery = steps.groupBy(*PAIR).agg(where(True).alias("air"), where(False).alias("nodes"))
    table = of_delivery.groupBy("run").agg(
        sf.count("*").alias("deliveries"),
        sf.percentile("air", 0.5).alias("air_p50"),
        sf.percentile("nodes", 0.5).alias("nodes_p50"),
    )
    return table.to(SPLIT)


def on_air(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `ON_AIR` from `packets.radio_packets`.  `runs` has run, epoch_ns and duration.

    Backends differ in how long nodes run before time 0 and after the end; both are left out.
    """
    since = sf.col("time_ns") - sf.col("epoch_ns")
    table = (
        packets.filter("sent")
        .join(sf.broadcast(runs.select("run", "epoch_ns", "duration")), "run")
        .filter((since >= 0) & (since < sf.col("duration") * sf.lit(1e9)))
        .groupBy("run", "kind")
        .agg(sf.count("*").alias("frames"), sf.sum("length").alias("bytes"))
        .withColumn("kind_name", kind_name(sf.col("kind")))
        .withColumn("category", category(sf.col("kind")))
    )
    return table.to(ON_AIR)
