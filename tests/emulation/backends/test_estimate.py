from __future__ import annotations

import pytest

from emulation.backends.base import BackendError
from emulation.backends.realtime.estimate import beacons_received, check, events_received
from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub import registry
from topologies.catalog import make_scenario


def test_a_run_that_is_too_large_is_refused_or_warned_of_before_it_starts() -> None:
    assert check(200, available=8 << 30, cores=2) is None
    warning = check(1000, available=8 << 30, cores=2)
    assert warning is not None
    assert "1,000 nodes keep real time on 2 cores only if they send little" in warning
    assert "about 4.2 GB of memory and 20 s to start" in warning
    with pytest.raises(BackendError, match=r"5,000 nodes need about 21.0 GB .* only 8.6 GB are"):
        check(5000, available=8 << 30, cores=2)
    with pytest.raises(BackendError, match=r"500 nodes need about 12.6 GB .* free: use fewer$"):
        check(500, available=8 << 30, cores=2, service=registry.service_of("gossipsub"))


def test_beacons_of_a_dense_network_are_counted_before_it_starts() -> None:
    settings = {"nodes": 3, "topics": 0, "speed": 0, "hello_interval": 0.5}
    made = make_scenario("roaming_field", "broker-gpsr", seed=1, duration=9.0, settings=settings)
    xs = (0.0, made.radio.range or 0.0, 2.5 * (made.radio.range or 0.0))
    nodes = tuple(
        node.model_copy(update={"waypoints": (Waypoint(0.0, x, 0.0),)})
        for node, x in zip(made.nodes, xs, strict=True)
    )
    line = made.model_copy(update={"nodes": nodes})
    assert beacons_received(line) == 4.0, "two hear each other, twice a second"
    silent = line.protocol.model_copy(update={"parameters": {}})
    assert beacons_received(line.model_copy(update={"protocol": silent})) == 0.0
    assert check(100, available=8 << 30, cores=2, received=13_000) is None
    warning = check(100, available=8 << 30, cores=2, received=30_000)
    assert warning is not None
    assert "received 30,000 times a second, which takes about 3.0 of 2 cores" in warning


def test_events_that_are_flooded_are_counted_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flooded(**settings: object) -> Scenario:
        return make_scenario("roaming_field", "flooding", seed=1, duration=30.0, settings=settings)

    settings: dict[str, object] = {"nodes": 4, "subscribers": 2, "topics": 1, "interval": 0.5}
    made = flooded(**settings)
    reach = made.radio.range or 0.0
    (publisher,) = {each.node for each in made.workload if each.action == "publish"}
    first = next(node.id for node in made.nodes if node.id != publisher)
    for alone, received in ((publisher, 0), (first, 8)):
        # Three in a line, of which the middle one hears two: four receptions an event.
        xs = iter((0.0, reach, 2 * reach))
        nodes = tuple(
            node.model_copy(
                update={
                    "waypoints": (Waypoint(0.0, 9 * reach if node.id == alone else next(xs), 0.0),)
                }
            )
            for node in made.nodes
        )
        line = made.model_copy(update={"nodes": nodes})
        assert events_received(line) == pytest.approx(received, rel=0.1)
    sent_twice = line.protocol.model_copy(update={"parameters": {"repeat": 2}})
    twice = line.model_copy(update={"protocol": sent_twice})
    assert events_received(twice) == 2 * events_received(line)
    newcomer = {"newcomer": registry.PROTOCOLS["flooding"]}
    monkeypatch.setattr(registry, "SYSTEMS", {**registry.SYSTEMS, **newcomer})
    named = line.protocol.model_copy(update={"name": "newcomer"})
    by_newcomer = line.model_copy(update={"protocol": named})
    assert events_received(by_newcomer) == events_received(line), "the protocol says that it floods"
    other = make_scenario("roaming_field", "broker-gpsr", seed=1, duration=30.0, settings=settings)
    assert events_received(other) == 0.0, "its ways are not known before"

    many = events_received(flooded(nodes=200, interval=0.05))
    warning = check(200, available=8 << 30, cores=2, events=many)
    assert warning is not None
    assert "flooded events alone are received" in warning
    assert "publish less often, or use fewer" in warning
    assert (
        check(200, available=8 << 30, cores=2, events=events_received(flooded(nodes=200))) is None
    )
    both = check(100, available=8 << 30, cores=2, received=9_000, events=8_000)
    assert both is not None
    assert both.startswith("beacons and flooded events alone are received 17,000 times a second")
