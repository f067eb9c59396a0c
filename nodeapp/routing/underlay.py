"""The underlay: what carries the links of an overlay.

A link of an overlay is a path of the network below it, and not a hop: a peer sends to any node id.
On a wired network every node is a hop from any other, and a frame goes there at once; on an ad hoc
network AODV finds a route.  Which of the two it is follows from the environment, so that an overlay
is the same object on both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from nodeapp.addressing import NETWORK
from nodeapp.host import Host
from nodeapp.routing.aodv import Aodv, AodvParameters
from nodeapp.wire import Frame

Deliver = Callable[[Frame], None]

_BROADCAST_HOST: Final = NETWORK.num_addresses - 1


class Underlay(Protocol):
    """Carries frames to node ids."""

    handlers: dict[int, Callable[[Frame, int], None]]
    """What it does with frames of its own kinds."""

    def start(self) -> None:
        """Begin."""

    def send(self, frame: Frame) -> None:
        """Send a frame to its destination; `hops` are those that its event has made before."""

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame from the network below: deliver it, or send it on.  Raises `WireError`."""


class DirectUnderlay:
    """A network on which every node is one hop from any other; `deliver` gets what arrives."""

    def __init__(self, host: Host, counters: Counter[str], deliver: Deliver) -> None:
        self.handlers: dict[int, Callable[[Frame, int], None]] = {}
        self._host = host
        self._me = host.node_id
        self._counters = counters
        self._deliver = deliver

    def start(self) -> None:
        """Do nothing: there is nothing to find out."""

    def send(self, frame: Frame) -> None:
        if frame.destination == self._me:
            self._deliver(frame)
        elif frame.hops >= 255:
            self._counters["time to live used up"] += 1
        else:
            self._host.send(frame.destination, frame._replace(ttl=1).forwarded().encode())

    def receive(self, frame: Frame, sender: int) -> None:
        """Deliver a frame that is for this node; others have been sent astray."""
        if frame.destination != self._me or frame.originator != sender:
            self._counters["not for this node, or not from its sender"] += 1
        else:
            self._deliver(frame)


class RoutedUnderlay:
    """An ad hoc network, on which AODV finds routes; `unreachable` gets nodes without one."""

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        counters: Counter[str],
        deliver: Deliver,
        unreachable: Callable[[int], None],
    ) -> None:
        self._router = Aodv(host, parameters, counters, deliver, lambda frame: None, unreachable)
        self.handlers = self._router.handlers
        self._counters = counters

    def start(self) -> None:
        """Let AODV begin."""
        self._router.start()

    def send(self, frame: Frame) -> None:
        """Send a frame to its destination, once there is a route."""
        self._router.send(frame)

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame that is for this node or that it forwards.  Raises `WireError`."""
        self._router.receive(frame, sender)


def make_underlay(
    host: Host,
    parameters: AodvParameters,
    counters: Counter[str],
    deliver: Deliver,
    unreachable: Callable[[int], None] = lambda node: None,
    *,
    wired: bool,
) -> Underlay:
    """Return the underlay of a network; `parameters` are those of AODV, which a `wired` one lacks.

    `unreachable` is called with a node to which a search has found no route.
    """
    if wired:
        return DirectUnderlay(host, counters, deliver)
    return RoutedUnderlay(host, parameters, counters, deliver, unreachable)


def is_node(value: object) -> bool:
    """Return whether a decoded value is the id of one node."""
    return type(value) is int and 0 < value < _BROADCAST_HOST
