"""Throughput from one node to another: TCP or UDP for some seconds, both ends in this process.

It replaces Mininet's `iperf`, which waits forever for a line that Debian's iperf 2.1 prints only to
a terminal.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple

from capture.namespaces import network_namespace

CONNECT: Final = 5.0
"""Seconds that opening a TCP connection may take."""
DATAGRAM: Final = 1_400
"""Bytes of a datagram: it fits a frame."""
SILENCE: Final = 1.0
"""Seconds to wait for the last datagrams."""


class Throughput(NamedTuple):
    """Bytes that arrived, bytes that were sent, and how long each took.

    Data in queues arrive after sending has ended, so arriving may take longer.
    """

    received: int
    sent: int
    seconds: float
    """From the first byte sent until the last one that arrived, or until the end of sending."""
    sending: float
    """Seconds of sending."""

    @property
    def rate(self) -> float:
        """Bits per second that arrived."""
        return 8 * self.received / self.seconds if self.seconds > 0 else 0.0


class UnreachableError(Exception):
    """One node cannot reach the other; the message is one line."""


def bits(text: object) -> float:
    """Return the bits per second of '10M', '500k', '1G' or a number.  Raises ValueError."""
    word = str(text).strip().upper().removesuffix("BPS").removesuffix("BITS")
    factor = {"K": 1e3, "M": 1e6, "G": 1e9}.get(word[-1:], 1.0)
    return float(word.rstrip("KMG")) * factor


def tcp(source: int, target: int, address: str, seconds: float) -> Throughput:
    """Send as much as possible over TCP from the namespace of one process to that of another.

    `address` is the target's.  Raises `UnreachableError`, OSError.
    """
    with ExitStack() as stack:
        with network_namespace(target):
            listener = stack.enter_context(socket.socket())
        listener.bind(("", 0))
        listener.listen(1)
        with network_namespace(source):
            client = stack.enter_context(socket.socket())
        client.setblocking(False)
        listener.setblocking(False)
        with suppress(BlockingIOError):
            client.connect((address, listener.getsockname()[1]))
        waiting = select.poll()
        waiting.register(listener, select.POLLIN)
        limit = time.monotonic() + CONNECT
        while not waiting.poll(100):
            if time.monotonic() > limit:
                raise UnreachableError(f"no connection within {CONNECT:g} s")
        server = stack.enter_context(listener.accept()[0])
        server.setblocking(False)
        received = sent = 0
        chunk = bytes(65_536)
        ready = select.poll()
        ready.register(server, select.POLLIN)
        ready.register(client, select.POLLOUT)
        began = last = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            for end, _ in ready.poll(100):
                with suppress(BlockingIOError):
                    if end == server.fileno():
                        received += len(server.recv(1 << 20))
                        last = now
                    else:
                        sent += client.send(chunk)
        return Throughput(received, sent, max(last - began, 1e-9), seconds)


def udp(source: int, target: int, address: str, seconds: float, rate: float) -> Throughput:
    """Send datagrams at `rate` bits per second; otherwise like `tcp`."""
    with ExitStack() as stack:
        with network_namespace(target):
            server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        server.bind(("", 0))
        server.setblocking(False)
        there = address, server.getsockname()[1]
        waiting = select.poll()
        waiting.register(server, select.POLLIN)
        with network_namespace(source):
            client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        client.setblocking(False)
        gap = 8 * DATAGRAM / rate
        received = sent = 0
        began = due = last = time.monotonic()
        while (now := time.monotonic()) < began + seconds + SILENCE:
            while due <= now and due < began + seconds:
                due += gap
                try:
                    sent += client.sendto(bytes(DATAGRAM), there)
                except OSError:  # the queue is full: this one is lost, as iperf's are
                    break
            until = due if due < began + seconds else began + seconds + SILENCE
            # Whole milliseconds, and not too long: datagrams are to leave evenly.
            if waiting.poll(int(1e3 * max(0.0, min(until - time.monotonic(), 0.1)))):
                with suppress(BlockingIOError):
                    while True:
                        received += len(server.recv(65_535))
                        last = time.monotonic()
        return Throughput(received, sent, max(seconds, last - began), seconds)
