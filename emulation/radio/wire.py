"""Hosts on a switch: their medium instead of a radio.

Theory of operation.  Every host has a cable to one switch.  A frame takes the one-way delay of its
sender's cable and then that of its receiver's; bandwidth is unlimited and nothing is lost, as the
published overlay's simulation has it (docs/papers.md#semantic-overlay, section IV).  Frames between
two hosts arrive in the order in which they were sent.

`WireMedium` is used like a radio medium (`emulation.radio.medium`): sans-I/O, both under the
virtual clock and between TAP devices.  It has no positions and no radio faults.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from emulation.radio.counters import Counters
from emulation.radio.delivery import Delivery
from emulation.radio.link_row import Link

FOREVER: Final = float("inf")
BROADCAST: Final = -1
"""Destination: every other host, as in `emulation.radio.medium`."""
NO_RANGE: Final = 1.0
"""Metres that nodes on a switch assume as radio range, as they have none."""


class WireSpec(BaseModel):
    """The cables of all hosts: one-way delays in seconds, in the order of the nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    delays: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=1)


class WireMedium:
    """The switch and the cables of all hosts in `wire`; times in seconds."""

    def __init__(self, wire: WireSpec) -> None:
        self.count = len(wire.delays)
        self.counters = Counters(self.count)
        self._delays: Sequence[float] = wire.delays
        self._heap: list[tuple[float, int, Delivery]] = []
        self._order = 0
        self._down: set[int] = set()
        self._cut: set[tuple[int, int]] = set()

    def transmit(
        self,
        now: float,
        source: int,
        destination: int,
        size_bytes: int,
        frame: Any,
        tries: tuple[Any, ...] = (),
        first: bool = False,
    ) -> bool:
        """Send a frame; return whether the sender's cable is up.

        `destination` is a host, `BROADCAST`, or another negative number: an address that no host
        has.  The rest is as in `emulation.radio.medium.Medium.transmit`, and unused.
        """
        counters = self.counters
        if source in self._down:
            counters.queue_drops[source] += 1
            return False
        counters.queued[source] += 1
        counters.sent[source] += 1
        delays = self._delays
        if destination >= 0:
            self._push(now + delays[source] + delays[destination], frame, source, destination)
        elif destination == BROADCAST:
            for host in range(self.count):
                if host != source:
                    self._push(now + delays[source] + delays[host], frame, source, host)
        return True

    def _push(self, time: float, frame: Any, source: int, destination: int) -> None:
        if destination in self._down or (source, destination) in self._cut:
            return
        self._order += 1
        delivery = Delivery(time, frame, source, [destination])
        heapq.heappush(self._heap, (time, self._order, delivery))

    def next_event(self) -> float:
        """Return when the next frame arrives; infinity if none is under way."""
        return self._heap[0][0] if self._heap else FOREVER

    def next_delivery(self, until: float) -> Delivery | None:
        """Return the next arrival; None if `until` comes first."""
        if not self._heap or self._heap[0][0] > until:
            return None
        delivery = heapq.heappop(self._heap)[2]
        self.counters.received[delivery.receivers[0]] += 1
        return delivery

    def advance(self, now: float) -> list[Delivery]:
        """Return the frames that arrived by `now` since the last call, in order."""
        deliveries = []
        while (delivery := self.next_delivery(now)) is not None:
            deliveries.append(delivery)
        return deliveries

    def set_positions(self, xy: object) -> None:
        """Do nothing: positions do not affect cables."""

    def fail(self, host: int, other: int | None = None) -> None:
        """Take down a host's cable, or the path between two hosts."""
        if other is None:
            self._down.add(host)
        else:
            self._cut |= {(host, other), (other, host)}

    def heal(self, host: int, other: int | None = None) -> None:
        """Undo `fail`."""
        if other is None:
            self._down.discard(host)
        else:
            self._cut -= {(host, other), (other, host)}

    def links(self, host: int) -> list[Link]:
        """Return nothing: a switch has no radio links."""
        return []
