"""The marker before every event that a middleware carries, by which captures show where it went.

    magic (8 bytes)   publisher (4)   sequence (4)   the event's body, CBOR

Numbers are big-endian.  A system may put the payload wherever it likes, several in a frame and one
across frames: the magic is found as long as nothing encrypts or compresses it.
"""

from __future__ import annotations

import struct
from typing import Final

from nodeapp.events import Event
from nodeapp.wire import WireError

MAGIC: Final = bytes.fromhex("f7c1a59e3db06842")
"""Drawn at random: other bytes equal it once in 2**64."""
MARKER: Final = struct.Struct(">8sII")


def mark(event: Event) -> bytes:
    """Return the payload that carries an event."""
    return MARKER.pack(MAGIC, event.publisher, event.sequence) + event.encode()


def read(payload: bytes) -> Event:
    """Return the event in a payload.  Raises `WireError` for a payload that is not marked."""
    if len(payload) < MARKER.size or payload[: len(MAGIC)] != MAGIC:
        raise WireError("a payload without a marker")
    _, publisher, sequence = MARKER.unpack_from(payload)
    return Event.decode(publisher, sequence, payload[MARKER.size :])
