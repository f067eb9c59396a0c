"""A learning switch's controller: `controller ptcp:6653`, instead of OpenFlow's reference one.

Theory of operation.  OpenFlow over TCP: 1.0, the default of Open vSwitch and Mininet, and 1.3 with
a bridge that lacks 1.0 (`protocols='OpenFlow13'`).  A frame that matches no flow is sent to the
controller (packet in), which learns the port of its source.  If the port of the destination is
known, the pair gets a flow for some seconds, which this frame follows; else it is flooded.  A
station that moves to another access point is learnt again at its new port, and the flows that lead
to the old one are removed.

Departure from the reference controller: flows match in-port, source and destination only.
It uses only the standard library, so it starts in a tenth of a second.

    python -m emulation.mn.controller ptcp:PORT
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from collections.abc import Callable
from typing import Final

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY, SET_CONFIG, PACKET_IN, PACKET_OUT, FLOW_MOD = 5, 6, 9, 10, 13, 14
HEADER: Final = struct.Struct("!BBHI")
NO_BUFFER: Final = 0xFFFFFFFF
ADD, DELETE = 0, 3
IDLE_SECONDS: Final = 5
PORT: Final = 6653


class OpenFlow10:
    """The messages of version 1.0 that a learning switch needs."""

    version: Final = 1
    flood: Final = 0xFFFB
    wildcards: Final = 0x3FFFFF & ~(1 | 4 | 8)
    """OFPFW_ALL without in-port, source and destination."""
    only_target: Final = 0x3FFFFF & ~8

    def begin(self) -> list[bytes]:
        """Return the flow for frames that match no other: none, as 1.0 sends them here anyway."""
        return []

    def packet_in(self, body: bytes) -> tuple[int, int, bytes]:
        """Return the buffer, the port and the frame of a packet in."""
        buffer, _length, port = struct.unpack_from("!IHH", body)
        return buffer, port, body[10:]

    def output(self, port: int) -> bytes:
        """Return the action that sends a frame out of a port."""
        return struct.pack("!HHHH", 0, 8, port, 0xFFFF)

    def packet_out(self, buffer: int, port: int, out: int) -> bytes:
        """Return the header of a packet out, for a frame that came from `port`."""
        return struct.pack("!IHH", buffer, port, 8) + self.output(out)

    def flow(self, port: int, source: bytes, target: bytes, out: int) -> bytes:
        """Return the flow of frames from a port, between two addresses."""
        match = struct.pack("!IH", self.wildcards, port) + source + target + bytes(22)
        rule = struct.pack("!QHHHHIHH", 0, ADD, IDLE_SECONDS, 0, 1, NO_BUFFER, 0xFFFF, 0)
        return match + rule + self.output(out)

    def forget(self, target: bytes) -> bytes:
        """Return the removal of all flows to an address."""
        match = struct.pack("!IH", self.only_target, 0) + bytes(6) + target + bytes(22)
        return match + struct.pack("!QHHHHIHH", 0, DELETE, 0, 0, 0, NO_BUFFER, 0xFFFF, 0)


class OpenFlow13:
    """The same messages in version 1.3."""

    version: Final = 4
    flood: Final = 0xFFFFFFFB
    to_controller: Final = 0xFFFFFFFD
    any: Final = 0xFFFFFFFF
    all_tables: Final = 0xFF
    in_port, eth_dst, eth_src = (0x8000 << 16 | field << 9 for field in (0, 3, 4))
    """Headers of match fields (OXM), without their lengths."""

    def begin(self) -> list[bytes]:
        """Return the flow for frames that match no other: unlike in 1.0, it must be added."""
        return [self._modify(ADD, b"", 0, 0, self.output(self.to_controller))]

    def packet_in(self, body: bytes) -> tuple[int, int, bytes]:
        """Return the buffer, the port and the frame of a packet in."""
        (buffer,), (length,) = struct.unpack_from("!I", body), struct.unpack_from("!H", body, 18)
        port, at = 0, 20
        while at + 4 <= 16 + length:
            (head,) = struct.unpack_from("!I", body, at)
            if head & ~0x1FF == self.in_port:
                (port,) = struct.unpack_from("!I", body, at + 4)
            at += 4 + (head & 0xFF)
        return buffer, port, body[16 + -(-length // 8) * 8 + 2 :]

    def output(self, port: int) -> bytes:
        """Return the action that sends a frame out of a port."""
        return struct.pack("!HHIH6x", 0, 16, port, 0xFFFF)

    def packet_out(self, buffer: int, port: int, out: int) -> bytes:
        """Return the header of a packet out, for a frame that came from `port`."""
        return struct.pack("!IIH6x", buffer, port, 16) + self.output(out)

    def flow(self, port: int, source: bytes, target: bytes, out: int) -> bytes:
        """Return the flow of frames from a port, between two addresses."""
        fields = struct.pack("!II", self.in_port | 4, port)
        for head, address in ((self.eth_dst, target), (self.eth_src, source)):
            fields += struct.pack("!I", head | 6) + address
        return self._modify(ADD, fields, IDLE_SECONDS, 1, self.output(out))

    def forget(self, target: bytes) -> bytes:
        """Return the removal of all flows to an address."""
        return self._modify(DELETE, struct.pack("!I", self.eth_dst | 6) + target, 0, 0, b"")

    def _modify(
        self, command: int, fields: bytes, idle: int, priority: int, actions: bytes
    ) -> bytes:
        table = self.all_tables if command == DELETE else 0
        head = struct.pack("!QQBBHHH", 0, 0, table, command, idle, 0, priority)
        head += struct.pack("!IIIH2x", NO_BUFFER, self.any, self.any, 0)
        match = struct.pack("!HH", 1, 4 + len(fields)) + fields
        match += bytes(-len(match) % 8)
        apply = struct.pack("!HH4x", 4, 8 + len(actions)) + actions if actions else b""
        return head + match + apply


VERSIONS: Final = {dialect.version: dialect for dialect in (OpenFlow10, OpenFlow13)}


class Learner:
    """One bridge: which port leads to which Ethernet address."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._write = send
        self.language: OpenFlow10 | OpenFlow13 = OpenFlow10()
        self.ports: dict[bytes, int] = {}

    def _send(self, kind: int, transaction: int, body: bytes = b"") -> None:
        head = HEADER.pack(self.language.version, kind, HEADER.size + len(body), transaction)
        self._write(head + body)

    def greeted(self, version: int, body: bytes) -> bool:
        """Answer a hello with the lowest version that both ends know; return whether there is one.

        The answer offers no other version: of several, both ends would take the highest.
        """
        theirs = list(range(1, version + 1))
        if len(body) >= 8 and body[:2] == b"\0\1":
            (known,) = struct.unpack_from("!I", body, 4)
            theirs = [number for number in range(32) if known >> number & 1]
        common = [number for number in VERSIONS if number in theirs]
        if not common:
            return False
        self.language = VERSIONS[min(common)]()
        self._send(HELLO, 0, struct.pack("!HHI", 1, 8, 1 << self.language.version))
        self._send(FEATURES_REQUEST, 1)
        return True

    def received(self, kind: int, transaction: int, body: bytes) -> None:
        """Handle a message."""
        if kind == ECHO_REQUEST:
            self._send(ECHO_REPLY, transaction, body)
        elif kind == FEATURES_REPLY:
            self._send(SET_CONFIG, 2, struct.pack("!HH", 0, 0xFFFF))
            for flow in self.language.begin():
                self._send(FLOW_MOD, 3, flow)
        elif kind == PACKET_IN and len(body) >= 24:
            self._packet(transaction, *self.language.packet_in(body))

    def _packet(self, transaction: int, buffer: int, port: int, frame: bytes) -> None:
        target, source = frame[:6], frame[6:12]
        if self.ports.get(source, port) != port:  # flows lead to where it was
            self._send(FLOW_MOD, 0, self.language.forget(source))
        self.ports[source] = port
        out = self.ports.get(target)
        if out is None or target[0] & 1:
            out = self.language.flood
        elif out == port:
            return
        else:
            self._send(FLOW_MOD, transaction, self.language.flow(port, source, target, out))
        head = self.language.packet_out(buffer, port, out)
        self._send(PACKET_OUT, transaction, head + (frame if buffer == NO_BUFFER else b""))


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one bridge until it disconnects."""
    learner = Learner(writer.write)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            version, kind, length, transaction = HEADER.unpack(await reader.readexactly(8))
            body = await reader.readexactly(max(0, length - HEADER.size))
            if kind == HELLO:
                if not learner.greeted(version, body):
                    break
            elif version == learner.language.version:
                learner.received(kind, transaction, body)
            await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    """Listen for bridges."""
    server = await asyncio.start_server(converse, "0.0.0.0", port)  # noqa: S104  in its own namespace, for switches in others
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
