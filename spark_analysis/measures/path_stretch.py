"""Path stretch: the hops of deliveries over those of the shortest paths that the radio allows.

The shortest path is that in the graph of the nodes within radio range of each other, which no
protocol knows.  It is undefined if nodes move or the radio has no range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from emulation.scenario.runfolder import Run
from spark_analysis.captures.schemas import DOUBLE, column
from spark_analysis.engine.tables import Inputs, SummaryColumn
from spark_analysis.measures.delay import DELAY
from spark_analysis.measures.measure import Version
from spark_analysis.report.metric import MeasuredMetric, significant

VERSION: Final = Version(1, "0fefb28ca60c")

_SHORTEST: Final = "run string, publisher long, receiver long, shortest int"


def path_stretch(inputs: Inputs) -> DataFrame:
    """Return run and path_stretch: a row for each run whose nodes stand still."""
    rows = [row for run in inputs.runs for row in shortest_hops(run)]
    shortest = inputs.local(rows, _SHORTEST)
    remote = inputs.of(DELAY).filter(~sf.col("local"))
    known = remote.join(shortest, ["run", "publisher", "receiver"])
    sums = known.groupBy("run").agg(sf.sum("hops").alias("hops"), sf.sum("shortest").alias("least"))
    return sums.select("run", sf.try_divide("hops", "least").alias("path_stretch"))


def shortest_hops(run: Run) -> Iterator[tuple[str, int, int, int]]:
    """Yield run, publisher, subscriber and the hops between them, for nodes that stand still.

    Nothing for nodes behind access points.
    """
    scenario = run.scenario
    moving = any(len(node.waypoints) > 1 for node in run.driven) or scenario.contacts is not None
    if moving or scenario.access_points or not scenario.radio.range:
        return
    ids = [node.id for node in scenario.nodes]
    actions = {
        action: {operation.node for operation in scenario.workload if operation.action == action}
        for action in ("publish", "subscribe")
    }
    if not all(actions.values()):
        return
    points = np.array([node.waypoints[0][1:3] for node in scenario.nodes], dtype=float)
    links = cKDTree(points).query_pairs(scenario.radio.range, output_type="ndarray")
    graph = coo_array((np.ones(len(links)), links.T), shape=(len(ids), len(ids)))
    for publisher in sorted(actions["publish"]):
        hops = dijkstra(graph, directed=False, indices=ids.index(publisher), unweighted=True)
        for index, subscriber in enumerate(ids):
            if subscriber in actions["subscribe"] and 0 < hops[index] < np.inf:
                yield run.name, publisher, subscriber, int(hops[index])


PATH_STRETCH: Final = MeasuredMetric(
    column="path_stretch",
    measure=SummaryColumn(
        column=column(
            "path_stretch", DOUBLE, "hops of deliveries / shortest ways; null if nodes move"
        ),
        make=path_stretch,
    ),
    title="Path stretch",
    caption="Hops of deliveries to other nodes over those of the shortest paths in the radio's "
    "graph; of nodes that stand still.",
    unit="times",
    text=significant,
    swept=True,
    if_known=True,
    tile="Path stretch",
    detail=lambda tables: "hops of deliveries over those of shortest paths in the radio's graph",
    heading="path stretch",
)

METRICS: Final = (PATH_STRETCH,)
