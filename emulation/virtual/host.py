"""The host under the virtual clock: one node's view of a simulation.

While a real node reads from a gpsd server, this one gets the fixes that the server would report, at
the same rate, and extrapolates them along their velocity in the same way.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from emulation.network.gpsd import RATE
from emulation.scenario.faults import clock_ahead
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.virtual.clock import Clock, VirtualTimer
from emulation.virtual.motion import Motion
from nodeapp.auth import Seal
from nodeapp.client_port import ClientTable
from nodeapp.events import Event
from nodeapp.host import Position
from nodeapp.pubsub.base import Service
from nodeapp.wire import Frame

REASSEMBLIES: Final = 64
"""Most incompletely reassembled datagrams before the oldest is given up."""


def _ahead(clock: Clock, ahead: float) -> float:
    return clock.now + ahead


class HostRadio(Protocol):
    """The radio of hosts."""

    @property
    def reports_links(self) -> bool:
        """Whether it calls `VirtualHost.link_failed` for unicasts that were not acknowledged."""

    def send(self, host: VirtualHost, to: int, datagram: bytes) -> None:
        """Take a datagram of a host."""

    def withdraw(self, host: VirtualHost, to: int) -> list[bytes]:
        """Return a host's datagrams for a node that were not yet on the air."""

    def listen(self, host: VirtualHost) -> bool:
        """Call `VirtualHost.overheard` from now on; return whether that is possible."""


class VirtualHost:
    """A node: the `nodeapp.host.Host`; `index` is its index in the scenario's nodes."""

    service: Service
    clients: ClientTable

    def __init__(
        self,
        scenario: Scenario,
        index: int,
        clock: Clock,
        radio: HostRadio,
    ) -> None:
        spec: NodeSpec = scenario.nodes[index]
        self.running = True
        """Whether its node app runs."""
        self.index = index
        self.spec = spec
        self.counters: Counter[str] = Counter()
        self._protocol = scenario.protocol.name
        self._clock = clock
        self._radio = radio
        self._send = radio.send
        self._node_id = spec.id
        self._key = scenario.key
        self.seal = None if self._key is None else Seal(self._key, spec.id)
        self._seed = f"{scenario.seed}/{spec.id}"
        self._rng = random.Random(self._seed)
        ahead = clock_ahead(scenario.faults, spec.name)
        self.now: Callable[[], float] = partial(_ahead, clock, ahead) if ahead else clock.time
        """Return the seconds of this node's clock; compiled like `position`, where possible."""
        self.motion = Motion(clock, spec.waypoints, RATE)
        self.position: Callable[[], Position] = self.motion.position
        """Return the last fix, extrapolated along its velocity."""
        self.link_failed: Callable[[int, bytes], None] | None = None
        self.overheard: Callable[[Frame, int], None] | None = None
        self._fragments: OrderedDict[object, set[int]] = OrderedDict()

    def begin_again(self) -> None:
        """Reset to the state at the start of the node app, which was not running."""
        self.running = True
        self.counters = Counter()
        self.seal = None if self._key is None else Seal(self._key, self._node_id)
        self._rng = random.Random(self._seed)
        self.link_failed = self.overheard = None
        self._fragments.clear()

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def rng(self) -> random.Random:
        """Seeded from the scenario's seed and the node id, as a real node's."""
        return self._rng

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call back after a delay by the clock."""
        timer = self._clock.call_later(delay, callback, *args)
        timer.owner = self
        return timer

    def send(self, to: int, datagram: bytes) -> None:
        """Send over the radio."""
        self._send(self, to, datagram)

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        """Have the channel report failed links, if it can."""
        self.link_failed = failed
        return self._radio.reports_links

    def withdraw(self, to: int) -> list[bytes]:
        """Take datagrams back out of the radio's queue."""
        return self._radio.withdraw(self, to)

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        """Make the radio promiscuous, if the channel can."""
        self.overheard = heard
        return self._radio.listen(self)

    def notify(self, event: Event, hops: int) -> None:
        """Hand an event to the local clients that want it."""
        self.clients.notify(event, hops)

    def complete(self, message: object, fragment: int, count: int) -> bool:
        """Take fragment number `fragment` of a message; return whether it is whole now."""
        waiting = self._fragments
        here = waiting.setdefault(message, set())
        here.add(fragment)
        if len(here) < count:
            if len(waiting) > REASSEMBLIES:
                waiting.popitem(last=False)
            return False
        del waiting[message]
        return True

    def about(self) -> dict[str, Any]:
        """Return the host's facts for STATUS."""
        x, y, vx, vy = (round(value, 3) for value in self.position())
        return {
            "node": self.node_id,
            "protocol": self._protocol,
            "position": [x, y],
            "velocity": [vx, vy],
            "host counters": dict(self.counters),
        }
