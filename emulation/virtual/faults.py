"""Faults under the virtual clock, like `emulation.backends.realtime.faults` for processes.

A node app that is killed leaves its host's kernel and radio running: frames for it arrive, but
nobody receives them.  It restarts like a process under a service manager, with nothing but its
command line, and so with the same random numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from emulation.radio.energy import EnergyMeter
from emulation.radio.faults import Disturbances
from emulation.scenario.faults import Fault, position_error
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Carried, Channel, Hand, Message
from emulation.virtual.clock import Clock
from emulation.virtual.host import VirtualHost
from emulation.virtual.recording import VirtualRecorder
from nodeapp.events import Event
from nodeapp.pubsub.base import Service
from nodeapp.wire import Frame


class _Nobody(Service):
    """Stands in for the service of a node app that is not running."""

    def __init__(self) -> None:
        """Set up none of a service's state."""

    def start(self) -> None:
        """Do nothing."""

    def disseminate(self, event: Event) -> None:
        """Do nothing."""

    def receive(self, frame: Frame, sender: int) -> None:
        """Do nothing."""

    def datagram_received(self, datagram: bytes, sender: int) -> None:
        """Do nothing."""


class DisturbedHand:
    """Hands packets on as the active disturbances dictate."""

    def __init__(self, scenario: Scenario, clock: Clock, hand: Hand) -> None:
        self.disturbances = Disturbances(scenario.rng("disturbances"))
        self._clock = clock
        self._hand = hand
        self._names = [node.name for node in scenario.nodes]
        self._senders = {node.id: node.name for node in scenario.nodes}

    def __call__(self, time: float, receivers: list[int], carried: Carried) -> None:
        """Hand a packet to the nodes with these indices, to each as often and late as it comes."""
        if not self.disturbances.active:
            self._hand(time, receivers, carried)
            return
        sender = self._senders[carried[0].sender]
        for receiver in receivers:
            for late in self.disturbances.copies((sender, self._names[receiver])):
                if late:
                    arrives = time + late
                    self._clock.call_at(arrives, self._hand, arrives, [receiver], carried)
                else:
                    self._hand(time, [receiver], carried)


class VirtualFaults:
    """The faults of a scenario, begun and ended at their times.

    `boot` starts a host's node app, and `hand` gives hosts what a stranger sends.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        channel: Channel,
        hosts: Mapping[str, VirtualHost],
        boot: Callable[[VirtualHost], None],
        hand: Hand,
        recorder: VirtualRecorder,
        disturbances: Disturbances | None,
    ) -> None:
        self._scenario = scenario
        self._hand = hand
        self._recorder = recorder
        self._disturbances = disturbances
        self._clock = clock
        self._channel = channel
        self._hosts = hosts
        self._boot = boot
        self._misplacing: list[Fault] = []
        """Active position faults."""
        self._down: Counter[str] = Counter()
        """Names of nodes whose app is down, with the number of faults that keep it down."""
        for fault in scenario.faults:
            if fault.kind == "clock":
                continue  # hosts start with it
            clock.call_at(fault.start, self.begin, fault)
            if fault.end is not None:
                clock.call_at(fault.end, self.end, fault)
        energy = channel.faults.energy
        if energy is not None and energy.battery is not None:
            for radio, node in enumerate(scenario.stations):
                clock.call_at(0.0, self._drain, energy, radio, node.name)

    def _drain(self, energy: EnergyMeter, radio: int, name: str) -> None:
        """Switch a station off if its battery is empty."""
        now = self._clock.now
        again = energy.drained(radio, now)
        if again > now:
            self._clock.call_at(again, self._drain, energy, radio, name)
        else:
            self.begin(Fault(kind="off", nodes=(name,), start=now))

    def begin(self, fault: Fault) -> None:
        if fault.kind == "stranger":
            self._forge(fault)
            return
        if fault.kind == "disturb":
            assert self._disturbances is not None
            self._disturbances.begin(fault)
            return
        if fault.kind == "position":
            self._misplacing.append(fault)
            self._misplace(fault)
            return
        if fault.is_of_radio:
            self._channel.faults.begin(fault, self._clock.now)
        for name in fault.nodes if fault.is_of_apps else ():
            self._down[name] += 1
            if self._down[name] == 1:
                self._kill(self._hosts[name])

    def end(self, fault: Fault) -> None:
        if fault.kind == "disturb":
            assert self._disturbances is not None
            self._disturbances.end(fault)
            return
        if fault.kind == "position":
            self._misplacing.remove(fault)
            self._misplace(fault)
            return
        if fault.is_of_radio:
            self._channel.faults.end(fault, self._clock.now)
        for name in fault.nodes if fault.is_of_apps else ():
            self._down[name] -= 1
            if not self._down[name]:
                self._hosts[name].begin_again()
                self._boot(self._hosts[name])

    def _misplace(self, fault: Fault) -> None:
        for name in fault.nodes:
            self._hosts[name].motion.misplace(*position_error(self._misplacing, name))

    def _forge(self, fault: Fault) -> None:
        """Hand a stranger's packet to those who hear it."""
        sender, datagram = self._scenario.id_of(fault.sender), bytes.fromhex(fault.datagram)
        packet = self._recorder.forged(sender, datagram)
        receivers = [self._hosts[node.name].index for node in self._scenario.heard_by(fault)]
        self._hand(self._clock.now, receivers, (Message(sender, datagram, 1), 0, packet))

    def _kill(self, host: VirtualHost) -> None:
        for timer in self._clock:
            if timer.owner is host:
                timer.cancel()
        host.running = False
        host.service = _Nobody()
        host.link_failed = host.overheard = None
