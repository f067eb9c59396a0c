"""Overlays whose peers crash and come back, with their clients, under the virtual clock."""

from __future__ import annotations

from collections import defaultdict

from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp import wire
from nodeapp.events import Filter
from nodeapp.kinds import ClientKind
from topologies.catalog import make_scenario

CRASH, MISSED, BACK, SETTLED = 40.0, 51.0, 65.0, 70.0
BEATS = {"heartbeat_interval": 2.0, "heartbeat_timeout": 7.0}


class _Told(NullRecorder):
    """Who was told of an event."""

    def __init__(self) -> None:
        self.told: dict[tuple[int, int], set[int]] = defaultdict(set)

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        if to_client and datagram[1] == ClientKind.NOTIFY:
            frame = wire.decode(datagram)
            self.told[frame.publisher, frame.sequence].add(station + 1)


def test_mirinae_goes_on_without_peers_that_crash_and_with_them_when_they_are_back() -> None:
    settings = {"nodes": 24, "events": 30, "interests": 3, "stocks": 8}
    fault = {"faults": f"crash 25% at {CRASH:g} for {BACK - CRASH:g}"}
    scenario = make_scenario(
        "stock_peers", "mirinae", seed=2, duration=100.0, settings=settings | BEATS | fault
    )
    ids = {node.name: node.id for node in scenario.nodes}
    down = {ids[name] for fault in scenario.faults for name in fault.nodes}
    assert len(down) == 6
    wanted: dict[int, list[Filter]] = defaultdict(list)
    recorder = _Told()
    Simulation(scenario, recorder).run()
    due: dict[str, list[bool]] = defaultdict(list)
    for each in scenario.workload:
        if each.action == "subscribe":
            wanted[each.node].append(Filter.decode([list(part) for part in each.filter]))
            continue
        when = next(
            name
            for end, name in (
                (CRASH, "before"),
                (MISSED, "unnoticed"),
                (BACK, "without"),
                (SETTLED, "coming"),
                (100.0, "with"),
            )
            if each.time < end
        )
        away = down if CRASH <= each.time < SETTLED else set()
        if each.action == "publish" and each.node not in away:
            for node in wanted.keys() - away - {each.node}:
                if any(filter_.matches(each.event) for filter_ in wanted[node]):
                    due[when].append(node in recorder.told[each.node, each.sequence])
    assert min(len(made) for made in due.values()) > 10
    assert all(due["before"])
    assert not all(due["unnoticed"])  # those beyond the crashed ones, until they are missed
    assert all(due["without"])
    assert all(due["with"])
