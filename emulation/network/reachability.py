"""Which nodes reach each other: one ICMP echo request between every two nodes, concurrently.

Mininet sends one after the other and waits ten seconds for each that is not answered: on radios,
with most nodes out of range, that takes hours.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Final

from capture.namespaces import network_namespace

PACE: Final = 0.003
"""Seconds between requests: a few hundred a second leave room for other traffic on the air."""
PATIENCE: Final = 1.0
"""Seconds for the last answers."""
_ECHO: Final = struct.Struct(">BBHHH")
_REQUEST: Final = 8
_REPLY: Final = 0


def echo_request(identifier: int, sequence: int) -> bytes:
    """Return an ICMP echo request (RFC 792)."""
    words = (_REQUEST << 8, identifier, sequence)
    total = sum(words)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return _ECHO.pack(_REQUEST, 0, checksum, identifier, sequence)


def reached(pids: Mapping[str, int], addresses: Mapping[str, str]) -> dict[str, set[str]]:
    """Return, for each node, the nodes that answered it.

    `pids` has a process in each node's namespace, `addresses` their IPv4 addresses, both by name.
    Raises OSError.
    """
    names = list(pids)
    answered: dict[str, set[str]] = {name: set() for name in names}
    identifier = os.getpid() & 0xFFFF
    with ExitStack() as stack:
        sockets: dict[int, tuple[str, socket.socket]] = {}
        poller = select.poll()
        for name in names:
            with network_namespace(pids[name]):
                raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            stack.callback(raw.close)
            raw.setblocking(False)
            sockets[raw.fileno()] = name, raw
            poller.register(raw, select.POLLIN)

        def listen(until: float) -> None:
            while (left := until - time.monotonic()) > 0:
                for descriptor, _ in poller.poll(left * 1000):
                    name, raw = sockets[descriptor]
                    packet, (source, _) = raw.recvfrom(2048)
                    reply = packet[(packet[0] & 15) * 4 :]
                    if len(reply) < _ECHO.size:
                        continue
                    kind, _, _, of, number = _ECHO.unpack_from(reply)
                    mine = kind == _REPLY and of == identifier and number < len(names)
                    if mine and addresses[names[number]] == source:
                        answered[name].add(names[number])

        # In turn over the destinations, so that no node gets all its requests at once.
        due = time.monotonic()
        for step in range(1, len(names)):
            for index, (_, raw) in enumerate(sockets.values()):
                number = (index + step) % len(names)
                # Refused, as its radio's queue is full or it has no route: no answer comes.
                with suppress(OSError):
                    raw.sendto(echo_request(identifier, number), (addresses[names[number]], 0))
                due = max(due + PACE, time.monotonic())
                listen(due)
        listen(time.monotonic() + PATIENCE)
    return answered
