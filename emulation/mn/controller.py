"""A learning switch's controller: `controller ptcp:6653`, in the place of OpenFlow's reference one.

Theory of operation.  OpenFlow 1.0 (the version that Open vSwitch and Mininet use unless told
otherwise) over TCP.  A frame that matches no flow is sent to the controller (packet in), which
learns the port of its source.  If the port of the destination is known, the pair gets a flow for
some seconds, which this frame follows; else it is flooded.  A station that moves to another access
point is learnt again at its new port, and the flows that lead to the old one are removed.

Departure from the reference controller: flows match in-port, source and destination only.
It uses only the standard library, so it starts in a tenth of a second.

    python -m emulation.mn.controller ptcp:PORT
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable
from typing import Final

VERSION: Final = 1
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY, SET_CONFIG, PACKET_IN, PACKET_OUT, FLOW_MOD = 5, 6, 9, 10, 13, 14
HEADER: Final = struct.Struct("!BBHI")
FLOOD: Final = 0xFFFB
NO_BUFFER: Final = 0xFFFFFFFF
WILDCARDS: Final = 0x3FFFFF & ~(1 | 4 | 8)
"""OFPFW_ALL without in-port, source and destination."""
ONLY_TARGET: Final = 0x3FFFFF & ~8
DELETE: Final = 3
IDLE_SECONDS: Final = 5
PORT: Final = 6653


def message(kind: int, transaction: int, body: bytes = b"") -> bytes:
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), transaction) + body


def output(port: int) -> bytes:
    """Return the action that sends a frame out of a port."""
    return struct.pack("!HHHH", 0, 8, port, 0xFFFF)


class Learner:
    """One bridge: which port leads to which Ethernet address."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.ports: dict[bytes, int] = {}

    def greet(self) -> None:
        """Send the greeting that opens a connection."""
        self._send(message(HELLO, 0) + message(FEATURES_REQUEST, 1))

    def received(self, kind: int, transaction: int, body: bytes) -> None:
        """Take a message."""
        if kind == ECHO_REQUEST:
            self._send(message(ECHO_REPLY, transaction, body))
        elif kind == FEATURES_REPLY:
            self._send(message(SET_CONFIG, 2, struct.pack("!HH", 0, 0xFFFF)))
        elif kind == PACKET_IN and len(body) >= 24:
            self._packet(transaction, body)

    def _packet(self, transaction: int, body: bytes) -> None:
        buffer, _length, port = struct.unpack_from("!IHH", body)
        frame = body[10:]
        target, source = frame[:6], frame[6:12]
        if self.ports.get(source, port) != port:
            self._forget(source)
        self.ports[source] = port
        out = self.ports.get(target)
        if out is None or target[0] & 1:
            out = FLOOD
        elif out == port:
            return
        else:
            match = struct.pack("!IH", WILDCARDS, port) + source + target + bytes(22)
            rule = struct.pack("!QHHHHIHH", 0, 0, IDLE_SECONDS, 0, 1, NO_BUFFER, 0xFFFF, 0)
            self._send(message(FLOW_MOD, transaction, match + rule + output(out)))
        head = struct.pack("!IHH", buffer, port, 8) + output(out)
        self._send(message(PACKET_OUT, transaction, head + (frame if buffer == NO_BUFFER else b"")))

    def _forget(self, address: bytes) -> None:
        """Remove the flows that lead to an address that has moved."""
        match = struct.pack("!IH", ONLY_TARGET, 0) + bytes(6) + address + bytes(22)
        rule = struct.pack("!QHHHHIHH", 0, DELETE, 0, 0, 0, NO_BUFFER, 0xFFFF, 0)
        self._send(message(FLOW_MOD, 0, match + rule))


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one bridge until it goes."""
    learner = Learner(writer.write)
    learner.greet()
    try:
        while True:
            version, kind, length, transaction = HEADER.unpack(await reader.readexactly(8))
            body = await reader.readexactly(max(0, length - HEADER.size))
            if version == VERSION or kind == HELLO:
                learner.received(kind, transaction, body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(port: int) -> None:
    """Listen for bridges."""
    server = await asyncio.start_server(converse, "0.0.0.0", port)  # noqa: S104  of its own namespace, for switches of others
    async with server:
        await server.serve_forever()


def main(arguments: list[str]) -> int:
    """Run the controller; return the exit code."""
    words = [word for word in arguments if not word.startswith("-")]
    kind, _, number = (words[0] if len(words) == 1 else "").partition(":")
    if kind != "ptcp" or (number and not number.isdigit()):
        print("usage: controller ptcp:PORT", file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(int(number or PORT)))
    except OSError as error:
        print(f"controller: port {number or PORT}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
