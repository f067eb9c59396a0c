"""A scenario under the virtual clock.

Theory of operation.  Two queues are merged: calls that nodes requested (`clock`) and events on the
channel (`emulation.virtual.channel`).  Time jumps from one arrival or call to the next; nodes take
no time to compute, and everything between the protocol and the air is omitted or built without a
kernel: a datagram goes to the channel at once, with the length of the packets that would carry it,
and is delivered to its receivers' services.  It is decoded once for all of them.

Positions are updated once a tick, which is long enough for the fastest node to move by `TICK_SHARE`
of the radio range, and at least as long as on the real-time backends.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from typing import Final

from emulation.mobility.contacts import Contacts
from emulation.radio.medium import BROADCAST as TO_ALL
from emulation.radio.medium import Medium
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.virtual.adhoc import AdHocChannel
from emulation.virtual.channel import Carried, Channel, Hand, Message
from emulation.virtual.client import WorkloadClient
from emulation.virtual.clock import Clock
from emulation.virtual.faults import DisturbedHand, VirtualFaults
from emulation.virtual.host import VirtualHost
from emulation.virtual.mesh import MeshChannel
from emulation.virtual.packets import HEADERS, LARGEST_WHOLE, frame_lengths
from emulation.virtual.recording import VirtualRecorder
from emulation.virtual.wired import WiredChannel
from nodeapp.auth import Seal
from nodeapp.client_port import ClientTable
from nodeapp.host import Host
from nodeapp.parameters import ParameterError
from nodeapp.pubsub import registry
from nodeapp.pubsub.base import Service
from nodeapp.wire import BROADCAST, Frame, WireError, decode

TICK: Final = 0.1
"""Least seconds between position updates; as in `emulation.media.tap`."""
LONGEST_TICK: Final = 1.0
TICK_SHARE: Final = 0.01
WRITING: Final = frozenset(("emulation.virtual.recording", "emulation.radio.losses"))
"""Modules that write during a run: an OSError that passed through them is no node's."""
GARBAGE: Final = 100_000
"""New containers, some 10 MB, after which the collector visits the young generation."""


def unsupported(scenario: Scenario) -> list[str]:
    """Return what of a scenario has a clock of its own, and what to do, one line each."""
    lines = []
    if scenario.protocol.name in registry.MIDDLEWARE:
        lines.append(
            f"{scenario.protocol.name} is a program with a clock and sockets of its own, so it "
            "knows no virtual one: use --backend tap or machine"
        )
    if scenario.mqtt:
        lines.append(
            "clients of MQTT are programs with a clock of their own: leave mqtt off, or use "
            "--backend tap"
        )
    return lines


class Simulation:
    """One run.  `make_service` makes a node's service if it is not the scenario's protocol.

    Raises `ParameterError` for what is `unsupported` and for parameters that a protocol refuses.
    A defect in a protocol is passed to `failed` (node name, exception) and the run goes on, as a
    node app does; one that keeps a service from being made comes as `ProtocolError` as well.
    """

    def __init__(
        self,
        scenario: Scenario,
        recorder: VirtualRecorder,
        make_service: Callable[[Host, NodeSpec], Service] | None = None,
        failed: Callable[[str, Exception], None] | None = None,
    ) -> None:
        for line in unsupported(scenario):
            raise ParameterError(line)
        self.scenario = scenario
        self.clock = Clock()
        self.recorder = recorder
        self._failed = failed
        self._trace = scenario.trace()
        hand: Hand = self.hand
        disturbances = None
        if any(fault.kind == "disturb" for fault in scenario.faults):
            hand = DisturbedHand(scenario, self.clock, self.hand)
            disturbances = hand.disturbances
        self.channel: Channel
        if scenario.access_points:
            self.channel = MeshChannel(scenario, self.clock, recorder, hand)
        elif scenario.wire is not None:
            self.channel = WiredChannel(scenario, hand)
        else:
            self.channel = AdHocChannel(scenario, hand, self._unacknowledged)
        self._tick = _tick(scenario)
        self._last_move = max(node.waypoints[-1].time for node in scenario.nodes)
        self._indices = {node.id: index for index, node in enumerate(scenario.nodes)}
        self._move()
        if scenario.contacts is not None:
            self._meet(Contacts(scenario.contacts, [node.id for node in scenario.nodes]))
        self.nodes: list[VirtualHost] = []
        self._environment = scenario.environment()
        self._make_service = make_service
        protocol = scenario.protocol
        self._parameters = (
            registry.typed(protocol.name, protocol.parameters) if make_service is None else None
        )
        self.reports_links = self.channel.reports_links
        self._sealed = scenario.key is not None
        for index in range(len(scenario.nodes)):
            host = VirtualHost(scenario, index, self.clock, self)
            host.service = self._service(host)
            self.nodes.append(host)
        self._client = WorkloadClient(scenario, self.clock, recorder)
        for host in self.nodes:
            self._boot(host)
        self._client.start(self._defect)
        if scenario.faults or scenario.radio.battery is not None:
            names = {host.spec.name: host for host in self.nodes}
            VirtualFaults(
                *(scenario, self.clock, self.channel, names, self._boot_again),
                *(self.hand, recorder, disturbances),
            )

    def _service(self, host: VirtualHost) -> Service:
        if self._make_service is not None:
            return self._make_service(host, host.spec)
        name = self.scenario.protocol.name
        try:
            return registry.create(name, host, self._parameters, self._environment)
        except (ParameterError, registry.ProtocolError):
            raise
        except Exception as error:
            self._defect(host, error)
            name = type(error).__name__
            raise registry.ProtocolError(
                f"{host.spec.name}: defect in the protocol: {name}: {error}"
            ) from error

    def _boot(self, host: VirtualHost) -> None:
        """Start a host's node app as soon as time passes."""
        send = self._client.receiver(host)
        host.clients = ClientTable(host, host.service, send, host.about)
        for start in (host.clients.start, host.service.start):
            self.clock.call_at(self.clock.now, start).owner = host  # a crash cancels it

    def _boot_again(self, host: VirtualHost) -> None:
        host.service = self._service(host)
        self._boot(host)
        self._client.returned(host)

    @property
    def medium(self) -> Medium:
        """The medium of the stations' radios; hosts on a switch have none."""
        assert self.channel.medium is not None
        return self.channel.medium

    @property
    def now(self) -> float:
        """Seconds into the run."""
        return self.clock.now

    @property
    def problems(self) -> list[str]:
        """Problems with the workload, one line each."""
        return self._client.problems

    def run(self, until: float | None = None) -> None:
        """Let time pass until `until` seconds into the run, its end by default."""
        # The collector need not visit objects that stay until the end, as all nodes do, nor run
        # often: nearly all temporary objects have no cycles.
        thresholds = gc.get_threshold()
        gc.freeze()
        gc.set_threshold(GARBAGE, *thresholds[1:])
        try:
            self._run(self.scenario.duration if until is None else until)
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()

    def _run(self, end: float) -> None:
        clock = self.clock
        next_delivery, deliver = self.channel.next_delivery, self.channel.deliver
        while True:
            due = clock.due()
            delivery = next_delivery(due if due < end else end)
            if delivery is not None:
                clock.now = delivery.time
                deliver(delivery)
            elif clock.due() <= end:
                owner = clock.next_owner()
                try:
                    clock.step()
                except Exception as error:  # noqa: BLE001  a defect of one node is its own
                    self._defect(owner, error)
            else:
                break
        clock.now = max(clock.now, end)

    def _defect(self, host: object, error: Exception) -> None:
        wrote = isinstance(error, OSError) and any(
            frame.f_globals.get("__name__") in WRITING
            for frame, _ in traceback.walk_tb(error.__traceback__)
        )
        if self._failed is None or not isinstance(host, VirtualHost) or wrote:
            raise error
        host.counters["internal errors"] += 1
        self._failed(host.spec.name, error)

    # Radio.

    def send(self, host: VirtualHost, to: int, datagram: bytes) -> None:
        now = self.clock.now
        index = host.index
        if host.seal is not None:
            try:
                datagram = host.seal.seal(datagram, now)
            except WireError:
                host.counters["too long to seal"] += 1
                return
        if to == BROADCAST:
            destination = TO_ALL
        else:
            destination = self._indices.get(to, index)
            if destination == index:
                # The kernel would find no neighbour for the node itself: nothing is sent.
                host.counters["send failed: no such neighbour"] += 1
                return
        packets = self.recorder.sent(now, index, to, datagram)
        length = len(datagram)
        transmit = self.channel.transmit
        if length <= LARGEST_WHOLE:
            message = Message(host.node_id, datagram, 1)
            transmit(now, index, destination, HEADERS + length, (message, 0, packets[0]))
            return
        lengths = frame_lengths(length)
        message = Message(host.node_id, datagram, len(lengths))
        for number, size in enumerate(lengths):
            transmit(now, index, destination, size, (message, number, packets[number]))

    def withdraw(self, host: VirtualHost, to: int) -> list[bytes]:
        """Take back a host's datagrams for a node that have had no packet on the air."""
        index = self._indices.get(to)
        if index is None:
            return []
        datagrams = []
        for message, _, _ in self.channel.withdraw(host.index, index):
            if not message.failed:
                message.failed = True
                datagrams.append(self._whole(message))
        return datagrams

    def listen(self, host: VirtualHost) -> bool:
        """Let a host overhear packets between others, if the channel can."""
        return self.channel.listen(host.index, self._overheard)

    def _overheard(self, time: float, listeners: list[int], carried: Carried) -> None:
        """Hand a packet to nodes that it is not for; their captures do not contain it."""
        message = carried[0]
        frame = message.frame()
        if frame is None or message.count > 1:
            return
        for listener in listeners:
            host = self.nodes[listener]
            if host.overheard is None:
                continue
            if host.seal is not None:
                contents = self._contents(host, message)
                if contents is None:
                    continue
                frame = contents
            try:
                host.overheard(frame, message.sender)
            except Exception as error:  # noqa: BLE001  a defect of one node is its own
                self._defect(host, error)

    def _unacknowledged(self, time: float, source: int, destination: int, carried: Carried) -> bool:
        """Notify an interested host, in its turn, of a datagram that was not acknowledged."""
        host, message = self.nodes[source], carried[0]
        if host.link_failed is None or message.failed:
            return False
        message.failed = True
        to = self.nodes[destination].node_id
        timer = self.clock.call_at(time, host.link_failed, to, self._whole(message))
        timer.owner = host
        return True

    def hand(self, time: float, receivers: list[int], carried: Carried) -> None:
        """Hand a packet to the nodes whose indices are `receivers`."""
        message, number, packet = carried
        self.recorder.heard(time, receivers, packet)
        frame, sender, nodes = message.frame(), message.sender, self.nodes
        for receiver in receivers:
            host = nodes[receiver]
            if message.count > 1 and not host.complete(message, number, message.count):
                continue
            try:
                if host.seal is not None:
                    datagram = self._opened(host, message)
                    if datagram is not None:
                        host.service.datagram_received(datagram, sender)
                elif frame is not None:
                    host.service.receive(frame, sender)
                else:
                    host.service.datagram_received(message.datagram, sender)
            except Exception as error:  # noqa: BLE001  a defect of one node is its own
                self._defect(host, error)

    def _whole(self, message: Message) -> bytes:
        """Return a datagram as its sender's protocol passed it."""
        return Seal.strip(message.datagram) if self._sealed else message.datagram

    def _opened(self, host: VirtualHost, message: Message) -> bytes | None:
        """Return the contents of a sealed datagram; None if the host rejects it, and counts it."""
        assert host.seal is not None
        try:
            return host.seal.open(message.datagram, message.sender)
        except WireError as error:
            host.counters[f"refused: {error}"] += 1
            return None

    def _contents(self, host: VirtualHost, message: Message) -> Frame | None:
        """Return the frame in a sealed datagram that a host overhears, in each of its tries.

        The tries are one frame of 802.11, so that no later one is a replay.
        """
        if message.contents is None:
            message.contents = {}
        if host.index not in message.contents:
            datagram = self._opened(host, message)
            message.contents[host.index] = None if datagram is None else decode(datagram)
        return message.contents[host.index]

    # Motion.

    def _move(self) -> None:
        self.channel.set_positions(self._trace.positions(self.clock.now))
        if self._trace.moving and self.clock.now < self._last_move:
            # On a fixed grid: a multiple of the tick rather than a sum.
            number = round(self.clock.now / self._tick) + 1
            self.clock.call_at(number * self._tick, self._move)

    def _meet(self, contacts: Contacts) -> None:
        self.medium.meet(contacts.at(self.clock.now))
        change = contacts.next(self.clock.now)
        if change < self.scenario.duration:
            self.clock.call_at(change, self._meet, contacts)


def _tick(scenario: Scenario) -> float:
    """Return the seconds between updates of positions."""
    fastest = 0.0
    for node in scenario.nodes:
        for (t0, x0, y0), (t1, x1, y1) in zip(node.waypoints, node.waypoints[1:], strict=False):
            if t1 > t0:
                fastest = max(fastest, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 / (t1 - t0))
    if fastest == 0.0:
        return LONGEST_TICK
    wanted = TICK_SHARE * scenario.environment().radio_range / fastest
    return min(max(wanted, TICK), LONGEST_TICK)
