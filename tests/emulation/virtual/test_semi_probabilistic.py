"""Semi-probabilistic forwarding over the virtual clock's radio, on `roaming_field`."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.kinds import CommonKind
from nodeapp.wire import BROADCAST, decode, decode_addressees
from topologies.catalog import make_scenario


class Copies(NamedTuple):
    """A frame that carries an event, and the neighbours that shall take it."""

    addressees: frozenset[int]


class EventCounter(NullRecorder):
    """Counts the frames of events, the neighbours they address, and those that receive them."""

    def __init__(self) -> None:
        self.frames = 0
        self.addressed = 0
        self.received = 0
        self.sha = hashlib.sha256()

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Take note of a datagram that a node sends."""
        self.sha.update(f"{time} {station} {to}".encode() + datagram)
        frame = decode(datagram)
        if frame.kind != CommonKind.EVENT or (to == BROADCAST and not frame.route):
            return super().sent(time, station, to, datagram)
        nodes = decode_addressees(frame.route) if to == BROADCAST else (to,)
        self.frames += 1
        self.addressed += len(nodes)
        return [Copies(frozenset(nodes))]

    def heard(self, time: float, stations: list[int], packet: Packet) -> None:
        """Take note of who received it; stations count from 0, nodes from 1."""
        if isinstance(packet, Copies):
            self.received += sum(station + 1 in packet.addressees for station in stations)


class Outcome(NamedTuple):
    """What a run showed."""

    recorder: EventCounter
    notified: int
    counters: Counter[str]


@functools.cache
def flooded() -> int:
    """Return how often flooding notifies."""
    return outcome("flooding").notified


def outcome(protocol: str, seed: int = 5, **parameters: Any) -> Outcome:
    """Run 20 roaming nodes for 40 s."""
    settings = {"nodes": 20, "speed": 2, "interval": 1.0, **parameters}
    scenario = make_scenario("roaming_field", protocol, seed=seed, duration=40, settings=settings)
    recorder = EventCounter()
    simulation = Simulation(scenario, recorder)
    simulation.run()
    assert not simulation.problems
    counters: Counter[str] = Counter()
    notified = 0
    for node in simulation.nodes:
        counters += node.service.counters
        notified += node.clients.counters["notified"]
    assert counters["malformed"] == counters["unexpected kind"] == 0
    return Outcome(recorder, notified, counters)


@pytest.mark.slow
@pytest.mark.parametrize("addressing", ["unicast", "list"])
def test_roaming_nodes_get_almost_all_that_flooding_brings(addressing: str) -> None:
    parameters: dict[str, Any] = {}
    for horizon, fraction in ((8, 0.0), (2, 0.5)):
        parameters = {"horizon": horizon, "fraction": fraction, "addressing": addressing}
        found = outcome("semi-probabilistic", **parameters)
        assert flooded() * 0.97 <= found.notified <= flooded()
        assert found.counters["sent by subscription"] > 0
        assert bool(found.counters["sent at random"]) == (fraction > 0)
    if addressing == "list":
        again = outcome("semi-probabilistic", **parameters)  # with random choices
        assert again.recorder.sha.digest() == found.recorder.sha.digest()


@pytest.mark.slow
def test_unicasts_are_repeated_and_lists_are_fewer_frames() -> None:
    reliability = {}
    frames = {}
    notified: Counter[str] = Counter()
    for addressing in ("unicast", "list"):
        sent = addressed = received = 0
        for seed in (1, 2):
            found = outcome(
                "semi-probabilistic",
                seed=seed,
                propagation="logNormalShadowing",
                horizon=8,
                fraction=0,
                addressing=addressing,
            )
            sent += found.recorder.frames
            addressed += found.recorder.addressed
            received += found.recorder.received
            notified[addressing] += found.notified
        reliability[addressing] = received / addressed
        frames[addressing] = sent / addressed
    assert frames["unicast"] == 1.0
    assert frames["list"] < 0.6
    assert reliability["unicast"] > reliability["list"] + 0.02
    assert notified["unicast"] > notified["list"]
