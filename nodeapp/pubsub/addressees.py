"""Events to several neighbours: a frame for each, or one broadcast that lists them.

A unicast is acknowledged and repeated by the link layer.  A broadcast costs one frame however many
neighbours it is for, but the link layer does neither, and sends it at the basic rate.  The
neighbours that are to take it are listed in the routing extension, and others drop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.wire import (
    BROADCAST,
    MAX_ADDRESSEES,
    Frame,
    decode_addressees,
    encode_addressees,
)

UNICAST: Final = "unicast"
LIST: Final = "list"

Addressing = Annotated[
    str, Param("a frame for each neighbour, or one that lists them", choices=(UNICAST, LIST))
]


def broadcast_to(host: Host, frame: Frame, neighbours: Sequence[int]) -> None:
    """Broadcast a frame to neighbours alone, in as many copies as their list needs."""
    for first in range(0, len(neighbours), MAX_ADDRESSEES):
        route = encode_addressees(neighbours[first : first + MAX_ADDRESSEES])
        host.send(BROADCAST, frame._replace(route=route).encode())


def is_for(frame: Frame, node: int) -> bool:
    """Return whether a frame that was received is for this node.  Raises `WireError`."""
    return not frame.route or node in decode_addressees(frame.route)
