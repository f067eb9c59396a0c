"""Our AODV against ns-3's, over the same trajectories, radio and datagrams: who delivers what, how.

    python -m tests.benchmarks.aodv_against_ns3 [--seconds 60] [--seeds 1] [--mechanisms]

60 nodes on 1 km^2, range 250 m (unit disk, unicasts at 6 Mb/s), static and at 10 m/s, broker-like
traffic (`tests.benchmarks.ns3.traffic`).  Prints per case and router: the share of datagrams
delivered, mean hops of those that both simulators deliver, beside those of the shortest path, mean
delay, and frames on the air.  `--mechanisms` turns on and off, one after the other, what makes the
difference, on either side.

Where they differ, and why (ns-3.37, src/aodv/model; figures in docs/benchmarks.md):

  * A request that comes to a node whose route back to its originator has become invalid updates
    that route in ns-3, but leaves it invalid (RecvRequest sets no flag; RFC 3561, 6.5).  The reply
    goes over it; frames are dropped.  Made valid (`--revive`), static nodes deliver most of what
    they lost, and the searches for it fall away.
  * ns-3 never raises the sequence number of a destination whose route breaks (6.11;
    SendRerrWhenBreaksLinkToNextHop, Invalidate), so a new request does not require anything newer
    than the route that has just failed, and every node with a stale route replies, twice with the
    G flag.  Most of its frames are then replies.  Raised (`--raise`), half of these are left; not
    raised, ours has as many.  "Destination only" suppresses the replies of other nodes in both.
  * ns-3 gives up a link at the first unicast that was not acknowledged (NotifyTxError); ours
    does with `link_feedback`, and notices by silence without.  It decides among moving nodes.
  * In ns-3 one lost hello may break a sound link: hellos come each second and up to 10 ms late, and
    a neighbour is lost after 2 s.  Ours waits for as long as two hellos may take.  With
    ALLOWED_HELLO_LOSS 10 a third of ns-3's requests among static nodes fall away.
  * A data frame that ns-3 forwards is a sign of life of the next hop, for ACTIVE_ROUTE_TIMEOUT, as
    is one that comes over it.  Without link feedback a broken link on a route in use is therefore
    hardly ever noticed while frames are forwarded; ours counts only what it hears.
  * Its MY_ROUTE_TIMEOUT is 11.2 s, ours the RFC's 6 s: more stale routes, more replies.
  * ns-3 resolves addresses: three packets wait for a reply, more are lost, and a request that
    collided is repeated after a second (ArpCache).  Emulated nodes know all addresses.
  * ns-3 sends a hello every second in any case; ours, as the RFC requires, on active routes only.

In the figures of ns-3, "rrep" includes hellos, and all kinds count transmissions, retries included;
ours count messages.
"""

from __future__ import annotations

import argparse
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Final
from unittest.mock import patch

import numpy as np

from emulation.radio.spec import UnitDisk
from emulation.scenario.scenario import Scenario
from nodeapp import compiled
from nodeapp.routing import aodv_table
from nodeapp.routing.aodv import Aodv, AodvParameters
from nodeapp.wire import Frame
from tests.benchmarks.ns3 import ours, peer, traffic

MBPS: Final = 6.0
STEP: Final = 1.0
"""Seconds for which the graph is assumed not to change."""
Patched = Callable[[], AbstractContextManager[None]]
_FEEDBACK: Final = AodvParameters(link_feedback=True, salvage=False, blacklist=False)
"""What ns-3 does with frames that were not acknowledged."""


@contextmanager
def _numbers_not_raised() -> Iterator[None]:
    """Let routes that become invalid keep their sequence numbers, as in ns-3."""
    if compiled.obstacle() is None:
        raise SystemExit(f"this replaces a function of the source: set {compiled.VARIABLE}=0")
    with patch.object(aodv_table, "following", lambda sequence: sequence):
        yield


@contextmanager
def _sent_is_heard() -> Iterator[None]:
    """Let a frame that is forwarded to a neighbour, or comes over it, be a sign of it, as in ns-3.

    It lasts for ACTIVE_ROUTE_TIMEOUT (m_nb.Update in RoutingProtocol::Forwarding and RouteInput).
    """
    if compiled.obstacle() is None:
        raise SystemExit(f"this replaces a function of the source: set {compiled.VARIABLE}=0")
    receive = Aodv.receive

    def and_take_signs(router: Aodv, frame: Frame, sender: int) -> None:
        now = router._host.now()
        until = now + router._active_timeout
        lost_at = router._links._lost_at

        def sign(destination: int) -> None:
            route = router.table.valid(destination, now)
            if route is not None:
                lost_at[route.next_hop] = max(lost_at.get(route.next_hop, 0.0), until)

        sign(frame.originator)
        receive(router, frame, sender)
        if frame.destination != router._me:
            sign(frame.destination)

    with patch.object(Aodv, "receive", and_take_signs):
        yield


OURS: Final[dict[str, tuple[AodvParameters, Patched]]] = {
    "ours": (AodvParameters(), nullcontext),
    "ours, destination only": (AodvParameters(destination_only=True), nullcontext),
}
"""Parameters, and what is patched meanwhile."""
OUR_MECHANISMS: Final[dict[str, tuple[AodvParameters, Patched]]] = {
    "ours, link feedback": (_FEEDBACK, nullcontext),
    "ours, link feedback, destination only": (
        replace(_FEEDBACK, destination_only=True),
        nullcontext,
    ),
    "ours, numbers not raised": (AodvParameters(), _numbers_not_raised),
    "ours, frames sent are signs of life": (AodvParameters(), _sent_is_heard),
    "ours, link feedback, numbers not raised": (_FEEDBACK, _numbers_not_raised),
    "ours, link feedback and salvage": (AodvParameters(link_feedback=True), nullcontext),
    "ours, link feedback and local repair": (
        AodvParameters(link_feedback=True, local_repair=True),
        nullcontext,
    ),
}
_KNOWN: Final = "--arp=0"
_ONLY: Final = (_KNOWN, "--intermediate=0")
_REVIVED: Final = (_KNOWN, "--revive=1")
NS3: Final = {
    "ns-3": (),
    "ns-3, no ARP": (_KNOWN,),
    "ns-3, destination only": _ONLY,
}
NS3_MECHANISMS: Final = {
    "ns-3, routes revived": _REVIVED,
    "ns-3, routes revived, destination only": (*_ONLY, "--revive=1"),
    "ns-3, routes revived, numbers raised": (*_REVIVED, "--raise=1"),
    "ns-3, the same, 10 hellos may be lost": (*_REVIVED, "--raise=1", "--hellos=10"),
    "ns-3, the same, lifetime 6 s": (*_REVIVED, "--raise=1", "--hellos=10", "--lifetime=6"),
    "ns-3, no link feedback": (_KNOWN, "--errors=0"),
    "ns-3, the same, revived, raised, 6 s": (
        *_REVIVED,
        *("--raise=1", "--lifetime=6", "--errors=0"),
    ),
}
"""ns-3's AODV with what it lacks (`aodv_traffic.cc`), without ARP."""


class _Paths:
    """Shortest paths, in hops, at the times of datagrams."""

    def __init__(self, scenario: Scenario) -> None:
        self._trace = scenario.trace()
        self._range = scenario.environment().radio_range
        self._neighbours: dict[int, list[list[int]]] = {}
        self._hops: dict[tuple[int, int], list[int]] = {}

    def hops(self, datagram: peer.Datagram) -> int:
        """Return the hops of the shortest path; 0 if there is none."""
        step = round(datagram.time / STEP)
        known = self._hops.get((step, datagram.source))
        if known is None:
            known = self._hops[step, datagram.source] = self._search(step, datagram.source)
        return known[datagram.destination]

    def _search(self, step: int, source: int) -> list[int]:
        graph = self._neighbours.get(step)
        if graph is None:
            xy = self._trace.positions(step * STEP)
            distance = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
            near = (distance <= self._range) & (distance > 0)
            graph = self._neighbours[step] = [np.flatnonzero(row).tolist() for row in near]
        hops = [0] * len(graph)
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for there in graph[here]:
                if not hops[there] and there != source:
                    hops[there] = hops[here] + 1
                    queue.append(there)
        return hops


def report(
    scenario: Scenario,
    datagrams: Sequence[peer.Datagram],
    results: dict[str, peer.DatagramsPlayed],
) -> None:
    """Print one line per router."""
    paths = _Paths(scenario)
    shortest = [paths.hops(datagram) for datagram in datagrams]
    connected = [number for number, hops in enumerate(shortest) if hops]
    print(f"    {len(connected) / len(datagrams):.3f} of the datagrams are between connected nodes")
    first = {
        name: {arrival.number: arrival for arrival in reversed(result.arrivals)}
        for name, result in results.items()
    }
    common = set(connected).intersection(*first.values())
    best = statistics.fmean(shortest[number] for number in common)
    print(f"    {len(common):,} are delivered by all; their shortest paths: {best:.2f} hops")
    for name, result in results.items():
        arrivals = first[name]
        hops = statistics.fmean(arrivals[number].hops for number in common)
        delay = statistics.fmean(arrival.delay for arrival in arrivals.values())
        print(
            f"    {name:44} delivered {len(arrivals) / len(datagrams):.3f}, {hops:.2f} hops, "
            f"{1000 * delay:5.1f} ms; frames: {result.unicasts:7,} unicasts, "
            f"{result.broadcasts:6,} broadcasts, {result.acks:6,} ACKs; "
            + ", ".join(f"{count:,} {kind}" for kind, count in result.messages.items())
        )


def compare(speed: float, seconds: float, seed: int, mechanisms: bool) -> None:
    """Run one scenario through all routers."""
    scenario = traffic.network(speed=speed, duration=seconds, seed=seed)
    scenario = scenario.model_copy(
        update={"radio": scenario.radio.model_copy(update={"propagation": UnitDisk()})}
    )
    datagrams = traffic.broker_traffic(len(scenario.nodes), seconds, seed)
    print(f"{speed:g} m/s, seed {seed}: {len(datagrams):,} datagrams in {seconds:g} s", flush=True)
    results = {}
    for name, (parameters, patched) in (OURS | (OUR_MECHANISMS if mechanisms else {})).items():
        with patched():
            results[name], kinds = ours.play_datagrams(
                scenario, datagrams, seconds, MBPS, parameters
            )
        results[name].messages = kinds.messages()
    try:
        for name, extra in (NS3 | (NS3_MECHANISMS if mechanisms else {})).items():
            results[name] = peer.play_datagrams(
                scenario.radio, scenario.nodes, datagrams, seconds, MBPS, seed, extra
            )
    except peer.MissingError as missing:
        print(f"    {missing}")
    report(scenario, datagrams, results)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--mechanisms", action="store_true")
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        for speed in (0.0, 10.0):
            compare(speed, options.seconds, seed, options.mechanisms)


if __name__ == "__main__":
    main()
