from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Message
from emulation.virtual.host import VirtualHost
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.auth import TRAILER, Seal
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.routing.gpsr import Gpsr
from nodeapp.routing.neighbours import Neighbours
from nodeapp.wire import Frame
from topologies.catalog import make_scenario


def scenario(protocol: str, auth: str, **settings: object) -> Scenario:
    settings |= {"nodes": 10, "speed": 5, "interval": 1, "auth": auth}
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


def test_a_message_that_is_overheard_in_each_of_its_tries_is_no_replay() -> None:
    settings = {"piggyback": True, "promiscuous": True}
    simulation = Simulation(scenario("broker-gpsr", "psk", **settings), NullRecorder())
    sender, listener, *_ = simulation.nodes
    frames: list[tuple[Frame, int]] = []
    listener.overheard = lambda frame, node: frames.append((frame, node))
    assert sender.seal is not None
    frame = Frame(CommonKind.HELLO, sender.node_id)
    message = Message(sender.node_id, sender.seal.seal(frame.encode(), 1.0), 1)
    for _ in range(2):
        simulation._overheard(1.0, [listener.index], (message, 0, None))
    assert frames == [(frame, sender.node_id)] * 2
    assert not listener.counters
    again = Message(sender.node_id, message.datagram, 1)
    for _ in range(2):
        simulation._overheard(1.0, [listener.index], (again, 0, None))
    assert len(frames) == 2
    assert listener.counters == {"refused: a replay, or its clock went back": 1}


def test_nothing_reaches_a_protocol_that_was_forged_or_recorded() -> None:
    """Sent to a node, and overheard by it."""
    recorded: list[Message] = []

    class Recording(NullRecorder):
        def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
            recorded.append(Message(station + 1, datagram, 1))
            return super().sent(time, station, to, datagram)

    made = scenario("broker-gpsr", "psk", piggyback=True, promiscuous=True)
    simulation = Simulation(made, Recording())
    stranger, *others = simulation.nodes
    stranger.seal = Seal(b"not the key of the others", stranger.node_id)
    simulation.run()
    assert sum(host.counters["refused: not authentic"] for host in others) > 0
    rng = random.Random(1)
    for host in others:
        assert isinstance(host.service, DecisionPoint)
        assert isinstance(host.service.router, Gpsr)
        table = host.service.router.neighbours
        assert table.current()
        assert stranger.node_id not in table.current()

        def state(host: VirtualHost = host, table: Neighbours = table) -> object:
            heard = {node: each.heard for node, each in table.current().items()}
            return Counter(host.service.counters), heard

        def play(message: Message, *, overheard: bool, host: VirtualHost = host) -> None:
            play_to = simulation._overheard if overheard else simulation.hand
            play_to(simulation.clock.now, [host.index], (message, 0, None))

        for message in rng.sample(recorded, 100):
            # What it has not got can be played to it, once (docs/security.md).
            play(message, overheard=False)
            before = state()
            changed = bytearray(message.datagram)
            changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
            for forged in (message, Message(message.sender, bytes(changed), 1)):
                play(forged, overheard=False)
                play(forged, overheard=True)
            assert state() == before
        assert stranger.node_id not in table.current()
