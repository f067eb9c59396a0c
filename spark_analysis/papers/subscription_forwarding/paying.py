"""What an event and the control messages cost without motion, and from when on the tree pays.

Costs are frames, bytes on the air (802.11 headers too) and seconds on the air: preamble, frame and,
of a unicast, the ACK; not the wait for access.  Rates are those of the radio: broadcasts at the
basic rate, unicasts at the fastest that the link bears.

An event of the tree goes over the links of the minimal sub-tree that joins its publisher and its
`k` subscribers, drawn from n nodes without a preference.  A link with b nodes on one side is in it
unless all of the k + 1 are on the same side, so the mean number of links is

    sum over links of  1 - (C(b, k+1) + C(n-b, k+1)) / C(n, k+1).

Flooding by broadcasts takes n frames and no control; by unicasts a frame over every link of the
graph in either direction, less those back to the node that sent the event: 2m - (n - 1).
At r events a second the tree pays if r (cost by flooding - cost over the sub-tree) is more than
what its control costs in a second.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from emulation.radio.links import Links
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.wire import BROADCAST
from spark_analysis.papers.subscription_forwarding.scenario import TREE, scenario

DURATION: Final = 60.0
SETTLED: Final = 20.0
"""Seconds after which the tree and its tables have settled: control counts from then on."""
HEADERS: Final = 42
"""Bytes of Ethernet, IPv4 and UDP."""
SHARES: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the other nodes that want an event; the least is one node of 200."""
DRAWS: Final = 400
"""Publishers and sets of subscribers of each share."""
COSTS: Final = ("frames", "bytes", "airtime")

Cost = tuple[float, float, float]
"""Frames, bytes and seconds on the air."""
Neighbours = Mapping[int, set[int]]


def _times(count: float, cost: Cost) -> Cost:
    frames, size, airtime = cost
    return count * frames, count * size, count * airtime


class _Tally(NullRecorder):
    """Adds up what hosts send once everything has settled, control and events apart."""

    def __init__(self) -> None:
        self.table: Links | None = None
        self.control: Cost = (0.0, 0.0, 0.0)
        self.events: Cost = (0.0, 0.0, 0.0)

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> tuple[Any, ...]:
        """Add a frame."""
        if time >= SETTLED:
            assert self.table is not None
            receiver = None if to == BROADCAST else to - 1
            more = cost(self.table, len(datagram), station, receiver)
            if datagram[1] == CommonKind.EVENT:
                self.events = _sum(self.events, more)
            else:
                self.control = _sum(self.control, more)
        return self._packets


def _sum(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def cost(table: Links, size: int, station: int, receiver: int | None) -> Cost:
    """Return the cost of a datagram of `size` bytes; to all neighbours if `receiver` is None."""
    phy = table.phy
    rate = phy.basic_rate
    if receiver is not None:
        rate = phy.rates[table.unicast_rate(table.row(station), receiver)]
    mpdu = phy.mpdu_bytes(size + HEADERS)
    response = 0.0 if receiver is None else phy.sifs + phy.ack_duration(rate)
    return 1.0, float(mpdu), phy.duration(rate, mpdu) + response


def _rooted(tree: Neighbours, root: int) -> tuple[dict[int, int], list[int]]:
    """Return the node above each, the root's being itself, and all nodes from the root down."""
    above = {root: root}
    order = [root]
    for node in order:
        for other in tree[node]:
            if other not in above:
                above[other] = node
                order.append(other)
    return above, order


def sides(tree: Neighbours) -> list[int]:
    """Return for each link of a tree how many of its nodes are on one side of it."""
    above, order = _rooted(tree, min(tree))
    below = dict.fromkeys(order, 1)
    for node in reversed(order[1:]):
        below[above[node]] += below[node]
    return [below[node] for node in order[1:]]


def expected_links(nodes_beyond: list[int], nodes: int, subscribers: int) -> float:
    """Return the mean links of the minimal sub-tree; `nodes_beyond` is from `sides`."""
    ends = subscribers + 1
    every = math.comb(nodes, ends)
    return math.fsum(
        1.0 - (math.comb(beyond, ends) + math.comb(nodes - beyond, ends)) / every
        for beyond in nodes_beyond
    )


def drawn_links(tree: Neighbours, subscribers: int, rng: random.Random) -> int:
    """Return the links that join a random publisher and so many random others."""
    chosen = rng.sample(sorted(tree), subscribers + 1)
    publisher, wanting = chosen[0], set(chosen[1:])
    above, order = _rooted(tree, publisher)
    used: set[int] = set()
    for node in reversed(order):
        if node in wanting or node in used:
            used |= {node, above[node]}
    return len((used | {publisher}) - {publisher})


def paying(seed: int, nodes: str = "200", side: str = "2000") -> Iterator[dict[str, Any]]:
    """Yield a row for each share of subscribers and each cost.

    `links` are drawn, `links_closed` by the closed form; `event` is what one event costs over the
    sub-tree, `flooding` by broadcasts and `flooding_unicast` by unicasts; `control` is the tree's
    in a second, `pays` the events a second from which the tree costs less than flooding by
    broadcasts, `pays_closed` the same by the closed form: infinite if it never does.
    """
    tally = _Tally()
    settings = {"nodes": nodes, "side": side, "speed": "0"}
    simulation = Simulation(scenario(TREE, seed, DURATION, settings), tally)
    medium = simulation.medium
    tally.table = table = medium.table
    simulation.run()
    tree: dict[int, set[int]] = {}
    for host in simulation.nodes:
        assert isinstance(host.service, SubscriptionForwarding)
        tree[host.node_id] = set(host.service.tree.links)
    count = len(tree)
    control = _times(1 / (DURATION - SETTLED), tally.control)
    frames, size, _ = tally.events
    datagram = _datagram(table, size / frames)
    links = [(one - 1, other - 1) for one, others in tree.items() for other in others]
    of_tree = _mean(cost(table, datagram, one, other) for one, other in links)
    reach = simulation.scenario.radio.range
    assert reach is not None, "the topology sets the range"
    graph = [
        (node, link.neighbour)
        for node in range(count)
        for link in table.links(node)
        if link.distance <= reach
    ]
    of_graph = _mean(cost(table, datagram, one, other) for one, other in graph)
    broadcast = _times(count, cost(table, datagram, 0, None))
    unicast = _times(len(graph) - (count - 1), of_graph)
    beyond, rng = sides(tree), random.Random(f"{seed}/paying")
    for share in SHARES:
        wanting = max(1, round(share * (count - 1)))
        drawn = sum(drawn_links(tree, wanting, rng) for _ in range(DRAWS)) / DRAWS
        closed = expected_links(beyond, count, wanting)
        for index, name in enumerate(COSTS):
            event, by_closed = drawn * of_tree[index], closed * of_tree[index]
            yield {
                "share": 100 * share,
                "subscribers": wanting,
                "cost": name,
                "nodes": count,
                "links": drawn,
                "links_closed": closed,
                "event": event,
                "flooding": broadcast[index],
                "flooding_unicast": unicast[index],
                "control": control[index],
                "pays": _from(control[index], broadcast[index] - event),
                "pays_closed": _from(control[index], broadcast[index] - by_closed),
            }


def _from(control: float, saved: float) -> float:
    return control / saved if saved > 0 else math.inf


def _datagram(table: Links, mpdu: float) -> int:
    return round(mpdu - (table.phy.mpdu_bytes(HEADERS + 100) - 100))


def _mean(costs: Iterator[Cost]) -> Cost:
    every = list(costs)
    total = (0.0, 0.0, 0.0)
    for more in every:
        total = _sum(total, more)
    return _times(1 / max(len(every), 1), total)
