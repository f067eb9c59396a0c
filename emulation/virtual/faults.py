"""Faults under the virtual clock, like `emulation.backends.realtime.faults` for processes.

A node app that is killed leaves its host's kernel and radio running: frames for it arrive, but
nobody receives them.  It restarts like a process under a service manager, with nothing but its
command line, and so with the same random numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from emulation.scenario.faults import Fault
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Channel
from emulation.virtual.clock import Clock
from emulation.virtual.host import VirtualHost
from nodeapp.pubsub.base import Service
from nodeapp.wire import Frame


class _Nobody:
    """Stands in for the service of a node app that is not running."""

    def receive(self, frame: Frame, sender: int) -> None:
        """Do nothing."""

    def datagram_received(self, datagram: bytes, sender: int) -> None:
        """Do nothing."""


class VirtualFaults:
    """The faults of a scenario, made at their times; `boot` starts a host's node app."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        channel: Channel,
        hosts: Mapping[str, VirtualHost],
        boot: Callable[[VirtualHost], None],
    ) -> None:
        self._clock = clock
        self._channel = channel
        self._hosts = hosts
        self._boot = boot
        self._down: Counter[str] = Counter()
        """Names of nodes whose app is down, with the number of faults that keep it down."""
        for fault in scenario.faults:
            clock.call_at(fault.start, self.begin, fault)
            if fault.end is not None:
                clock.call_at(fault.end, self.end, fault)

    def begin(self, fault: Fault) -> None:
        """Make a fault."""
        if fault.is_of_radio:
            self._channel.faults.begin(fault, self._clock.now)
            return
        for name in fault.nodes:
            self._down[name] += 1
            if self._down[name] == 1:
                self._kill(self._hosts[name])

    def end(self, fault: Fault) -> None:
        """End a fault."""
        if fault.is_of_radio:
            self._channel.faults.end(fault, self._clock.now)
            return
        for name in fault.nodes:
            self._down[name] -= 1
            if not self._down[name]:
                self._hosts[name].begin_again()
                self._boot(self._hosts[name])

    def _kill(self, host: VirtualHost) -> None:
        for timer in self._clock:
            if timer.owner is host:
                timer.cancel()
        host.running = False
        host.service = cast(Service, cast(Any, _Nobody()))
        host.link_failed = host.overheard = None
