"""The data of a replay: the object that `replay_data.js` reads (`replay_data` has its keys).

Numbers are packed integers (`packing`): times in units of 10 µs, positions in decimetres, each as
the difference from the one before.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulation.mobility.trajectory import until
from spark_analysis.engine.results import RunTables
from spark_analysis.replay.frames import STEP, Hops, LinkHistory, has_frames, hops, links
from spark_analysis.replay.happenings import handover_marks, happenings, legend
from spark_analysis.replay.packing import TICKS, packed, packed_load, stretches, track
from spark_analysis.report.quantities import number, printable

if TYPE_CHECKING:
    import pandas as pd

MOST_ROADS: Final = 4_000


def replay_data(tables: RunTables) -> dict[str, Any] | None:
    """Return the replay of a run; None if its captures have not been decoded.

    Keys: `duration`, `area`, `range`, `nodes` (names and roles, and `older` if events are left
    out), `tracks` (per node: number of waypoints, then time, x, y of each), `links` (a, b, number
    of stretches, then start and length of each), `events` and `hops` (below), `load` (per node and
    bucket: frames sent, received), `topics`, `marks` (what happened to the network), `notes` (what
    is left out).
    """
    run = tables.run
    epoch = tables.value("epoch_ns")
    if not has_frames(run) or not np.isfinite(epoch):
        return None
    epoch_ns = int(tables.summary["epoch_ns"])
    seconds = round(max(tables.observed, 0.1), 3)
    event_hops = hops(run, epoch_ns)
    heard = links(run, epoch_ns, seconds)
    publishers = set(tables.table("events")["publisher"].astype(int))
    subscribers = set(tables.table("subscriptions")["node_id"].astype(int))
    scenario = run.scenario
    points = {point.broker: point.name for point in scenario.access_points}
    names = [printable(points.get(node.id, node.name)) for node in scenario.nodes]
    visible = _visible(tables, event_hops)
    events, older = _events(tables, visible), _older(tables, visible)
    data: dict[str, Any] = {
        "duration": seconds,
        "area": list(scenario.area),
        "range": scenario.radio.range,
        "nodes": [
            {
                "name": name,
                "role": (node.id in publishers) + 2 * (node.id in subscribers),
                "point": node.id in points,
                **({"older": {key: of[node.id] for key, of in older.items()}} if older else {}),
            }
            for node, name in zip(scenario.nodes, names, strict=True)
        ],
        "tracks": packed(np.array(list(_tracks(tables)), np.int64)),
        "roads": roads(scenario.road_map),
        "links": _links(heard),
        "window": heard.window,
        "hops": packed(np.array(list(_hops(event_hops, events["started"])), np.int64)),
        "marks": [*happenings(run, seconds), *handover_marks(heard.handovers, names)],
        "notes": _notes(tables, heard, older),
        **{key: value for key, value in events.items() if key != "started"},
        **_load(tables, seconds),
    }
    return data


def shown(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template `replay.html` needs, from `replay_data`."""
    return {
        "title": "The run replayed from its captures",
        "legend": legend(data["window"], access_points=any(n["point"] for n in data["nodes"])),
        "feed": "replay_data.js",
        "notes": data["notes"],
    }


def _tracks(tables: RunTables) -> Iterator[int]:
    low = np.array(tables.scenario.area[:2], float)
    for node in tables.run.driven:
        points = np.array(until(node.waypoints, tables.observed), float)
        points[:, 1:] -= low
        yield from track(points)


def roads(waypoints: Sequence[tuple[float, float]]) -> list[int]:
    """Return waypoints of roads as pages take them: x, y, x, …, m; not all if there are many."""
    thinned = waypoints[:: 1 + len(waypoints) // MOST_ROADS]
    return [round(value) for point in thinned for value in point]


def _links(heard: LinkHistory) -> str:
    """Pack stretches, which are sorted by pair, in tenths of a second."""
    spans = np.rint(heard.spans * 10).astype(np.int64).tolist()
    rows = zip(heard.pairs.tolist(), spans, strict=True)
    by_pair = itertools.groupby(rows, key=lambda row: row[0])
    return packed(stretches((pair, [span for _, span in of]) for pair, of in by_pair))


def _visible(tables: RunTables, event_hops: Hops) -> set[tuple[int, int]]:
    """Return the events to show: the sample, or all, also those that no radio carried."""
    visible = set(event_hops.events)
    if event_hops.of == len(event_hops.events):
        events = tables.table("events")
        visible |= set(zip(events["publisher"], events["sequence"], strict=True))
    return visible


def _older(tables: RunTables, visible: Collection[tuple[int, int]]) -> dict[str, Counter[int]]:
    """Return by node how many other events were published, due and got; empty if there are none."""

    def others(table: pd.DataFrame) -> pd.DataFrame:
        keys = zip(table["publisher"], table["sequence"], strict=True)
        return table[np.array([key not in visible for key in keys], np.bool_)]

    events, due = others(tables.table("events")), others(tables.table("delivery"))
    if events.empty:
        return {}
    due = due[due["expected"].eq(True)]
    receivers = due["receiver"]
    columns = {
        "published": events["publisher"], "due": receivers, "got": receivers[due["delay"].notna()]
    }  # fmt: skip
    return {key: Counter(column.tolist()) for key, column in columns.items()}


def _events(tables: RunTables, visible: Collection[tuple[int, int]]) -> dict[str, Any]:
    """Return `events`, packed.

    Each has publisher, sequence, topic, time since the one before; the number of clients that it is
    for or that got it, and for each of these the node, whether expected, delay plus one (0: none).
    Also `topics`, and `started`: the tick at which each event was published.
    """
    index = {node.id: number for number, node in enumerate(tables.scenario.nodes)}
    frame = tables.table("events")
    delivery = tables.table("delivery")
    clients: dict[tuple[int, int], list[int]] = {}
    columns = ("publisher", "sequence", "receiver", "expected", "delay")
    for publisher, sequence, receiver, expected, delay in zip(
        *(delivery[name].tolist() for name in columns), strict=True
    ):
        if (publisher, sequence) in visible and receiver in index:
            arrived = 0 if delay is None or np.isnan(delay) else 1 + round(delay * TICKS)
            of = clients.setdefault((publisher, sequence), [])
            of += [index[receiver], int(bool(expected)), max(0, arrived)]
    topics: dict[str, int] = {}
    numbers: list[int] = []
    started: dict[tuple[int, int], int] = {}
    before = 0
    published = [
        (float(time), int(publisher), int(sequence), topic)
        for time, publisher, sequence, topic in zip(
            *(frame[name].tolist() for name in ("time", "publisher", "sequence", "topic")),
            strict=True,
        )
        if (publisher, sequence) in visible and publisher in index
    ]
    for time, publisher, sequence, topic in sorted(published, key=lambda event: event[:3]):
        at = max(0, round(time * TICKS))
        started[publisher, sequence] = at
        named = printable(topic) if isinstance(topic, str) else ""
        number = topics.setdefault(named, len(topics))
        to = clients.get((publisher, sequence), [])
        numbers += [index[publisher], sequence, number, at - before, len(to) // 3, *to]
        before = at
    return {"events": packed(numbers), "topics": list(topics), "started": started}


def _hops(event_hops: Hops, started: Mapping[tuple[int, int], int]) -> Iterator[int]:
    """Yield the hops of each event that `events` lists.

    Number of transmissions, and for each its time since the one before, sender, hops, time in
    flight, number of receivers, receivers.
    """
    by_event: dict[tuple[int, int], list[Any]] = {}
    for sent in event_hops.transmissions:
        by_event.setdefault(event_hops.events[sent.event], []).append(sent)
    for event, began in started.items():
        sents = by_event.get(event, [])
        yield len(sents)
        before = began
        for sent in sents:
            at = max(before, sent.sent * TICKS // 10**9)
            on_way = max(1, (sent.arrived - sent.sent) * TICKS // 10**9)
            yield from (at - before, sent.sender, sent.hops, on_way, len(sent.receivers))
            yield from sent.receivers
            before = at


def _load(tables: RunTables, seconds: float) -> dict[str, Any]:
    index = {node.id: number for number, node in enumerate(tables.scenario.nodes)}
    load = tables.table("load")
    return packed_load(load, [index.get(node) for node in load["node_id"]], len(index), seconds)


def _notes(tables: RunTables, heard: LinkHistory, older: Mapping[str, Counter[int]]) -> list[str]:
    notes = []
    if older:
        events = len(tables.table("events"))
        notes.append(
            f"To keep this page small, it shows {events - older['published'].total()} of {events} "
            "events, spread evenly over the run; a node's numbers of events, and the figures, are "
            "of all."
        )
    if heard.step > STEP:
        notes.append(f"In so long a run links are shown to {number(heard.step)} s.")
    if heard.left_out:
        notes.append(f"Links left out: {heard.left_out}, the shortest-lived.")
    if tables.scenario.contacts is not None:
        notes.append("Contacts have no positions: stations are drawn on a circle.")
    if tables.summary.get("epoch_estimated"):
        notes.append("Time 0 is estimated from the captures, and positions with it.")
    return notes
