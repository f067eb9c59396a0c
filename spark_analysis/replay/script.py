"""The replay of a script's network: where nodes were, whom they heard, and what they sent.

The object is that of `spark_analysis.replay.data`, without events: a script's nodes send what they
like, so no frame is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from emulation.mn.record import access_points
from emulation.mn.recording import PERIOD, REPEAT
from spark_analysis.measures.script import ScriptTables
from spark_analysis.replay.happenings import handover_mark
from spark_analysis.replay.packing import packed, packed_load, stretches, track
from spark_analysis.report.quantities import printable

MARGIN: Final = 5.0
"""Metres around where nodes were."""
KEPT: Final = REPEAT + PERIOD
"""Seconds for which a level between neighbours holds: it is recorded again in that time."""


def script_replay(tables: ScriptTables) -> dict[str, Any] | None:
    """Return the data of the replay; None if no positions were recorded."""
    positions = tables.positions
    if positions.empty:
        return None
    nodes = [node for node in tables.network["nodes"] if node["name"] in set(positions["node"])]
    index = {node["name"]: number for number, node in enumerate(nodes)}
    radios = {radio["interface"]: radio for radio in tables.network["radios"]}
    node_of = {name: index.get(radio["node"]) for name, radio in radios.items()}
    indices = [node_of.get(name) for name in tables.traffic["interface"]]
    points = access_points(tables.network)
    seconds = round(max(tables.seconds, 0.1), 3)
    low = positions[["x", "y"]].min() - MARGIN
    high = positions[["x", "y"]].max() + MARGIN
    return {
        "duration": seconds,
        "area": [float(low["x"]), float(low["y"]), float(high["x"]), float(high["y"])],
        "range": None,
        "nodes": [
            {"name": printable(node["name"]), "role": 0, "point": node["name"] in points}
            for node in nodes
        ],
        "tracks": packed(np.array(list(_tracks(positions, index, low)), np.int64)),
        "roads": [],
        "links": packed(_links(tables, node_of, seconds)),
        "window": 1.0,
        "hops": packed([]),
        "events": packed([]),
        "topics": [],
        "marks": list(_marks(tables.associations, node_of, radios)),
        "notes": [],
        **packed_load(tables.traffic, indices, len(nodes), seconds),
    }


def shown(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template `replay.html` needs."""
    return {
        "title": "The run replayed",
        "legend": "Blue lines: associations, and neighbours in a cell or mesh that heard each "
        f"other in the last {KEPT:g} s. Purple rings: a station changes its access point. "
        "Click a node for its traffic.",
        "feed": "replay_data.js",
        "notes": data["notes"],
        "without_events": True,
    }


def _tracks(positions: pd.DataFrame, index: Mapping[str, int], low: pd.Series) -> Iterator[int]:
    """Yield for each node the number of its waypoints, then time, x and y of each, packed."""
    by_node = dict(iter(positions.groupby("node")))
    for name in index:
        points = by_node[name].sort_values("time")[["time", "x", "y"]].to_numpy(float)
        points[:, 0] = np.maximum(points[:, 0], 0.0)
        points[:, 1:] -= low.to_numpy(float)
        still = (np.diff(points[:, 1:], axis=0, prepend=np.nan) == 0).all(axis=1)
        between = still & np.append(still[1:], False)  # the same before, here and after
        yield from track(points[~between])


def _links(
    tables: ScriptTables, node_of: Mapping[str, int | None], seconds: float
) -> Iterator[int]:
    """Return the `stretches` in which nodes were linked, 0.1 s."""
    spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for receiver, sender, begin, end in (
        *_associations(tables.associations, seconds),
        *_neighbours(tables.peers, seconds),
    ):
        one, other = node_of.get(receiver), node_of.get(sender)
        if one is not None and other is not None and one != other:
            spans.setdefault((min(one, other), max(one, other)), []).append((begin, end))
    return stretches((pair, _joined(spans[pair])) for pair in sorted(spans))


Span = tuple[str, str, float, float]
"""Receiver and sender, interfaces; from when until when, seconds."""


def _associations(associations: pd.DataFrame, seconds: float) -> Iterator[Span]:
    for interface, changes in associations.sort_values("time").groupby("interface"):
        begins = [max(0.0, time) for time in changes["time"]]
        for begin, end, point in zip(begins, [*begins[1:], seconds], changes["new"], strict=True):
            yield str(interface), point, begin, max(begin, end)


def _neighbours(peers: pd.DataFrame, seconds: float) -> Iterator[Span]:
    for receiver, sender, time in peers[["interface", "sender", "time"]].itertuples(index=False):
        yield receiver, sender, max(0.0, time), max(0.0, min(time + KEPT, seconds))


def _joined(spans: Iterable[tuple[float, float]]) -> list[tuple[int, int]]:
    """Return stretches of time, which may overlap, as ones that do not: in order, 0.1 s."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted((round(10 * begin), round(10 * end)) for begin, end in spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _marks(
    associations: pd.DataFrame, node_of: Mapping[str, int | None], radios: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the handovers."""
    columns = (associations[name].tolist() for name in ("time", "interface", "old", "new"))
    for time, *interfaces in zip(*columns, strict=True):
        node = node_of.get(interfaces[0])
        if node is not None and all(name in radios for name in interfaces):
            names = (printable(radios[name]["node"]) for name in interfaces)
            yield handover_mark(time, node, *names)
