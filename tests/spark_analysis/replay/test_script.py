"""The replay of a script's network."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from spark_analysis.measures.script import ScriptTables
from spark_analysis.replay.script import script_replay
from tests.spark_analysis.replay.test_replay import unpacked

NODES = ("walker", "late", "one", "two")
RADIOS = [
    {"interface": f"{name}-wlan0", "node": name, "mode": mode}
    for name, mode in zip(NODES, ("managed", "managed", "master", "master"), strict=True)
]
SECOND = {"interface": "walker-wlan1", "node": "walker", "mode": "managed"}
Change = tuple[float, str, str | None, str | None]


def tables(
    positions: list[tuple[float, str, float, float]],
    further: Sequence[Change] = (),
    peers: Sequence[tuple[float, str, str]] = (),
) -> ScriptTables:
    none = pd.DataFrame()
    changes: list[Change] = [
        (-0.1, "walker-wlan0", None, "one-wlan0"),
        (2.0, "walker-wlan0", "one-wlan0", None),
        (2.5, "walker-wlan0", None, "one-wlan0"),
        (3.0, "walker-wlan0", "one-wlan0", "two-wlan0"),
        (2.0, "late-wlan0", None, "two-wlan0"),
        *further,
    ]
    traffic = [("walker-wlan0", 1, 5, 2), ("two-wlan0", 3, 1, 9), ("ap1-eth2", 1, 7, 7)]
    return ScriptTables(
        {"nodes": [{"name": name} for name in NODES], "radios": [*RADIOS, SECOND]},
        pd.DataFrame(positions, columns=["time", "node", "x", "y"]),
        none,
        pd.DataFrame(peers, columns=["time", "interface", "sender"]),
        pd.DataFrame(changes, columns=["time", "interface", "old", "new"]),
        pd.DataFrame(traffic, columns=["interface", "second", "sent_frames", "received_frames"]),
        none,
        none,
        none,
        none,
    )


def test_it_shows_motion_associations_handovers_and_traffic() -> None:
    still = [
        (float(time), name, x, 0.0)
        for time in range(5)
        for name, x in (("one", 0.0), ("two", 60.0))
    ]
    walk = [(float(time), "walker", 10.0 * time, 1.0) for time in range(5)]
    later = [(float(time), "late", 50.0, 2.0) for time in (2, 3, 4)]
    data = script_replay(tables([*still, *walk, *later]))
    assert data is not None
    assert data["duration"] == 4.0
    assert data["area"] == [-5.0, -5.0, 65.0, 7.0]
    assert [node["name"] for node in data["nodes"]] == list(NODES)
    assert [node["point"] for node in data["nodes"]] == [False, False, True, True]

    # Waypoints of the walker each second; of what stands still, the first and the last.
    numbers = unpacked(data["tracks"])
    counts, at = [], 0
    while at < len(numbers):
        counts.append(numbers[at])
        at += 1 + 3 * numbers[at]
    assert counts == [5, 2, 2, 2]
    assert numbers[1:7] == [0, 2 * 50, 2 * 60, 2 * 100, 2 * 100, 0]  # 10 ms, decimetres, signed

    # Node, access point, how often; begin since the last end, and length, in tenths of a second.
    assert unpacked(data["links"]) == [
        *(0, 2, 2, 0, 20, 5, 5),
        *(0, 3, 1, 30, 10),
        *(1, 3, 1, 20, 20),
    ]
    (mark,) = data["marks"]
    assert (mark["time"], mark["text"]) == (3.0, "walker hands over from one to two")
    assert mark["nodes"] == [0]
    load = unpacked(data["load"])
    assert load[2 * 1 : 2 * 1 + 2] == [5, 2]
    assert load[2 * (5 * 3 + 3) :][:2] == [1, 9]
    assert sum(load) == 5 + 2 + 1 + 9


def test_buckets_of_traffic_are_as_many_as_the_page_reads() -> None:
    way = [(time, name, 0.0, 0.0) for time in (0.0, 3.9996) for name in NODES]
    data = script_replay(tables(way))
    assert data is not None
    assert (data["duration"], data["width"]) == (4.0, 1)
    assert len(unpacked(data["load"])) == len(NODES) * 5 * 2


def test_without_positions_there_is_none() -> None:
    assert script_replay(tables([])) is None


def test_two_radios_of_a_station_at_one_access_point_are_one_link() -> None:
    way = [(float(time), name, 0.0, 0.0) for time in (0, 4) for name in NODES]
    data = script_replay(tables(way, further=[(1.0, "walker-wlan1", None, "one-wlan0")]))
    assert data is not None
    assert unpacked(data["links"])[:5] == [0, 2, 1, 0, 40]


def test_neighbours_are_linked_while_they_hear_each_other() -> None:
    way = [(float(time), name, 0.0, 0.0) for time in (0, 60) for name in NODES]
    one, other = "walker-wlan1", "late-wlan0"
    heard = [(time, one, other) for time in (0.0, 10.2, 40.0)]
    data = script_replay(tables(way, peers=[*heard, (3.0, other, one), (0.0, one, "gone-wlan0")]))
    assert data is not None
    numbers = unpacked(data["links"])
    assert numbers[:7] == [0, 1, 2, 0, 212, 188, 110]
