"""Framing of the messages between the host and the agent in the guest, without I/O.

One virtio-serial port carries all of it: frames of a kind (one byte), a length (four bytes, big
endian) and a payload.  `MESSAGE` frames hold a JSON object; the others hold bytes of the running
command's standard streams, so output and exit code arrive in order.  The guest uses this file as it
is: it needs only the standard library.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final

MESSAGE: Final = b"M"
INPUT: Final = b"I"
"""Bytes for the command's standard input; an empty frame closes it."""
OUTPUT: Final = b"O"
ERRORS: Final = b"E"
KINDS: Final = MESSAGE + INPUT + OUTPUT + ERRORS
HEADER: Final = struct.Struct(">cI")
LARGEST: Final = 1 << 20

PORT: Final = "testbed.control"
"""Name of the virtio-serial port."""
ALIVE_INTERVAL: Final = 5.0
"""Seconds between signs of life from the guest."""


class FramingError(Exception):
    """Bytes that are not frames."""


def frame(kind: bytes, payload: bytes) -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, len(payload)) + payload


def message(**fields: Any) -> bytes:
    """Return the frame of a message."""
    return frame(MESSAGE, json.dumps(fields).encode())


class Receiver:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Take bytes; yield kind and payload of every complete frame.

        Raises `FramingError`.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            if kind not in KINDS or length > LARGEST:
                raise FramingError(f"not a frame: kind {kind!r}, {length} bytes")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload


def fields(payload: bytes) -> dict[str, Any]:
    """Return the fields of a message.  Raises `FramingError`."""
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise FramingError(f"no message: {payload[:80]!r}") from error
    if not isinstance(value, dict):
        raise FramingError(f"no message: {payload[:80]!r}")
    return value
