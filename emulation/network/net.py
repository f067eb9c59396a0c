"""Mininet with radios: stations are Mininet nodes whose interface is a TAP device of the Medium.

The API is Mininet-WiFi's: `net.addStation('sta1', position='10,20,0')`, `net.addAccessPoint`,
`net.stations`, `net.aps`, `sta.position`, `sta.wintfs`.  `emulation.network.namespaces` makes the
namespaces, and a node's shell starts on first use: by `cmd`, or at the prompt.  The medium process
(`emulation.media.tap`) makes the TAP devices inside; `configure` then sets addresses, links and
neighbour entries over rtnetlink, in bulk; Mininet would run shell commands node by node.

All access points share one namespace, that of the first, in which their switch runs
(`emulation.network.switches`); a broker's host is wired to it by a pair of veth devices.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import emulation.network.plain_distutils  # noqa: F401  before Mininet

# isort: split
from mininet.link import Intf
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Node

from capture.namespaces import network_namespace
from emulation.media import rtnetlink
from emulation.media.device import disable_ipv6
from emulation.mobility.base import coordinates
from emulation.network.namespaces import Holder, Namespaces
from emulation.network.processes import GRACE
from emulation.network.resolver import ALL_KNOWN
from emulation.scenario.access_point import ACCESS, MESH, WIRED, AccessPointSpec
from emulation.scenario.scenario import NodeSpec

PREFIX_LENGTH: Final = 8
SHELL: Final = ["mnexec", "-cdn"]
"""Mininet's shell command, without `-n`, as the namespaces exist already."""
SIOCETHTOOL: Final = 0x8946
ETHTOOL_STXCSUM: Final = 0x17


class RadioIntf(Intf):  # type: ignore[misc]  # Mininet has no types
    """A node's interface, which already exists in its namespace."""

    def __init__(self, spec: NodeSpec, node: Node) -> None:
        super().__init__(
            spec.interface,
            node=node,
            mac=spec.mac,
            up=None,  # left to `configure`: here it is a program in the node's shell
            moveIntfFn=lambda name, node: None,
        )
        self.ip, self.prefixLen = spec.address, PREFIX_LENGTH

    def updateIP(self) -> str:
        """Return the address; it never changes, so no shell command is needed to learn it."""
        address: str = self.ip
        return address


class PortIntf(Intf):  # type: ignore[misc]
    """A port of an access point, which already exists; it has no address."""

    def __init__(self, name: str, node: Node) -> None:
        super().__init__(name, node=node, up=None, moveIntfFn=lambda name, node: None)

    def updateIP(self) -> None:
        """Return None, so that Mininet leaves an access point's name in a command alone."""
        return


class Positioned:
    """Mixin with the current `position` (x, y, 0) and `setPosition`, as in Mininet-WiFi."""

    _start: tuple[float, float, float]
    locate: Callable[[], tuple[float, float]] | None = None
    """Returns where it is now, metres; set while the scenario runs."""
    relocate: Callable[[float, float], None] | None = None
    """Puts it somewhere, metres."""

    @property
    def position(self) -> tuple[float, float, float]:
        """Where it is now, metres; before the scenario runs, where it starts."""
        return self._start if self.locate is None else (*self.locate(), 0.0)

    def setPosition(self, position: str) -> None:
        """Put it at 'x,y,z', metres; it stays there."""
        x, y, _ = coordinates(position)
        if self.relocate is None:
            raise ValueError("a node can be moved only while the scenario runs")
        self.relocate(x, y)


class HeldNode(Node):  # type: ignore[misc]
    """A node whose shell starts on first use if it has a `holder`, else at once.

    The holder is the process that has its namespaces and becomes the shell; `environment` is that
    of the shell and of what runs in it.
    """

    def __init__(
        self,
        name: str,
        holder: Holder | None = None,
        environment: Mapping[str, str] | None = None,
        **params: Any,
    ) -> None:
        self.environment = environment
        self._holder = holder
        self._waits = holder is not None
        self._shell: Any = None
        super().__init__(name, **params)

    @property
    def shell(self) -> Any:
        """The shell's process, started now if need be; None if it has ended."""
        if self._waits:
            self._waits = False
            super().startShell()
        return self._shell

    @shell.setter
    def shell(self, process: Any) -> None:
        self._shell = process

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell, unless that waits for its first use."""
        if self._holder is None:
            super().startShell(mnopts)
        else:
            self.pid = self._holder.pid

    def terminate(self) -> None:
        """End the shell, or the process that would have become it."""
        if not self._waits or self._holder is None:
            super().terminate()
        else:
            self._waits = False
            self._holder.kill()
            with suppress(subprocess.TimeoutExpired):
                self._holder.wait(GRACE)

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        if self._holder is not None and cmd[:2] == SHELL:
            environment = os.environ if self.environment is None else self.environment
            self._holder.become(cmd[2:], environment, params["stdin"])
            return self._holder
        params.setdefault("env", self.environment)
        return super()._popen(cmd, **params)


class Member(Positioned, HeldNode):
    """A node that runs the node app."""

    def __init__(self, name: str, spec: NodeSpec, **params: Any) -> None:
        super().__init__(name, **params)
        self.spec = spec
        first = spec.waypoints[0]
        self._start = (first.x, first.y, 0.0)

    def attach(self) -> RadioIntf:
        """Register the interface with Mininet."""
        return RadioIntf(self.spec, self)


class Station(Member):
    """A node with one radio."""

    def __init__(self, name: str, spec: NodeSpec, **params: Any) -> None:
        super().__init__(name, spec, **params)
        self.wintfs: dict[int, RadioIntf] = {}

    def attach(self) -> RadioIntf:
        self.wintfs[0] = super().attach()
        return self.wintfs[0]


class SharedNamespace(Node):  # type: ignore[misc]
    """A shell in the namespace that all access points share, which the first one makes."""

    def __init__(
        self,
        name: str,
        home: int | None = None,
        environment: Mapping[str, str] | None = None,
        **params: Any,
    ) -> None:
        """`home` is the first access point's process."""
        self.environment = environment
        self._home = home
        super().__init__(name, **params)

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell, in the first access point's namespace if there is one."""
        self.inNamespace = self._home is None  # make one
        super().startShell(mnopts if self._home is None else "-cda")
        self.inNamespace = True

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[Any]:
        params.setdefault("env", self.environment)
        if cmd[:2] == ["mnexec", "-cda"]:
            cmd = [*cmd[:2], str(self._home), *cmd[2:]]
        process: subprocess.Popen[Any] = super()._popen(cmd, **params)
        return process


class AccessPoint(Positioned, HeldNode):
    """An access point."""

    def __init__(self, name: str, spec: AccessPointSpec, **params: Any) -> None:
        super().__init__(name, **params)
        self.spec = spec
        self._start = (*spec.position, 0.0)

    def dpctl(self, *words: str) -> str:
        """Return what ovs-ofctl says of its bridge."""
        command = ["ovs-ofctl", "-O", "OpenFlow13", words[0], self.name, *words[1:]]
        output, error, _ = self.pexec(command, env=self.environment)
        return str(output + error)


class WifiNet(Mininet):  # type: ignore[misc]
    """A Mininet network of stations, access points and the hosts of their brokers."""

    def __init__(
        self, names: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """Begin making the namespaces of members: `names` are the first, in this order.

        `environment` is that of all nodes' processes.  Raises OSError.
        """
        setLogLevel("output")
        super().__init__(topo=None, build=False, controller=None)
        self._environment = environment
        self._namespaces = Namespaces(environment)
        self._namespaces.ask(names)
        self.members: list[Member] = []
        """All nodes that run the node app, in the order in which they were added."""
        self.aps: list[AccessPoint] = []

    @property
    def stations(self) -> list[Station]:
        """The nodes with a radio."""
        return [member for member in self.members if isinstance(member, Station)]

    @property
    def needs_resolver(self) -> bool:
        """Whether it is so large that `emulation.network.resolver` makes the neighbour entries."""
        return len(self.members) > ALL_KNOWN

    def addHost(self, name: str, cls: type[Node] | None = Member, **params: Any) -> Any:
        """Add a host in a network namespace of its own; a `Member` needs its `spec`.

        None for `cls` is Mininet's own host.

        Raises OSError if its namespaces cannot be made.
        """
        if cls is not None and issubclass(cls, Member):
            params["holder"] = self._namespaces.take(name)
            params.setdefault("environment", self._environment)
        host = super().addHost(name, cls=cls, **params)
        if isinstance(host, Member):
            self.members.append(host)
        return host

    def addStation(self, name: str, spec: NodeSpec, **params: Any) -> Station:
        """Add a station: a host with a radio."""
        station: Station = self.addHost(name, cls=Station, spec=spec, **params)
        return station

    def addAccessPoint(self, name: str, spec: AccessPointSpec, **params: Any) -> AccessPoint:
        """Add an access point; `linkBrokers` wires it to its broker."""
        home = self.aps[0].pid if self.aps else None
        point = AccessPoint(name, spec, holder=self._namespaces.take(name, home), **params)
        self.switches.append(point)
        self.nameToNode[name] = point
        self.aps.append(point)
        return point

    def addLink(self, node1: Node, node2: Node, **params: Any) -> Any:
        """Wire a host to its access point, in either order; other links are Mininet's."""
        host, point = (node2, node1) if isinstance(node1, AccessPoint) else (node1, node2)
        if isinstance(point, AccessPoint) and isinstance(host, Member):
            wire(host, point)
            return None
        return super().addLink(node1, node2, **params)

    def stop(self) -> None:
        """End the nodes with their shells and namespaces."""
        super().stop()
        self._namespaces.close()

    def configure(
        self, prefix_length: int = PREFIX_LENGTH, *, arp: bool = False, connected: bool = True
    ) -> None:
        """Bring up loopback and interfaces, set addresses.

        Make all neighbour entries too, unless a resolver makes those that are used, or nodes find
        each other by `arp`.  If not `connected`, packets reach the network by broadcast alone until
        somebody makes routes.
        """
        for member in self.members:
            member.attach()
            with network_namespace(member.pid):
                configure_links(member.spec, prefix_length, connected=connected)
        if not arp and not self.needs_resolver:
            add_neighbours(self.members)
        if self.aps:
            ports = []
            for point in self.aps:
                ports += [point.spec.port(kind) for kind in (ACCESS, MESH, WIRED)]
                for name in ports[-3:]:
                    PortIntf(name, point)
            with network_namespace(self.aps[0].pid):
                rtnetlink.bring_up("lo", *ports)


def add_neighbours(members: Sequence[Any]) -> None:
    """Make all neighbour entries at all nodes; `members` have `pid` and `spec`."""
    batches: dict[int, list[bytes]] = {}
    for member in members:
        with network_namespace(member.pid):
            index = socket.if_nametoindex(member.spec.interface)
            if index not in batches:
                batches[index] = [
                    rtnetlink.neighbour(index, peer.spec.address, peer.spec.mac) for peer in members
                ]
            rtnetlink.send(batches[index], "neighbour entries")


def wire(host: Any, point: Any) -> None:
    """Make the pair of veth devices between a host and its access point, each in its namespace.

    The host computes checksums itself: the switch would forward those left to a device unset.
    """
    interface = host.spec.interface
    with network_namespace(host.pid):
        disable_ipv6()  # as in a radio's namespace
        pair = rtnetlink.veth(interface, host.spec.mac, point.spec.port(WIRED), point.pid)
        rtnetlink.send([pair], f"a pair of devices {interface} and {point.spec.port(WIRED)}")
    compute_checksums(host.pid, interface)


def compute_checksums(pid: int, interface: str) -> None:
    """Let a host compute the checksums of what it sends, in the namespace of a process."""
    with network_namespace(pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inside:
        setting = ctypes.create_string_buffer(struct.pack("=II", ETHTOOL_STXCSUM, 0))
        request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(setting))
        fcntl.ioctl(inside, SIOCETHTOOL, request)


def configure_links(
    spec: NodeSpec, prefix_length: int = PREFIX_LENGTH, *, connected: bool = True
) -> None:
    """Set up loopback and interface in the current namespace, as `configure` of a network says."""
    radio, flags, broadcast = spec.interface, 0, None
    if not connected:
        flags = rtnetlink.IFA_F_NOPREFIXROUTE
        network = ipaddress.ip_interface(f"{spec.address}/{prefix_length}").network
        broadcast = str(network.broadcast_address)
    requests = [
        rtnetlink.link_up("lo"),
        rtnetlink.address(radio, spec.address, prefix_length, flags, broadcast),
        rtnetlink.link_up(radio),
    ]
    rtnetlink.send(requests, f"setting up {radio}")
