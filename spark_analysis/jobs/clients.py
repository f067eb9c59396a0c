"""What clients said to their nodes and heard from them: the loopback captures.

A request that its node refused (an ACK with the same token that carries a text) has had no
effect, and is left out.  One that was never acknowledged counts: the client has asked, and a node
app that is not there to answer is a failure of delivery.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from nodeapp.wire import CLIENT_PORT, FIRST_CLIENT_KIND, Kind, encode_body
from spark_analysis.jobs.nodes import NODES
from spark_analysis.table import Kept, Query

_DONE: Final = encode_body(None)
"""Body of the ACK of a request that was done."""

MESSAGES: Final = Query(
    make=lambda inputs: client_messages(inputs.frames, inputs.of(NODES)), kept=Kept.IN_DRIVER
)
"""`client_messages` of all runs."""
REQUESTS: Final = Query(make=lambda inputs: requests(inputs.of(MESSAGES)))
"""`requests` of all runs."""


def client_messages(frames: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the messages on the loopbacks of the scenario's nodes.

    Columns: run, node_id, client (UDP port), request (true: to the node), time_ns, kind, token,
    destination, publisher, sequence, hops, body.
    """
    request = sf.col("port_dst") == CLIENT_PORT
    return (
        frames.filter((sf.col("interface") == "lo") & (sf.col("kind") >= FIRST_CLIENT_KIND))
        .join(sf.broadcast(nodes.select("run", "node", "node_id")), ["run", "node"])
        .select(
            "run",
            "node_id",
            sf.when(request, sf.col("port_src")).otherwise(sf.col("port_dst")).alias("client"),
            request.alias("request"),
            "time_ns",
            "kind",
            sf.col("originator").alias("token"),
            "destination",
            "publisher",
            "sequence",
            "hops",
            "body",
        )
    )


def requests(messages: DataFrame) -> DataFrame:
    """Return the requests among `client_messages` that were not refused."""
    refused = messages.filter(
        ~sf.col("request") & (sf.col("kind") == Kind.ACK) & (sf.col("body") != sf.lit(_DONE))
    ).select("run", "node_id", "client", "token", sf.col("destination").alias("kind"))
    return messages.filter("request").join(
        sf.broadcast(refused), ["run", "node_id", "client", "token", "kind"], "left_anti"
    )
