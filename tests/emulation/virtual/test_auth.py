from __future__ import annotations

import pytest

from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.auth import TRAILER
from topologies.catalog import make_scenario


def scenario(protocol: str, auth: str) -> Scenario:
    settings = {"nodes": 10, "speed": 5, "interval": 1, "auth": auth}
    return make_scenario("roaming_field", protocol, seed=3, duration=20.0, settings=settings)


@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr", "broker-aodv"])
def test_sealed_frames_cost_bytes_and_nothing_else_changes_for_those_with_the_key(
    protocol: str,
) -> None:
    delivered = []
    lengths: list[list[int]] = []

    class Lengths(NullRecorder):
        def sent(self, time: float, station: int, to: int, datagram: bytes):  # type: ignore[no-untyped-def]
            lengths[-1].append(len(datagram))
            return super().sent(time, station, to, datagram)

    for auth in ("none", "psk"):
        lengths.append([])
        simulation = Simulation(scenario(protocol, auth), Lengths())
        simulation.run()
        delivered.append(sum(host.service.counters["delivered"] for host in simulation.nodes))
        refused = {name for host in simulation.nodes for name in host.counters}
        assert not any(name.startswith("refused") for name in refused)
    assert delivered[0] > 20
    assert delivered[1] == pytest.approx(delivered[0], rel=0.1)
    assert min(lengths[1]) == min(lengths[0]) + TRAILER


def test_a_frame_without_the_key_is_refused() -> None:
    simulation = Simulation(scenario("broker-gpsr", "psk"), NullRecorder())
    stranger, *others = simulation.nodes
    stranger.seal = type(stranger.seal)(b"not the key of the others", 1)  # type: ignore[misc]
    simulation.run()
    assert sum(host.counters["refused: not authentic"] for host in others) > 0
