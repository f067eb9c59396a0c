"""Mininet with radios: stations are Mininet nodes whose interface is a TAP device of the Medium.

The API is Mininet-WiFi's: `net.addStation('sta1', position='10,20,0')`, `net.stations`,
`sta.position`, `sta.wintfs`.  Mininet makes the namespaces and the shells; the medium process
(`emulation.radio.tap`) makes the TAP devices inside them; `configure` then sets addresses, links
and neighbour entries over rtnetlink, in bulk, where Mininet would run shell commands node by node.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mininet.link import Intf
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Node
from pyroute2 import IPBatch, IPRoute

from capture.namespaces import network_namespace
from emulation.scenario import NodeSpec

PREFIX_LENGTH: Final = 8
NUD_PERMANENT: Final = 0x80
NLM_F_ACK: Final = 4
NLMSG_HEADER: Final = struct.Struct("=IHH")
NLMSG_FLAGS: Final = struct.Struct("=H")
NLMSG_ERROR: Final = struct.Struct("=16xi")
"""An rtnetlink answer that is an error: after the header, minus the error number."""
QUEUE_LENGTH: Final = 100
"""Frames the kernel queues for a radio whose driver is busy (mac80211 interfaces have 1,000)."""


class RadioIntf(Intf):  # type: ignore[misc]  # Mininet has no types
    """A station's radio interface, which exists already inside the station's namespace."""

    def __init__(self, spec: NodeSpec, node: Node) -> None:
        super().__init__(
            spec.interface, node=node, mac=spec.mac, moveIntfFn=lambda name, node: None
        )
        self.ip, self.prefixLen = spec.address, PREFIX_LENGTH

    def updateIP(self) -> str:
        """Return the address; it never changes, so no shell command is needed to learn it."""
        address: str = self.ip
        return address


class Station(Node):  # type: ignore[misc]
    """A node with one radio; `environment` is that of its shell and of what runs in it."""

    def __init__(
        self, name: str, spec: NodeSpec, environment: Mapping[str, str] | None = None, **params: Any
    ) -> None:
        self.environment = environment
        super().__init__(name, **params)
        self.spec = spec
        first = spec.waypoints[0]
        self.position = (first.x, first.y, 0.0)
        self.wintfs: dict[int, RadioIntf] = {}

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[Any]:
        params.setdefault("env", self.environment)
        process: subprocess.Popen[Any] = super()._popen(cmd, **params)
        return process

    def attach_radio(self) -> RadioIntf:
        """Make the TAP device known to Mininet."""
        self.wintfs[0] = RadioIntf(self.spec, self)
        return self.wintfs[0]


class WifiNet(Mininet):  # type: ignore[misc]
    """A Mininet network of stations."""

    def __init__(self) -> None:
        setLogLevel("output")
        super().__init__(topo=None, build=False, controller=None)
        self.stations: list[Station] = []

    def addStation(self, name: str, spec: NodeSpec, **params: Any) -> Station:
        """Add a station: a shell in a network namespace of its own."""
        station: Station = self.addHost(name, cls=Station, spec=spec, **params)
        self.stations.append(station)
        return station

    def configure(self) -> None:
        """Bring up loopback and radios, set addresses and all neighbour entries.

        Entries are permanent: a broadcast medium of N stations would carry N squared ARP frames
        that a real ad hoc network spreads over its lifetime, and that no protocol here measures.
        """
        batches: dict[int, bytes] = {}
        for station in self.stations:
            station.attach_radio()
            with network_namespace(station.pid):
                radio = _configure_links(station.spec)
                if radio not in batches:
                    batches[radio] = self._neighbour_entries(radio)
                _send_batch(batches[radio])

    def _neighbour_entries(self, interface: int) -> bytes:
        batch = IPBatch()
        for station in self.stations:
            batch.neigh(
                "replace",
                dst=station.spec.address,
                lladdr=station.spec.mac,
                ifindex=interface,
                state=NUD_PERMANENT,
            )
        messages = bytearray(batch.batch)
        start = 0
        while start < len(messages):  # ask for no acknowledgements: errors are reported anyway
            length, _, flags = NLMSG_HEADER.unpack_from(messages, start)
            NLMSG_FLAGS.pack_into(messages, start + 6, flags & ~NLM_F_ACK)
            start += length
        return bytes(messages)


def _configure_links(spec: NodeSpec) -> int:
    """Set up loopback and radio in the current namespace; return the radio's interface index."""
    with IPRoute() as route:
        loopback = route.link_lookup(ifname="lo")[0]
        radio: int = route.link_lookup(ifname=spec.interface)[0]
        route.link("set", index=loopback, state="up")
        route.addr("add", index=radio, address=spec.address, prefixlen=PREFIX_LENGTH)
        route.link("set", index=radio, state="up", txqlen=QUEUE_LENGTH)
        return radio


def _send_batch(messages: bytes) -> None:
    """Hand prepared rtnetlink requests to the kernel; only refusals are answered."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(messages) + 65_536)
        netlink.setblocking(False)
        netlink.send(messages)
        with suppress(BlockingIOError):
            code = NLMSG_ERROR.unpack_from(netlink.recv(4096))[0]
            raise OSError(-code, f"neighbour entries refused: {os.strerror(-code)}")


def socket_drops(pid: int, ports: Iterable[int]) -> int:
    """Return how many datagrams full receive buffers cost the UDP ports in a namespace."""
    wanted = {f"{port:04X}" for port in ports}
    drops = 0
    for line in Path(f"/proc/{pid}/net/udp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1].rpartition(":")[2] in wanted:
            drops += int(fields[-1])
    return drops
