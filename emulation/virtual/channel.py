"""The channel of a simulation: everything between one node's stack and another's.

Three implementations exist: stations that hear each other directly (`emulation.virtual.adhoc`),
stations and brokers behind access points (`emulation.virtual.mesh`), and hosts on a switch
(`emulation.virtual.wired`).  `Simulation` takes the one that the scenario needs, and does not know
which.

A datagram on its way is a `Message`, decoded once for all receivers.

Nodes are named by their index in `Scenario.nodes`; times are seconds into the run, positions
metres, sizes bytes of the Ethernet frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from emulation.radio.delivery import Delivery
from emulation.radio.faults import RadioFaults
from emulation.radio.losses import LossLog
from emulation.radio.medium import Medium
from emulation.virtual.recording import Packet
from nodeapp import wire
from nodeapp.kinds import TrafficClass
from nodeapp.wire import WireError


class Message:
    """A datagram on its way from node `sender`, in `count` packets: several if it is long."""

    __slots__ = ("_decoded", "_frame", "contents", "count", "datagram", "failed", "sender")

    def __init__(self, sender: int, datagram: bytes, count: int) -> None:
        self.sender = sender
        self.datagram = datagram
        self.count = count
        self.failed = False
        """Whether the sender was notified that one of its packets was not acknowledged."""
        self.contents: dict[int, wire.Frame | None] | None = None
        """What nodes that overheard it have found in it, if it is sealed."""
        self._frame: wire.Frame | None = None
        self._decoded = False

    def frame(self) -> wire.Frame | None:
        """Return the decoded frame, the same one for every receiver; None if it is malformed."""
        if not self._decoded:
            self._decoded = True
            try:
                self._frame = wire.decode(self.datagram)
            except WireError:
                self._frame = None
        return self._frame

    @property
    def is_routing(self) -> bool:
        """Whether it is a message of the routing protocol, which may overtake others in queues."""
        return wire.traffic_class(self.datagram) is TrafficClass.ROUTING_CONTROL


Carried = tuple[Message, int, Packet]
"""A channel's unit: a message, the index of one of its packets, and that packet in the recorder's
form."""
Hand = Callable[[float, list[int], Carried], None]
"""Hands a packet that arrives at a given time to the nodes with these indices."""
Unacknowledged = Callable[[float, int, int, Carried], bool]
"""Reports to the simulation when a packet from one node to another was given up.

Returns whether it has made a timer for that instant: then the channel stops there, and the timer
has its turn before anything else happens.
"""


class Channel:
    """Carries packets between nodes; given the same calls it does the same, to the bit.

    The channel has no clock of its own: time passes in `next_delivery` only.
    """

    medium: Medium | None = None
    """The medium of the stations' radios; None: they are hosts on a switch."""
    faults: RadioFaults
    """Begins and ends faults of its radios."""
    reports_links: bool
    """Whether it reports unicasts that their destination did not acknowledge."""
    transmit: Callable[[float, int, int, int, Carried], object]
    """`transmit(now, source, destination, size, carried)`: send a packet of a node.

    `destination` is a node or `emulation.radio.medium.BROADCAST`.
    """
    next_delivery: Callable[[float], Delivery | None]
    """`next_delivery(until)`: let time pass until something arrives, and return it.

    None if `until` comes first, or if an `Unacknowledged` returned True.
    """
    deliver: Callable[[Delivery], None]
    """`deliver(delivery)`: hand the last result of `next_delivery` to its receivers."""

    def listen(self, node: int, hand: Hand) -> bool:
        """Have `hand` called with packets for others that a node decodes.

        Return False if none arrive, as behind a switch or an access point.  All nodes give the same
        `hand`, before time passes.
        """
        return False

    def log_losses(self, log: LossLog) -> None:
        """Log packets that do not arrive; cables lose none."""

    def withdraw(self, node: int, to: int) -> list[Carried]:
        """Take back a node's queued packets for another; empty if that is impossible."""
        return []

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        """Set the nodes' positions, if they count: an array (N, 2) of metres."""

    def exported(self) -> dict[str, Any] | None:
        """Return the flow counters of the access points so far; None if there are none."""
        return None
