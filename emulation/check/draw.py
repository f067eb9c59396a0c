"""Strategies of hypothesis that draw scenarios for a protocol.

Theory of operation.  Everything is drawn so that less is simpler: nodes are a list, each placed
beside an earlier one, so that every placement is connected, also without one of them; operations
and faults are lists that name nodes by numbers which stand for some node however many there are
(`emulation.check.design.at`).  Then hypothesis's own shrinker finds few nodes near the origin, few
operations and no faults.

A scenario has two parts.  First, clients subscribe, unsubscribe and publish, nodes move, and
faults come and go.  Then all is still for as long as the protocol says that it needs
(`nodeapp.pubsub.base`), and publishers publish `LAST` events each.  The radio loses nothing
within its range (a unit disk without collisions), so that whatever is lost, the protocol lost.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from emulation.check.design import (
    BEGIN,
    HALF,
    LATEST,
    NUMBER,
    RANGE,
    STEP,
    Design,
    Draw,
    DrawnNetwork,
    Strategy,
    at,
)
from emulation.check.draw_faults import faults
from emulation.check.observed import SETTLED
from emulation.errors import ScenarioError
from emulation.mobility.contacts import Contact
from emulation.mobility.routes import Leg, legs
from emulation.mobility.trajectory import Position2D, Waypoint
from emulation.radio.spec import RadioSpec, UnitDisk
from emulation.radio.wire import WireSpec
from emulation.scenario.access_point import AccessPointSpec
from emulation.scenario.faults import Fault
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.workloads.base import Operation, announcements
from nodeapp.pubsub.base import Promises

TOPOLOGY: Final = "check"
LOSSLESS: Final = UnitDisk(collisions=False)
"""The radio of drawn networks."""
FOREVER: Final = 1e6
"""Seconds, beyond the end of every scenario."""
ALONG, ACROSS = 7, 6
"""Most steps in x and y from a node to the next one: the radio reaches farther."""
BACK: Final = 3
"""A node stands beside one of the last so many, so that chains are long."""
ASIDE: Final = 0.4
"""Metres to the next place if one is taken: no two nodes stand at one position."""
ORIGINS: Final = tuple(
    (300.0 * dx * distance, 300.0 * dy * distance)
    for distance in (0.2, 1.0)
    for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1))
)
"""Where moving nodes come from, metres from their places: within radio range, and beyond."""
SPACING: Final = 100.0
"""Metres between access points."""
POINTS: Final = 4
"""Access points at most."""
LAST: Final = 3
"""Events of each publisher at the end, and ..."""
EVERY: Final = 2.0
"""... seconds between them."""
BETWEEN: Final = 0.02
"""Seconds between the events of two publishers then: both are on their way at once."""


class _Place(NamedTuple):
    """A node: how many nodes before the last its neighbour is, and the steps from that one."""

    back: int
    along: int
    across: int

    def beside(self, other: Position2D, step: float) -> Position2D:
        """Return the place beside that of another node."""
        return other[0] + step * self.along, other[1] + step * self.across


class _Motion(NamedTuple):
    """Who moves, from where, when it sets out and how long it takes, in half seconds."""

    who: int
    origin: Position2D
    begin: int
    length: int


_seed = st.integers(0, 99)
_length = st.integers(1, LATEST // 2)
_length_or_none = st.sampled_from((None, 1, None, 4, None, 20))
_place = st.builds(
    _Place,
    st.integers(0, BACK - 1),
    st.integers(-ALONG, ALONG),
    st.integers(-ACROSS, ACROSS),
)
_motions = st.lists(
    st.builds(_Motion, NUMBER, st.sampled_from(ORIGINS), BEGIN, _length), max_size=3
)
_EVENTS: Final = tuple(
    {"topic": topic, "stock": stock, "price": price}
    for price in (0, 250, 500, 750)
    for stock in "AB"
    for topic in "ab"
)
_event = st.sampled_from(_EVENTS)
_TOPICS: Final = ((("topic", "=", "a"),), (("topic", "=", "b"),))
_CONDITIONS: Final = (
    (),
    (("price", "<", 500),),
    (("price", ">=", 500),),
    (("stock", "=", "A"),),
    (("price", "exists", None),),
    (("stock", "=", "B"), ("price", "<", 750)),
    (("price", ">=", 250), ("price", "<", 750)),
)


# A strategy costs more to make than to draw from: each is made once.


@functools.cache
def _wanted(needs_topic: bool) -> Strategy:
    topics = _TOPICS if needs_topic else ((), *_TOPICS)
    filters = [topic + conditions for conditions in _CONDITIONS for topic in topics]
    element = st.tuples(NUMBER, st.sampled_from(filters), BEGIN, _length_or_none)
    return st.lists(element, min_size=1, max_size=6)


_publications_while = st.lists(st.tuples(NUMBER, BEGIN, _event), max_size=4)
_last_publications = st.lists(st.tuples(NUMBER, _event), min_size=1, max_size=3)


@functools.cache
def _points(most: int) -> Strategy:
    return st.integers(1, most)


@functools.cache
def _places(low: int, high: int) -> Strategy:
    return st.lists(_place, min_size=low, max_size=high)


@st.composite
def scenarios(draw: Draw, design: Design) -> Scenario:
    service, promises = design.service, design.service.promises
    base = None
    if design.base is not None:
        try:
            base = design.base(draw(st.integers(*design.nodes)), draw(_seed))
        except ScenarioError:  # the topology has no placement for this seed
            reject()
        network = _standing(base)
    else:
        network = _mesh(draw, design) if service.needs_brokers else _field(draw, design)
    subscriptions = _subscriptions(draw, design, network.clients)
    publications = _publications(draw, network.clients)
    faulty = faults(draw, design, network)
    settled = _busy((*subscriptions, *publications), faulty, network.nodes) + promises.settle
    last = _last(draw, network.clients, settled)
    duration = max(operation.time for operation in last) + promises.arrival
    workload = sorted(
        (*subscriptions, *_numbered((*publications, *last))), key=lambda operation: operation.time
    )
    drawn = {
        "topology": TOPOLOGY,
        "topology_parameters": {SETTLED: settled},
        "seed": draw(_seed),
        "duration": duration,
        "nodes": network.nodes,
        "workload": tuple(workload),
        "navigation": announcements(_legs(network.clients)) if service.needs_routes else (),
        "faults": faulty,
    }
    if base is not None:
        contacts = base.contacts and tuple(_lasting(base.contacts, base.duration))
        return base.model_copy(update={**drawn, "workload_spec": None, "contacts": contacts})
    radio = RadioSpec(range=RANGE, propagation=LOSSLESS)
    mesh_radio = radio.model_copy(update={"range": 1.5 * SPACING}) if network.points else None
    return Scenario(
        **drawn,
        protocol=ProtocolSpec(name=design.protocol),
        area=_area(network),
        radio=radio if network.wire is None else radio.model_copy(update={"range": None}),
        road_map=tuple(node.waypoints[-1][1:] for node in network.nodes)
        if service.needs_map
        else (),
        access_points=network.points,
        mesh_radio=mesh_radio,
        wire=network.wire,
    )


def _busy(
    operations: Iterable[Operation], faulty: Iterable[Fault], nodes: Iterable[NodeSpec]
) -> float:
    """Return when the last operation, fault and motion is over, s."""
    return max(
        *(operation.time for operation in operations),
        *(fault.end or fault.start for fault in faulty),
        *(node.waypoints[-1].time for node in nodes),
        0.0,
    )


def is_timed(scenario: Scenario, promises: Promises) -> bool:
    """Return whether a drawn scenario is quiet for as long as these promises say."""
    settled = scenario.topology_parameters.get(SETTLED)
    if settled is None:
        return True
    early = [operation for operation in scenario.workload if operation.time < settled]
    last = max(operation.time for operation in scenario.workload)
    quiet = settled - _busy(early, scenario.faults, scenario.nodes), scenario.duration - last
    promised = promises.settle, promises.arrival
    return all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(quiet, promised, strict=True))


def _standing(base: Scenario) -> DrawnNetwork:
    """Return a topology's network, whose nodes stand still once its scenario is over."""
    trace, end = base.trace(), base.duration
    nodes = tuple(
        node.model_copy(
            update={
                "waypoints": (
                    *(waypoint for waypoint in node.waypoints if waypoint.time < end),
                    Waypoint(end, *trace.position(index, end)),
                )
            }
        )
        if len(node.waypoints) > 1
        else node
        for index, node in enumerate(base.nodes)
    )
    clients = tuple(node for node in nodes if base.wire is not None or not node.wired)
    reach, placed = base.radio.range or RANGE, base.contacts is None
    return DrawnNetwork(nodes, clients, base.access_points, base.wire, reach, placed)


def _lasting(contacts: Iterable[Contact], end: float) -> Iterator[Contact]:
    """Yield contacts, of which those that last to a time go on for good."""
    for contact in contacts:
        yield contact._replace(end=FOREVER) if contact.end >= end else contact


def _field(draw: Draw, design: Design) -> DrawnNetwork:
    """Draw stations on a field, or hosts on a switch if the protocol is made for these."""
    low, high = design.nodes
    wired = design.service.promises.wired
    places = draw(_places(low, high))
    homes = _homes(draw(_spread(places)), design.service.promises.reach)
    ways = _ways(homes, () if wired else draw(_motions))
    nodes = tuple(
        NodeSpec(id=id_, name=f"n{id_}", waypoints=way, device="eth0" if wired else "wlan0")
        for id_, way in enumerate(ways, start=1)
    )
    delays = tuple((1 + ALONG + place.along) / 1000 for place in places)
    return DrawnNetwork(nodes, nodes, (), WireSpec(delays=delays) if wired else None)


def _mesh(draw: Draw, design: Design) -> DrawnNetwork:
    """Draw access points in a square, each with its broker, and stations beside them."""
    low, high = design.nodes
    count = draw(_points(min(POINTS, high - 1)))
    positions = [(SPACING * (index % 2), SPACING * (index // 2)) for index in range(count)]
    places = draw(_places(max(low - count, 1), high - count))
    homes = [place.beside(positions[place.back % count], STEP) for place in places]
    ways = _ways(homes, draw(_motions))
    brokers = [
        NodeSpec(id=id_, name=f"b{id_}", waypoints=(Waypoint(0.0, *position),), device="eth0")
        for id_, position in enumerate(positions, start=1)
    ]
    points = tuple(
        AccessPointSpec(id=broker.id, name=f"ap{broker.id}", position=position, broker=broker.id)
        for broker, position in zip(brokers, positions, strict=True)
    )
    clients = tuple(
        NodeSpec(id=count + number, name=f"n{number}", waypoints=way)
        for number, way in enumerate(ways, start=1)
    )
    return DrawnNetwork((*brokers, *clients), clients, points, None)


def _spread(places: list[_Place]) -> Strategy:
    """Return the places, or with the same chance those of a long chain in the direction of x."""
    chain = [place._replace(back=0, along=abs(place.along)) for place in places]
    return st.sampled_from((places, chain))


def _homes(places: Sequence[_Place], reach: float) -> list[Position2D]:
    """Return where nodes stand at the end: each but the first beside an earlier one.

    `reach` is the share of the radio range within which the next one stands.
    """
    homes: list[Position2D] = []
    for place in places:
        other = homes[max(0, len(homes) - 1 - place.back)] if homes else None
        home = place.beside(other, STEP * reach) if other else (0.0, 0.0)
        while home in homes:
            home = (round(home[0] + ASIDE * reach, 3), home[1])
        homes.append(home)
    return homes


def _ways(
    homes: Sequence[Position2D], motions: Sequence[_Motion]
) -> Iterator[tuple[Waypoint, ...]]:
    """Yield the trajectory of each node, which ends at its place."""
    moving = {at(range(len(homes)), motion.who): motion for motion in motions}
    for index, (x, y) in enumerate(homes):
        motion = moving.get(index)
        if motion is None:
            yield (Waypoint(0.0, x, y),)
            continue
        start = (x + motion.origin[0], y + motion.origin[1])
        leaves = HALF * motion.begin
        arrives = leaves + HALF * motion.length
        yield (Waypoint(0.0, *start), Waypoint(leaves, *start), Waypoint(arrives, x, y))


def _subscriptions(draw: Draw, design: Design, clients: Sequence[NodeSpec]) -> list[Operation]:
    """Draw who subscribes to what, and unsubscribes."""
    drawn = draw(_wanted(design.service.needs_topic))
    operations = []
    for number, (who, wanted, begin, length) in enumerate(drawn, start=1):
        common = {"node": at(clients, who).id, "subscription": number}
        operations.append(Operation(time=HALF * begin, action="subscribe", filter=wanted, **common))
        if length is not None:
            end = HALF * (begin + length)
            operations.append(Operation(time=end, action="unsubscribe", **common))
    return operations


def _publications(draw: Draw, clients: Sequence[NodeSpec]) -> list[Operation]:
    """Draw who publishes what while things change; `_numbered` gives sequence numbers."""
    drawn = draw(_publications_while)
    return [_publish(HALF * begin, clients, who, event) for who, begin, event in drawn]


def _last(draw: Draw, clients: Sequence[NodeSpec], settled: float) -> list[Operation]:
    """Draw who publishes what when all is still."""
    drawn = draw(_last_publications)
    return [
        _publish(settled + HALF + EVERY * turn + BETWEEN * index, clients, who, event)
        for index, (who, event) in enumerate(drawn)
        for turn in range(LAST)
    ]


def _publish(time: float, clients: Sequence[NodeSpec], who: int, event: Any) -> Operation:
    node = at(clients, who).id
    return Operation(time=round(time, 3), node=node, action="publish", event=event)


def _numbered(publications: Iterable[Operation]) -> Iterator[Operation]:
    """Number each node's publications from 1 on, in order of time."""
    numbers: Counter[int] = Counter()
    for operation in sorted(publications, key=lambda operation: operation.time):
        numbers[operation.node] += 1
        yield operation.model_copy(update={"sequence": numbers[operation.node]})


def _area(network: DrawnNetwork) -> tuple[float, float, float, float]:
    """Return the box around the nodes' last places, at least a radio range wide and high."""
    xs = [node.waypoints[-1].x for node in network.nodes]
    ys = [node.waypoints[-1].y for node in network.nodes]
    x0, y0 = min(xs), min(ys)
    return x0, y0, max(*xs, x0 + RANGE), max(*ys, y0 + RANGE)


def _legs(clients: Sequence[NodeSpec]) -> Iterator[tuple[int, Leg]]:
    """Yield the legs of the clients that move, each with its node."""
    for node in clients:
        yield from ((node.id, leg) for leg in legs(node.waypoints) if math.isfinite(leg.speed))
