"""Neighbour entries of large networks, made when the kernel first asks for one.

A broadcast medium of N stations would carry N squared ARP frames that a real ad hoc network spreads
over its lifetime, and that no protocol here measures: so entries are permanent.  Entries for all
nodes at all nodes are N squared too: 400 nodes take a second of processor time and 80 MB of kernel
memory.  Few are ever used, as a node talks only to its neighbours.  So in networks of more than
`ALL_KNOWN` nodes the kernel of each node asks this process before it would send an ARP request
(`app_solicit`, arp(7)), queues packets meanwhile, and gets the entry.  One process has a socket in
every namespace.

    python -m emulation.network.resolver CONFIG.json

with {"nodes": [{"pid", "interface", "address", "mac"}], "ready": path}; it makes that file, and
touches it about once a second as a sign of life.

Source: linux/neighbour.h.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from capture.namespaces import network_namespace
from capture.process import raise_priority
from emulation.media import rtnetlink
from emulation.media.netlink_wire import NetlinkError, attributes, messages
from emulation.media.rtnetlink import NEIGHBOUR
from emulation.network.helper import run_helper

ALL_KNOWN: Final = 100
"""Largest number of nodes that get entries of all others at the start."""
ALIVE: Final = 1.0
"""Approximate seconds between signs of life."""
BUFFER: Final = 262_144
"""Bytes of a socket's queue: some hundred requests."""

RTMGRP_NEIGH: Final = 4
RTM_GETNEIGH: Final = 30


def ask_resolver(interface: str) -> None:
    """Let the kernel ask for neighbours of an interface in the current namespace.

    Raises OSError.
    """
    Path(f"/proc/sys/net/ipv4/neigh/{interface}/app_solicit").write_text("1", encoding="ascii")


def asked_for(datagram: bytes) -> list[tuple[int, str]]:
    """Return the interfaces and IPv4 addresses that the kernel asks for in a datagram.

    Messages that are not requests are skipped; nothing after a damaged one counts.
    """
    requests = []
    with suppress(NetlinkError):
        for message in messages(datagram):
            start = message.start + NEIGHBOUR.size
            if message.type != RTM_GETNEIGH or start > message.end:
                continue
            family, interface, *_ = NEIGHBOUR.unpack_from(datagram, message.start)
            span = attributes(datagram, start, message.end).get(rtnetlink.NDA_DST)
            if family == socket.AF_INET and span is not None and span[1] - span[0] == 4:
                requests.append((interface, socket.inet_ntoa(datagram[slice(*span)])))
    return requests


class Resolver:
    """Answers the kernels of all nodes."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._macs = {node["address"]: node["mac"] for node in nodes}
        self._selector = selectors.DefaultSelector()
        for node in nodes:
            with network_namespace(node["pid"]):
                asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
                asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                asked.bind((0, RTMGRP_NEIGH))
                asked.setblocking(False)
                ask_resolver(node["interface"])
            self._selector.register(asked, selectors.EVENT_READ)

    def serve(self, ready: Path) -> None:
        """Answer until the process ends; `ready` is touched as long as it does.  Raises OSError."""
        touched = float("-inf")
        while True:
            if time.monotonic() > touched + ALIVE:
                ready.touch()
                touched = time.monotonic()
            for key, _ in self._selector.select(ALIVE):
                assert isinstance(key.fileobj, socket.socket)
                # The queue may have overflowed (ENOBUFS): the kernel asks again in a second.
                with suppress(OSError):
                    self._answer(key.fileobj)

    def _answer(self, asked: socket.socket) -> None:
        for interface, address in asked_for(asked.recv(65_536)):
            mac = self._macs.get(address)
            if mac is not None:  # else it asks by ARP
                asked.send(rtnetlink.neighbour(interface, address, mac))


def main() -> int:
    """Resolve the addresses of a configuration file."""
    return run_helper("resolver", _serve)


def _serve(config: Mapping[str, Any]) -> None:
    resolver = Resolver(config["nodes"])
    raise_priority("nice")  # packets wait for its answers
    resolver.serve(Path(config["ready"]))


if __name__ == "__main__":
    sys.exit(main())
