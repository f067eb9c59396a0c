"""GPSR with all that its published form has from the radio, over the virtual clock's radio."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emulation.backends.base import BackendError
from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder, PcapRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.kinds import CommonKind
from nodeapp.wire import WITH_SENDER, decode
from tests.emulation.mesh_lab import recorded
from tests.nodeapp.network import AS_PUBLISHED
from topologies.catalog import make_scenario

BROADCAST = b"\xff" * 6
HEADERS = 14 + 20 + 8
"""Bytes before a frame in a packet."""


def roaming(
    parameters: dict[str, Any], nodes: int = 15, speed: float = 20, duration: float = 20
) -> Scenario:
    settings = {"nodes": nodes, "speed": speed, "interval": 0.5, "topics": 2, **parameters}
    return make_scenario(
        "roaming_field", "broker-gpsr", seed=5, duration=duration, settings=settings
    )


@pytest.mark.slow
def test_what_is_overheard_counts_as_nobodys_traffic(tmp_path: Path) -> None:
    kinds: dict[bool, Counter[int]] = {}
    for published in (False, True):
        scenario = roaming(AS_PUBLISHED if published else {}, nodes=9, duration=14)
        folder = RunFolder.create(tmp_path, scenario)
        simulate(scenario, folder, PcapRecorder(scenario, folder))
        sent = kinds[published] = Counter()
        for node in scenario.nodes:
            own = bytes.fromhex(node.mac.replace(":", ""))
            for _, packet in recorded(folder.port_capture(node.interface)):
                destination, source = packet[:6], packet[6:12]
                assert own in (source, destination) or destination == BROADCAST
                frame = decode(packet[HEADERS:])
                if source == own:
                    sent[frame.kind] += 1
                located = bool(frame.route) and bool(frame.route[0] & WITH_SENDER)
                assert located == (published and frame.kind != CommonKind.HELLO)
    assert kinds[True][CommonKind.HELLO] < 0.5 * kinds[False][CommonKind.HELLO]
    assert kinds[True][CommonKind.EVENT] > 0


@pytest.mark.slow
@pytest.mark.parametrize("proximity", [0.5, 0])
def test_fast_nodes_lose_less_with_what_the_radio_tells(proximity: float) -> None:
    delivered = {}
    counters: Counter[str] = Counter()
    basic = {"prediction": False, "beyond_range": True, "proximity": proximity}
    for name, parameters in (("published", AS_PUBLISHED | basic), ("without", basic)):
        scenario = roaming(parameters, nodes=40, speed=40)
        simulation = Simulation(scenario, NullRecorder())
        simulation.run()
        assert not simulation.problems
        delivered[name] = sum(node.service.counters["delivered"] for node in simulation.nodes)
        if name == "published":
            for node in simulation.nodes:
                counters += node.service.counters
    assert counters["frames not acknowledged"] > 0
    assert counters["frames withdrawn"] > 0
    assert counters["malformed"] == counters["unexpected kind"] == 0
    assert delivered["published"] > delivered["without"] > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link_feedback": True}, "link_feedback: this link layer does not tell"),
        ({"piggyback": True, "promiscuous": True}, "promiscuous: radios here get no frames"),
    ],
)
def test_access_points_are_refused_what_their_stations_cannot_hear(
    parameters: dict[str, Any], message: str, tmp_path: Path
) -> None:
    scenario = make_scenario("mesh_grid", "broker-gpsr", seed=1, duration=30, settings=parameters)
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=message):
        simulate(scenario, folder, NullRecorder())
