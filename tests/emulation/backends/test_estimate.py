from __future__ import annotations

import pytest

from emulation.backends.base import BackendError
from emulation.backends.realtime.estimate import beacons_received, check
from emulation.mobility.trajectory import Waypoint
from topologies.catalog import make_scenario


def test_a_run_that_is_too_large_is_refused_or_warned_of_before_it_starts() -> None:
    assert check(200, available=8 << 30, cores=2) is None
    warning = check(1000, available=8 << 30, cores=2)
    assert warning is not None
    assert "1,000 nodes keep real time on 2 cores only if they send little" in warning
    assert "about 4.2 GB of memory and 20 s to start" in warning
    with pytest.raises(BackendError, match=r"5,000 nodes need about 21.0 GB .*, and 8.6 GB are"):
        check(5000, available=8 << 30, cores=2)


def test_beacons_of_a_dense_network_are_counted_before_it_starts() -> None:
    settings = {"nodes": 3, "topics": 0, "speed": 0, "hello_interval": 0.5}
    made = make_scenario("roaming_field", "broker-gpsr", seed=1, duration=9.0, settings=settings)
    places = (0.0, made.radio.range or 0.0, 2.5 * (made.radio.range or 0.0))
    nodes = tuple(
        node.model_copy(update={"waypoints": (Waypoint(0.0, x, 0.0),)})
        for node, x in zip(made.nodes, places, strict=True)
    )
    line = made.model_copy(update={"nodes": nodes})
    assert beacons_received(line) == 4.0, "two hear each other, twice a second"
    silent = line.protocol.model_copy(update={"parameters": {}})
    assert beacons_received(line.model_copy(update={"protocol": silent})) == 0.0
    assert check(100, available=8 << 30, cores=2, received=13_000) is None
    warning = check(100, available=8 << 30, cores=2, received=30_000)
    assert warning is not None
    assert "received 30,000 times a second, which takes about 3.0 of 2 cores" in warning
