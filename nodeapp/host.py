"""What protocols may ask of the world: the `Host`.

Routing and publish/subscribe protocols are plain objects.  They never open a socket, read a
clock or sleep; everything they need comes through a host.  `nodeapp.node` is the host on a real
machine or in a namespace (asyncio); a simulator is another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from nodeapp.events import Event
from nodeapp.wire import Frame


class Position(NamedTuple):
    """A point on the local plane, metres, with velocity, metres a second."""

    x: float
    y: float
    vx: float = 0.0
    vy: float = 0.0


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Forget the call; no effect if it was made already."""


class Host(Protocol):
    """The world as one node sees it."""

    @property
    def node_id(self) -> int:
        """This node: 1 to 2**32 - 2; the IPv4 address follows from it (`nodeapp.addressing`)."""

    @property
    def rng(self) -> random.Random:
        """Source of randomness, seeded per node."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""

    def position(self) -> Position:
        """Return where this node is."""

    def send(self, to: int, datagram: bytes) -> None:
        """Send to one neighbour, or to all with `nodeapp.wire.BROADCAST`: one radio hop."""

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        """Have `failed(to, datagram)` called when a neighbour did not acknowledge a datagram.

        Return False if the link layer does not report it; then it is never called.
        """

    def withdraw(self, to: int) -> list[bytes]:
        """Take back the datagrams for a neighbour that wait to be sent, oldest first.

        Empty if the link layer gives none back.
        """

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        """Have `heard(frame, sender)` called for what neighbours send to other nodes.

        That is every transmission of a frame that this node's radio decodes, repetitions and
        datagrams that are not for any local service included, but no fragments.  Return False if
        the radio hands on nothing that is for others; then it is never called.
        """

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call `callback(*args)` in `delay` seconds."""

    def notify(self, event: Event, hops: int) -> None:
        """Hand an event that came over `hops` radio hops to the local clients that want it."""
