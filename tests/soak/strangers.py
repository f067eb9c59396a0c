"""What a stranger without the key does to each protocol: the numbers of docs/security.md.

Runs each protocol under the virtual clock for 80 s, without and with a stranger who stands in the
middle from second 20 on, hears all that is sent within radio range, and sends what an attack says,
in whoever's name, to those within range; in an overlay that is everybody.  Attacks by one frame
(for each node) take place at second 20, others until second 40.  Figures are the frames that the
stranger sent, and the deliveries as a share of those without him: of events from 20 to 40 s, and
from 50 s on.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Message
from emulation.virtual.host import VirtualHost
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event, fingerprint
from nodeapp.kinds import CommonKind, Role
from nodeapp.pubsub.mesh.messages import MeshKind, Report, decode_report
from nodeapp.pubsub.messages import TopicKind, decode_located, encode_located
from nodeapp.pubsub.over_aodv import BrokerAodv, RendezvousAodv
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.overlay.mirinae import Mirinae
from nodeapp.pubsub.overlay.peer import SemanticOverlay
from nodeapp.pubsub.registry import PROTOCOLS, kinds_of, service_of
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.routing.neighbours import encode_hello
from nodeapp.routing.tree_beacon import TreeBeacon
from nodeapp.wire import BROADCAST, Frame, decode
from topologies.catalog import make_scenario

START, END, AFTER, DURATION = 20.0, 40.0, 50.0, 80.0
STRANGER: Final = 60_000
REACTION: Final = 0.002
"""Seconds after which the stranger repeats what it hears."""
AGAIN: Final = 0.9
"""Share of the deliveries without him from which a protocol has recovered."""
LATEST: Final = 40
"""Frames of a kind that it keeps."""


@dataclass
class Stranger(NullRecorder):
    """Hears what is sent near the middle, and sends to those who are there."""

    attack: Attack | None
    simulation: Simulation | None = None
    frames: int = 0

    def __post_init__(self) -> None:
        self.overheard: dict[int, list[tuple[int, Frame, int]]] = {}
        """By kind: sender, frame, and to whom it was sent."""

    def near(self) -> list[int]:
        """Return the indices of the nodes within radio range of the middle of the area."""
        assert self.simulation is not None
        environment = self.simulation.scenario.environment()
        if environment.wired:
            return list(range(len(self.simulation.nodes)))
        x0, y0, x1, y1 = environment.area
        middle = (x0 + x1) / 2, (y0 + y1) / 2
        places = ((host.index, host.position()) for host in self.simulation.nodes)
        return [i for i, at in places if math.dist(middle, at[:2]) <= environment.radio_range]

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Hear a frame, if it is sent nearby."""
        if self.attack is not None and time > START / 2 and station in self.near():
            assert self.simulation is not None
            sender, frame = self.simulation.nodes[station].node_id, decode(datagram)
            known = self.overheard.setdefault(frame.kind, [])
            known.append((sender, frame, to))
            del known[:-LATEST]
            if self.attack.at_once is not None and START <= time < END:
                self.simulation.clock.call_later(REACTION, self.attack.at_once, self, sender, frame)
        return super().sent(time, station, to, datagram)

    def send(self, frame: Frame, sender: int = STRANGER, to: int = BROADCAST) -> None:
        """Send a frame in the name of `sender` to one node, or to all."""
        simulation = self.simulation
        assert simulation is not None
        receivers = [i for i in self.near() if simulation.nodes[i].node_id != sender]
        self.frames += 1
        if to != BROADCAST:
            receivers = [i for i in receivers if simulation.nodes[i].node_id == to]
        simulation.hand(
            simulation.clock.now, receivers, (Message(sender, frame.encode(), 1), 0, None)
        )

    def tick(self) -> None:
        """Attack, and again in a second."""
        assert self.simulation is not None
        assert self.attack is not None
        if self.attack.each_second is not None:
            self.attack.each_second(self)
        now = self.simulation.clock.now
        if not self.attack.once and now + 1.0 < END:
            self.simulation.clock.call_later(1.0, self.tick)


@dataclass(frozen=True)
class Attack:
    """What a stranger does."""

    name: str
    fits: Callable[[str], bool]
    each_second: Callable[[Stranger], None] | None = None
    at_once: Callable[[Stranger, int, Frame], None] | None = None
    once: bool = False


def events_of(stranger: Stranger) -> list[tuple[int, Frame, int]]:
    return [each for kind in kinds_of(Role.EVENT) for each in stranger.overheard.get(kind, ())]


def forge_numbers(stranger: Stranger) -> None:
    for sender, frame, to in events_of(stranger)[-10:]:
        for ahead in (1, 2000, 2**30):
            stranger.send(frame._replace(sequence=(frame.sequence + ahead) % 2**31), sender, to)


def replay(stranger: Stranger) -> None:
    for sender, frame, to in events_of(stranger):
        stranger.send(frame, sender, to)


def copy_early(stranger: Stranger, sender: int, frame: Frame) -> None:
    if frame.kind == CommonKind.EVENT:
        stranger.send(frame._replace(ttl=0, hops=frame.hops + 1))


def own_numbers(stranger: Stranger) -> list[tuple[int, int]]:
    """Return nodes and their sequence numbers, which AODV tells everybody."""
    assert stranger.simulation is not None
    numbers = []
    for host in stranger.simulation.nodes:
        assert isinstance(host.service, BrokerAodv | RendezvousAodv)
        numbers.append((host.node_id, host.service.router.sequence))  # type: ignore[attr-defined]
    return numbers


def request_once(stranger: Stranger) -> None:
    for node, number in own_numbers(stranger):
        body = aodv_wire.RouteRequest(aodv_wire.UNKNOWN, 2**31, 0, number + 2**30).encode()
        stranger.send(Frame(AodvKind.ROUTE_REQUEST, node, STRANGER + 1, ttl=30, body=body))


def reply(stranger: Stranger, ahead: int) -> None:
    assert stranger.simulation is not None
    near = [stranger.simulation.nodes[i].node_id for i in stranger.near()]
    for node, number in own_numbers(stranger):
        body = aodv_wire.RouteReply(node, number + ahead, 0, 6.0).encode()
        for to in near:
            stranger.send(Frame(AodvKind.ROUTE_REPLY, STRANGER, to, ttl=30, body=body), to=to)


def hello_everywhere(stranger: Stranger) -> None:
    """Send the beacons of made up nodes around."""
    assert stranger.simulation is not None
    x0, y0, x1, y1 = stranger.simulation.scenario.environment().area
    reach = stranger.simulation.scenario.environment().radio_range
    for number in range(16):
        turn = number * math.pi / 8
        x = (x0 + x1) / 2 + reach * math.cos(turn)
        y = (y0 + y1) / 2 + reach * math.sin(turn)
        node = STRANGER + number
        stranger.send(Frame(CommonKind.HELLO, node, body=encode_hello(x, y, 0.0, 0.0)), node)


def move_subscriptions(stranger: Stranger) -> None:
    for sender, frame, to in stranger.overheard.get(TopicKind.SUBSCRIPTION, ()):
        _, stamp, item = decode_located(frame.body)
        body = encode_located((0.0, 0.0), stamp + 5000, item)
        stranger.send(frame._replace(body=body), sender, to)


def be_root(stranger: Stranger) -> None:
    children = tuple({sender for sender, _, _ in stranger.overheard.get(CommonKind.HELLO, ())})
    beacon = TreeBeacon(1, 2**40 + stranger.frames, 0, 1, children=children[:50])
    stranger.send(
        Frame(CommonKind.HELLO, STRANGER, route=beacon.encode(), body=encode_hello(0, 0, 0, 0))
    )


def report(stranger: Stranger) -> None:
    """Say in clients' names that they are here and stay."""
    for sender, frame, _ in stranger.overheard.get(MeshKind.REPORT, ())[-10:]:
        made: Report = decode_report(frame.body)
        status = made.status._replace(destination=made.status.current, velocity=0.0)
        body = made._replace(number=made.number + 1, status=status).encode()
        stranger.send(frame._replace(body=body), sender)


def leave(stranger: Stranger) -> None:
    """Say in every peer's name, to all others, that it leaves."""
    assert stranger.simulation is not None
    for host in stranger.simulation.nodes:
        service = host.service
        if isinstance(service, SemanticOverlay):
            codec, me = service._around.codec, service._around.me
        else:
            assert isinstance(service, Mirinae)
            codec, me = service._codec, service._me
        if me is None:
            continue
        for body, other in itertools.product(codec.leave(me.joined), stranger.simulation.nodes):
            frame = Frame(OverlayKind.LEAVE, host.node_id, other.node_id, body=body)
            stranger.send(frame, host.node_id, other.node_id)


RELAYED: Final = ("flooding", "semi-probabilistic", "subscription-forwarding")


def over_aodv(name: str) -> bool:
    return name.endswith("-aodv")


def by_location(name: str) -> bool:
    return "-gpsr" in name or name == "georendezvous"


def by_wire(name: str) -> bool:
    return service_of(name).promises.wired


ATTACKS: Final = (
    Attack("events with forged numbers", lambda name: True, forge_numbers),
    Attack("events played again", lambda name: True, replay),
    Attack("early copies, no hops left", RELAYED.__contains__, None, copy_early),
    Attack("one ROUTE_REQUEST in each node's name", over_aodv, request_once, once=True),
    Attack("ROUTE_REPLYs once, 2^30 ahead", over_aodv, lambda s: reply(s, 2**30), once=True),
    Attack("ROUTE_REPLYs, always the newest", over_aodv, lambda s: reply(s, 1)),
    Attack(
        "beacons of 16 made up nodes",
        lambda name: by_location(name) or name == "semi-probabilistic",
        hello_everywhere,
    ),
    Attack("subscriptions at false places", by_location, move_subscriptions),
    Attack("a root that is newer", lambda name: name == "subscription-forwarding", be_root),
    Attack("reports in clients' names", lambda name: service_of(name).needs_routes, report),
    Attack("LEAVE in each peer's name", by_wire, leave, once=True),
)


def scenario_of(protocol: str, seed: int) -> Scenario:
    service = service_of(protocol)
    if service.needs_routes:
        topology, settings = "mesh_grid", {"side": 3, "nodes": 8, "speed": 5, "interval": 1}
    elif service.promises.wired:
        topology, settings = "stock_peers", {"nodes": 20}
    else:
        topology, settings = "roaming_field", {"nodes": 30, "interval": 1}
    return make_scenario(topology, protocol, seed=seed, duration=DURATION, settings=settings)


def run(scenario: Scenario, attack: Attack | None) -> tuple[list[float], int]:
    """Return when each event was published that was delivered, and how many frames were forged."""
    stranger = Stranger(attack)
    simulation = stranger.simulation = Simulation(scenario, stranger)
    published: dict[int, float] = {}
    delivered: set[tuple[int, int]] = set()

    def watch(host: VirtualHost) -> None:
        notify = host.notify

        def notified(event: Event, hops: int) -> None:
            key = fingerprint(event.publisher, event.sequence, event.encode())
            if hops == 0 and event.publisher == host.node_id:
                published.setdefault(key, simulation.clock.now)
            elif any(each.accepts(event) for each in host.service.local):
                delivered.add((host.node_id, key))
            notify(event, hops)

        host.notify = notified  # type: ignore[method-assign]

    for host in simulation.nodes:
        watch(host)
    if attack is not None:
        simulation.clock.call_at(START, stranger.tick)
    simulation.run()
    return [published[key] for _, key in delivered if key in published], stranger.frames


def within(begin: float, end: float) -> Callable[[Iterable[list[float]]], int]:
    """Return what counts the times of some runs from `begin` to `end`."""
    return lambda runs: sum(begin <= time < end for times in runs for time in times)


def units(asked: argparse.Namespace) -> list[str]:
    """Return the protocols; those with a map or cells route like others."""
    return [name for name in PROTOCOLS if not name.endswith(("-cell", "-map"))]


def perform(asked: argparse.Namespace, unit: str, folder: Path) -> dict[str, Any]:
    """Attack a protocol; return, by attack, frames and shares during it and after it."""
    scenarios = [scenario_of(unit, seed) for seed in range(1, asked.seeds + 1)]
    whole = [run(scenario, None)[0] for scenario in scenarios]
    attacks = {}
    for attack in ATTACKS:
        if attack.fits(unit):
            runs = [run(scenario, attack) for scenario in scenarios]
            shares = [
                count(times for times, _ in runs) / count(whole)
                for count in (within(START, END), within(AFTER, DURATION))
            ]
            attacks[attack.name] = [sum(sent for _, sent in runs) // len(runs), *shares]
    return {"attacks": attacks, "wrong": []}


def rows(results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what is delivered again after most attacks, and after which it is not."""
    shares = [
        (after, f"`{protocol}`: {attack}")
        for protocol, result in results.items()
        for attack, (_, _, after) in result.get("attacks", {}).items()
    ]
    again = sorted(share for share, _ in shares if share >= AGAIN)
    if again:
        span = f"{again[0]:.0%} to {again[-1]:.0%} of deliveries"
        yield f"after {len(again)} of {len(shares)} attacks by a stranger", span
    for share, what in shares:
        if share < AGAIN:
            yield f"after {what}", f"{share:.0%}"
