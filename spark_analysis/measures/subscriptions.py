"""Who was subscribed to what, from when until when.

A subscription begins with a client's SUBSCRIBE and ends with an UNSUBSCRIBE, with a SUBSCRIBE of
the same number for something else, or `LEASE` after the last SUBSCRIBE, if that is earlier.  A node
app that a fault of the scenario kills forgets all of its subscriptions, and accepts none until it
is back (`measures.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from nodeapp.client_port import LEASE
from nodeapp.events import Filter, Subscription
from nodeapp.kinds import ClientKind
from nodeapp.wire import WireError, decode_body
from spark_analysis.captures.schemas import BINARY, CLIENT, INT, LONG, STRING, column, run_schema
from spark_analysis.engine.groups import of_groups
from spark_analysis.engine.tables import Kept, Table
from spark_analysis.measures.clients import REQUESTS
from spark_analysis.measures.measure import Measure, Version
from spark_analysis.measures.runs import Outage, crashes

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "28d0ae22e7d2")


LEASE_NS: Final = int(LEASE * 1e9)

SUBSCRIPTIONS: Final = Table(
    name="subscriptions",
    description="stretches of time in which a client was subscribed",
    schema=run_schema(
        column("node_id", LONG, "node id of the subscriber's node"),
        CLIENT,
        column("subscription", LONG, "the client's number for the subscription"),
        column("filter", STRING, "the filter as text"),
        column("topic", STRING, "value of the predicate `topic = ...`; null if there is none"),
        column("body", BINARY, "body of the SUBSCRIBE: filter and the subscriber's attributes"),
        column("from_ns", LONG, "Unix time of the first SUBSCRIBE, ns"),
        column("until_ns", LONG, "Unix time of the UNSUBSCRIBE or end of the lease, ns; exclusive"),
        column("renewals", INT, "SUBSCRIBE messages after the first"),
    ),
    order=("from_ns", "client", "node_id"),
    make=lambda inputs: subscriptions(inputs.of(REQUESTS), inputs.once(crashes)),
    kept=Kept.IN_DRIVER,
)
"""One stretch of time in which a client was subscribed without a break."""


class Request(NamedTuple):
    """A SUBSCRIBE or UNSUBSCRIBE; `number` is the subscription's, 0 in an UNSUBSCRIBE by filter."""

    time_ns: int
    client: int
    kind: int
    number: int
    body: bytes


class SubscribedInterval(NamedTuple):
    """A client was subscribed in [from_ns, until_ns)."""

    client: int
    number: int
    subscription: Subscription
    from_ns: int
    until_ns: int
    renewals: int


@dataclass(slots=True)
class _Open:
    subscription: Subscription
    from_ns: int
    last_ns: int
    renewals: int = 0


def intervals(
    requests: Iterable[Request], crashes: Sequence[tuple[int, int]] = ()
) -> list[SubscribedInterval]:
    """Return the intervals of subscription at one node from its requests, in order of time.

    Malformed requests have no effect, as at the node.  `crashes` are when its node app was down:
    from, until, Unix ns.
    """
    crashed = sorted(crashes)
    ended: list[SubscribedInterval] = []
    held: dict[tuple[int, int], _Open] = {}

    def close(key: tuple[int, int], time_ns: int) -> None:
        if (old := held.pop(key, None)) is not None:
            until = min(time_ns, old.last_ns + LEASE_NS)
            ended.append(
                SubscribedInterval(*key, old.subscription, old.from_ns, until, old.renewals)
            )

    def crash(until_ns: int) -> None:
        """Forget all if the node app has crashed by then."""
        while crashed and crashed[0][0] <= until_ns:
            for key in list(held):
                close(key, crashed[0][0])
            crashed.pop(0)

    for request in requests:
        now, key = request.time_ns, (request.client, request.number)
        crash(now)
        if any(since <= now < until for since, until in crashes):
            continue
        try:
            if request.kind == ClientKind.SUBSCRIBE and request.number:
                subscription = Subscription.decode(request.body)
                old = held.get(key)
                if (
                    old is not None
                    and old.subscription == subscription
                    and now < old.last_ns + LEASE_NS
                ):
                    old.last_ns = now
                    old.renewals += 1
                else:
                    close(key, now)
                    held[key] = _Open(subscription, now, now)
            elif request.kind == ClientKind.UNSUBSCRIBE and request.number:
                close(key, now)
            elif request.kind == ClientKind.UNSUBSCRIBE:
                wanted = Filter.decode(decode_body(request.body))
                for other in [k for k, o in held.items() if o.subscription.filter == wanted]:
                    close(other, now)
        except WireError:
            continue
    crash(max((old.last_ns for old in held.values()), default=0) + LEASE_NS)
    for key, old in list(held.items()):
        close(key, old.last_ns + LEASE_NS)
    return ended


def subscriptions(requests: DataFrame, crashes: Sequence[Outage] = ()) -> DataFrame:
    """Return `SUBSCRIPTIONS` from the requests of clients (`measures.clients.requests`).

    `crashes` are when node apps were down.
    """
    by_node: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for run, node_id, from_ns, until_ns in crashes:
        by_node.setdefault((run, node_id), []).append((from_ns, until_ns))
    changes = requests.filter(
        sf.col("kind").isin(int(ClientKind.SUBSCRIBE), int(ClientKind.UNSUBSCRIBE))
    )
    return of_groups(
        changes.select("run", "node_id", "time_ns", "client", "kind", "sequence", "body"),
        keys=("run", "node_id"),
        order=("time_ns",),
        make=lambda rows: _of_node(rows, by_node),
        schema=SUBSCRIPTIONS.schema,
    )


def _of_node(
    rows: Iterator[Any], crashes: Mapping[tuple[str, int], Sequence[tuple[int, int]]]
) -> Iterator[dict[str, Any]]:
    """Yield the subscriptions of one node of one run from its requests."""
    first = next(rows)
    requests = (
        Request(row.time_ns, row.client, row.kind, row.sequence, row.body)
        for row in chain((first,), rows)
    )
    for interval in intervals(requests, crashes.get((first.run, first.node_id), ())):
        yield {
            "run": first.run,
            "node_id": first.node_id,
            "client": interval.client,
            "subscription": interval.number,
            "filter": str(interval.subscription.filter),
            "topic": interval.subscription.filter.topic,
            "body": interval.subscription.encode(),
            "from_ns": interval.from_ns,
            "until_ns": interval.until_ns,
            "renewals": interval.renewals,
        }


def roles(tables: RunTables) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ids of nodes with publishers and of nodes with subscribers, as captured."""
    publishers = tables.table("events")["publisher"].dropna().astype(int)
    subscribers = tables.table("subscriptions")["node_id"].dropna().astype(int)
    return frozenset(publishers), frozenset(subscribers)


MEASURES: Final = (Measure(SUBSCRIPTIONS),)
