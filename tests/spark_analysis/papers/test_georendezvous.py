"""The paper's graph computation is what the protocol does, and its closed forms are right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scapy.utils import RawPcapReader

from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import EPOCH_NS, PcapRecorder
from nodeapp import wire
from nodeapp.addressing import node_of
from nodeapp.node import LIMITED_BROADCAST
from nodeapp.wire import BROADCAST, Kind
from spark_analysis.papers.claims import Verdict, judge
from spark_analysis.papers.cost import preset_cost
from spark_analysis.papers.figures import drawn
from spark_analysis.papers.georendezvous import graph, plane, runs
from spark_analysis.papers.georendezvous.networks import CellNetwork, hops_from, transmissions
from spark_analysis.papers.georendezvous.theorem import theorem
from spark_analysis.papers.georendezvous.voids import without_voids
from spark_analysis.papers.registry import load_paper
from spark_analysis.papers.reproduction import judgement


def test_the_protocol_takes_the_ways_of_the_graph() -> None:
    of_graph = {row["replicas"]: row for row in graph.by_replicas(80, True, 3)}
    for row in runs.ways(80, 3):
        assert row["missing"] == 0
        for column in ("through", "direct", "radio", "ratio", "ratio_each"):
            assert row[column] == of_graph[row["replicas"]][column]


def test_the_protocols_trees_are_those_of_the_graph() -> None:
    found, wanted = runs.trees(80, 4, 2), graph.by_subscribers(80, 4, 2)
    assert found.pop("missing") == 0
    assert found == wanted


def test_a_subscriber_that_tries_several_cells_has_three_unnecessary_messages_for_each() -> None:
    rows = {tried: runs.signalling(80, tried, 1) for tried in (1, 3)}
    assert rows[1]["unnecessary"] == 0
    assert 5.0 < rows[3]["unnecessary"] <= 6.0  # but for messages that need no radio
    assert rows[3]["demand"] <= 3.0
    assert all(row["delivered"] == 1.0 for row in rows.values())
    assert rows[3]["stored"] > rows[1]["stored"] > 0
    assert 0 < rows[3]["delay"] < 0.1


def node_at(address: bytes) -> int:
    text = str(IPv4Address(address))
    return BROADCAST if text == LIMITED_BROADCAST else node_of(text)


class Captured(PcapRecorder):
    """Writes captures, and reads off them what `runs` counts."""

    def __init__(self, scenario: Scenario, folder: RunFolder) -> None:
        folder.begin(scenario)
        super().__init__(scenario, folder)
        self._scenario, self._folder = scenario, folder

    @property
    def sent_frames(self) -> list[runs.SentFrame]:
        return [sent for _, node, sent in self._read() if sent.sender == node]

    @property
    def heard_frames(self) -> list[tuple[float, int, runs.SentFrame]]:
        return [each for each in self._read() if each[2].sender != each[1]]

    def _read(self) -> list[tuple[float, int, runs.SentFrame]]:
        """Return what the radios' captures hold, but for beacons and what was heard of floods."""
        self.close()
        found = []
        for node in self._scenario.nodes:
            for packet, meta in RawPcapReader(str(self._folder.radio_capture(node))):
                source, to = (node_at(packet[offset : offset + 4]) for offset in (26, 30))
                frame = wire.decode(packet[42:])  # Ethernet, IPv4, UDP
                if frame.kind == Kind.HELLO or (to == BROADCAST and source != node.id):
                    continue
                nanoseconds = (meta.sec * 10**9 + meta.usec) - EPOCH_NS
                sent = runs.SentFrame(nanoseconds / 1e9, source, to, frame)
                found.append((sent.time, node.id, sent))
        return sorted(found, key=itemgetter(0))


def test_what_runs_count_is_in_their_captures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = runs.signalling(80, 3, 1)
    monkeypatch.setattr(runs, "_Recorder", lambda scenario: Captured(scenario, RunFolder(tmp_path)))
    assert runs.signalling(80, 3, 1) == pytest.approx(counted, rel=1e-6)
    assert {path.suffix for path in (tmp_path / "captures").iterdir()} == {".pcap"}
    assert counted["unnecessary"] > 5
    assert counted["duplicates"] == 2


def test_ways_of_the_graph_are_ways() -> None:
    network = CellNetwork(150, 5)
    linked = network.linked()
    for pair in network.pairs(5):
        (subscriber,) = pair.subscribers
        way = network.to_node(pair.publisher, subscriber, pair.event)
        assert (way[0], way[-1]) == (pair.publisher, subscriber)
        assert all(linked[one - 1, two - 1] for one, two in transmissions([way]))
        shortest = hops_from(linked, pair.publisher - 1)[subscriber - 1]
        assert shortest <= len(way) - 1


def test_a_way_over_a_random_point_of_the_plane_is_twice_the_direct_one() -> None:
    ratios = [next(iter(plane.plane_by_replicas(seed)))["ratio"] for seed in range(20)]
    assert np.mean(ratios) == pytest.approx(2.0, abs=0.02)  # E|PR| + E|RS| over E|PS|
    more = [row["ratio"] for row in plane.plane_by_replicas(1)]
    assert more == sorted(more, reverse=True)
    assert min(more) > 1
    nearest = [row["ratio"] for row in plane.plane_by_nearest(1)]
    assert nearest[-1] == pytest.approx(more[3], abs=0.03)  # all of 8


def test_moves_between_cells_and_voids_are_switched_on_one_by_one() -> None:
    def eight(rows: Iterable[Mapping[str, Any]], method: str) -> float:
        return float(next(r["ratio"] for r in rows if (r["replicas"], r["method"]) == (8, method)))

    straight = np.mean([list(plane.plane_by_replicas(seed))[3]["ratio"] for seed in range(20)])
    moves = [list(plane.plane_by_moves(seed)) for seed in range(20)]
    by_moves, in_cells = (np.mean([eight(r, m) for r in moves]) for m in ("moves", "cells"))
    assert straight - 0.02 < by_moves < straight - 0.003
    assert in_cells == pytest.approx(by_moves, abs=0.005)
    # Greedy ways go around voids: shortest ways need not, and need not at all if there are none.
    greedy = next(iter(graph.by_replicas(300, True, 4)))["direct"]
    direct = {row["method"]: row["direct"] for row in without_voids(300, 4)}
    assert direct["full"] < direct["shortest"] < 0.8 * greedy
    # Most networks have none in the way of their 20 pairs.
    greedy = next(iter(graph.by_replicas(300, True, 1)))["direct"]
    assert {row["direct"] for row in without_voids(300, 1)} == {greedy}


def test_columns_are_curves_of_their_own() -> None:
    paper = load_paper("georendezvous")
    rows = pd.DataFrame(list(theorem(80, 1))).assign(study="theorem", nodes=80, seed=1)
    [figure] = [
        each
        for each in drawn(paper, judgement(paper, paper.base, rows))
        if each.figure.quantity.column == "constant"
    ]
    curves = {name: curve[0][1].mean for name, curve in figure.panels[""].items()}
    assert curves == {
        "Delta": rows["growth"][0],
        "epsilon = E[l]/L": pytest.approx(rows["epsilon"][0]),
        "L, hops": rows["diameter"][0],
    }


def test_the_theorem_bounds_what_is_measured() -> None:
    rows = list(theorem(80, 1))
    assert all(0 < row["bound"] < row["probability"] <= 1 for row in rows)
    assert [row["probability"] for row in rows] == sorted(row["probability"] for row in rows)


def test_claims_can_fail() -> None:
    paper = load_paper("georendezvous")
    points = pd.DataFrame(
        {"study": "signalling", "nodes": 600, "tried": 2, "seed": seed, "unnecessary": value}
        for seed, value in enumerate((3.0, 2.95, 2.98))
    )
    [claim] = [each for each in paper.claims if each.key == "unnecessary"]
    for factor, verdict in ((1.0, Verdict.HOLDS), (1.5, Verdict.FAILS)):
        rows = points.assign(unnecessary=points["unnecessary"] * factor)
        [finding] = judge([claim], rows)
        assert finding.verdict is verdict
    same = dataclasses.replace(claim, studies=("graph",))
    assert judge([same], points) == []


def test_ways_are_not_the_same_if_notifications_did_not_come() -> None:
    paper = load_paper("georendezvous")
    ways = pd.DataFrame(
        {"study": study, "nodes": 400, "replicas": 2, "seed": seed, "through": 9.0, "missing": 0}
        for study in ("graph", "protocol") for seed in (1, 2, 3)
    )  # fmt: skip
    trees = pd.DataFrame(
        {"study": study, "subscribers": 8, "seed": seed, "length_several": 9.0, "length_one": 8.0,
         "missing": 0}
        for study in ("trees", "protocol-trees") for seed in (1, 2, 3)
    )  # fmt: skip
    points = pd.concat([ways, trees])
    [claim] = [each for each in paper.claims if each.key == "same-ways"]
    assert [finding.verdict for finding in judge([claim], points)] == [Verdict.HOLDS]
    lost = (points["study"] == "protocol") & (points["seed"] == 2)
    points.loc[lost, ["through", "missing"]] = [float("nan"), 16]
    assert [finding.verdict for finding in judge([claim], points)] != [Verdict.HOLDS]


def test_the_presets_say_what_they_cost() -> None:
    paper = load_paper("georendezvous")
    for name, least in (("quick", 10), ("paper", 300)):
        preset = paper.preset(name)
        assert preset is not None
        assert least < preset_cost(paper, preset).seconds < 75 * 60
