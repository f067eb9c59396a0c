"""Messages on a channel under the virtual clock: datagrams, decoded once for all receivers."""

from __future__ import annotations

from emulation.virtual.recording import Packet
from nodeapp import wire
from nodeapp.wire import WireError


class Message:
    """A datagram on its way from node `sender`, in `count` packets: several if it is long."""

    __slots__ = ("_decoded", "_frame", "count", "datagram", "failed", "sender")

    def __init__(self, sender: int, datagram: bytes, count: int) -> None:
        self.sender = sender
        self.datagram = datagram
        self.count = count
        self.failed = False
        """Whether the sender was notified that one of its packets was not acknowledged."""
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
        return wire.traffic_class(self.datagram) is wire.TrafficClass.ROUTING_CONTROL


Carried = tuple[Message, int, Packet]
"""A channel's unit: a message, the index of one of its packets, and that packet in the recorder's
form."""
