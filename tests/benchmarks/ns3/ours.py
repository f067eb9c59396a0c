"""The list of datagrams that the peer plays (`tests.benchmarks.ns3.peer`), over our own stack.

Every node runs AODV (`nodeapp.routing.aodv`) under the virtual clock (`emulation.virtual`); a
service sends the node's datagrams over it.  A datagram has the same UDP length as the peer's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Environment, Service
from nodeapp.routing.aodv import Aodv, AodvParameters
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import BROADCAST, HEADER_LENGTH, Frame
from tests.benchmarks.ns3.peer import Arrival, Datagram, DatagramsPlayed


class Kinds(NullRecorder):
    """Counts the messages that nodes send, by kind; retries of the MAC do not count."""

    def __init__(self) -> None:
        self.broadcasts: Counter[int] = Counter()
        self.unicasts: Counter[int] = Counter()

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        (self.broadcasts if to == BROADCAST else self.unicasts)[datagram[1]] += 1
        return super().sent(time, station, to, datagram)

    def messages(self) -> dict[str, int]:
        """Return the numbers of messages by the names that the peer uses."""
        total = self.broadcasts + self.unicasts
        kinds = {
            "data": CommonKind.EVENT,
            "rreq": AodvKind.ROUTE_REQUEST,
            "rrep": AodvKind.ROUTE_REPLY,
            "rerr": AodvKind.ROUTE_ERROR,
            "hello": CommonKind.HELLO,
        }
        return {name: total[kind] for name, kind in kinds.items()}


class _Sender(Service):
    """Sends one node's datagrams, (index, datagram) in order of time, and records arrivals."""

    def __init__(
        self,
        host: Host,
        environment: Environment,
        datagrams: list[tuple[int, Datagram]],
        everything: Sequence[Datagram],
        arrivals: list[Arrival],
        parameters: AodvParameters,
    ) -> None:
        super().__init__(host, environment, parameters)
        self.router = Aodv(host, parameters, self.counters, self._arrived)
        self.handlers = {**self.router.handlers, CommonKind.EVENT: self.router.receive}
        self._due = iter(datagrams)
        self._everything = everything
        self._arrivals = arrivals

    def start(self) -> None:
        self.router.start()
        self._next()

    def disseminate(self, event: Event) -> None:
        raise AssertionError("there are no clients")

    def _next(self) -> None:
        for index, datagram in self._due:
            self.host.call_later(datagram.time - self.host.now(), self._send, index, datagram)
            return

    def _send(self, index: int, datagram: Datagram) -> None:
        self.router.send(
            Frame(
                CommonKind.EVENT,
                self.host.node_id,
                destination=datagram.destination + 1,
                publisher=self.host.node_id,
                sequence=index,
                hops=0,
                body=bytes(datagram.size - HEADER_LENGTH),
            )
        )
        self._next()

    def _arrived(self, frame: Frame) -> None:
        late = self.host.now() - self._everything[frame.sequence].time
        self._arrivals.append(Arrival(frame.sequence, frame.hops, late))


def play_datagrams(
    scenario: Scenario,
    datagrams: Sequence[Datagram],
    until: float,
    mbps: float | None = None,
    parameters: AodvParameters | None = None,
) -> tuple[DatagramsPlayed, Kinds]:
    """Play datagrams over a scenario whose node at index i has the id i + 1 (cf. `peer`).

    Returns the outcome, and the messages that the nodes sent.
    """
    arrivals: list[Arrival] = []
    own: dict[int, list[tuple[int, Datagram]]] = {}
    for index, datagram in enumerate(datagrams):
        own.setdefault(datagram.source + 1, []).append((index, datagram))

    def make(host: Host, spec: NodeSpec) -> Service:
        return _Sender(
            host,
            scenario.environment(),
            own.get(spec.id, []),
            datagrams,
            arrivals,
            parameters or AodvParameters(),
        )

    if mbps is not None:
        radio = scenario.radio.model_copy(update={"data_rate_mbps": mbps})
        scenario = scenario.model_copy(update={"radio": radio})
    recorder = Kinds()
    simulation = Simulation(scenario, recorder, make)
    began = time.process_time()
    simulation.run(until)
    cpu = time.process_time() - began
    totals = simulation.medium.counters.totals()
    broadcasts = sum(recorder.broadcasts.values())
    played = DatagramsPlayed(
        arrivals, int(totals["sent"]) - broadcasts, broadcasts, int(totals["acks"]), cpu
    )
    return played, recorder
