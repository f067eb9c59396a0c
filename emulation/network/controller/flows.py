"""The flows of mesh access points: which frames a bridge passes on, and what it counts.

Sans-I/O: OpenFlow 1.3 in plain values, with match fields named as in the specification.

Theory of operation.  A bridge has three ports, and every frame takes one of a few paths:

    stations ──► broker           mesh ──► broker
    broker ──► stations and mesh (group addresses), or one of them (other addresses)

and no other: never from the mesh back to it, never from stations to the mesh, because the broker
decides what is forwarded.  So a broker's frame goes one hop over the mesh.

Two tables do that.  The first finds the path from the port and the destination, and writes it to
the metadata.  The second has a flow for each path and class of messages, recognised by the DS
field; it sends the frame out, and its counters are the network's own record of what went where.
The cookie of each flow identifies path and class.

Stations are learned from the layer 2 update frame (IEEE 802.11F) that an access point's radio sends
when one associates: it goes to the controller, which gives that bridge a flow to the station and
takes the station's flow from the bridge that had it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from emulation.wifi.layer2_update import updated_station

FORWARDING: Final = 0
COUNTING: Final = 1
"""Numbers of the tables."""
ACCESS_PORT: Final = 1
MESH_PORT: Final = 2
BROKER_PORT: Final = 3
CONTROLLER: Final = 0xFFFFFFFD
"""Port numbers; the last is OFPP_CONTROLLER."""
LLC: Final = 0x05FF
"""eth_type of a frame with an LLC header and no SNAP header (OpenFlow 1.3.5, 7.2.3.8)."""
IPV4: Final = 0x0800
GROUP: Final = ("01:00:00:00:00:00", "01:00:00:00:00:00")
"""Address and mask of all group addresses."""
BROADCAST_MAC: Final = "ff:ff:ff:ff:ff:ff"
OTHER: Final = "OTHER"
"""Name of the class of all other frames: not IPv4, or another code point."""


class FlowPath(IntEnum):
    """Where a frame comes from and goes to; the value is the metadata."""

    STATION_TO_BROKER = 1
    MESH_TO_BROKER = 2
    BROKER_TO_ALL = 3
    BROKER_TO_STATION = 4
    BROKER_TO_MESH = 5
    BROKER_TO_NOBODY = 6
    ASSOCIATION = 7


OUTPUTS: Final[Mapping[FlowPath, tuple[int, ...]]] = {
    FlowPath.STATION_TO_BROKER: (BROKER_PORT,),
    FlowPath.MESH_TO_BROKER: (BROKER_PORT,),
    FlowPath.BROKER_TO_ALL: (MESH_PORT, ACCESS_PORT),
    FlowPath.BROKER_TO_STATION: (ACCESS_PORT,),
    FlowPath.BROKER_TO_MESH: (MESH_PORT,),
    FlowPath.BROKER_TO_NOBODY: (),
    FlowPath.ASSOCIATION: (CONTROLLER,),
}
"""The ports that frames on a path leave by."""


class Flow(NamedTuple):
    """One entry of a flow table.

    It writes `metadata` and goes on to `COUNTING`, or sends the frame to `outputs`.
    """

    table: int
    priority: int
    match: tuple[tuple[str, Any], ...]
    cookie: int = 0
    metadata: int | None = None
    outputs: tuple[int, ...] = ()


class FlowChange(NamedTuple):
    """A flow that the bridge with this datapath id gets, or loses if `add` is false."""

    datapath: int
    flow: Flow
    add: bool


@dataclass(frozen=True)
class Bridge:
    """The bridge of an access point: its name, its datapath id, its broker's Ethernet address."""

    name: str
    datapath: int
    broker: str


class FlowComputation:
    """The flows of all bridges; `classes` maps classes of messages, by name, to DS code points."""

    def __init__(self, bridges: Iterable[Bridge], classes: Mapping[str, int]) -> None:
        self.bridges = {bridge.datapath: bridge for bridge in bridges}
        self._classes = list(classes.items())
        self._names = [*classes, OTHER]
        self._brokers = {bridge.broker: bridge.datapath for bridge in self.bridges.values()}
        self.stations: dict[str, int] = {}
        """Ethernet address of a station: datapath id of the bridge where it is."""

    def initial(self, datapath: int) -> list[Flow]:
        """Return the flows that a bridge needs when it connects.  Raises KeyError if unknown."""
        own = self.bridges[datapath]
        brokers = [bridge.broker for bridge in self.bridges.values() if bridge is not own]
        stations = [mac for mac, bridge in self.stations.items() if bridge == datapath]
        association = (("in_port", ACCESS_PORT), ("eth_type", LLC), ("eth_dst", BROADCAST_MAC))
        return [
            _forward(30, association, FlowPath.ASSOCIATION),
            _forward(10, (("in_port", ACCESS_PORT),), FlowPath.STATION_TO_BROKER),
            _forward(10, (("in_port", MESH_PORT),), FlowPath.MESH_TO_BROKER),
            _forward(10, (("in_port", BROKER_PORT),), FlowPath.BROKER_TO_NOBODY),
            _forward(20, (("in_port", BROKER_PORT), ("eth_dst", GROUP)), FlowPath.BROKER_TO_ALL),
            *(_to(mac, FlowPath.BROKER_TO_MESH) for mac in brokers),
            *(_to(mac, FlowPath.BROKER_TO_STATION) for mac in stations),
            *(flow for path in FlowPath for flow in self._counting(path)),
        ]

    def _counting(self, path: FlowPath) -> list[Flow]:
        metadata, outputs = ("metadata", int(path)), OUTPUTS[path]
        flows = [
            Flow(
                COUNTING,
                20,
                (metadata, ("eth_type", IPV4), ("ip_dscp", code)),
                _cookie(path, number),
                outputs=outputs,
            )
            for number, (_, code) in enumerate(self._classes)
        ]
        rest = _cookie(path, len(self._classes))
        return [*flows, Flow(COUNTING, 10, (metadata,), rest, outputs=outputs)]

    def heard(self, datapath: int, in_port: int, frame: bytes) -> list[FlowChange]:
        """Return the changes that follow from a frame that a bridge sent to the controller."""
        address = updated_station(frame)
        if address is None or in_port != ACCESS_PORT or datapath not in self.bridges:
            return []
        station = address.hex(":")
        before = self.stations.get(station)
        if before == datapath:
            return []
        self.stations[station] = datapath
        flow = _to(station, FlowPath.BROKER_TO_STATION)
        changes = [FlowChange(datapath, flow, add=True)]
        if before is not None:
            changes.append(FlowChange(before, flow, add=False))
        return changes

    def path(self, datapath: int, in_port: int, eth_dst: str) -> FlowPath:
        """Return the path on which the flows send an IPv4 frame; `in_port` is one of the three."""
        if in_port != BROKER_PORT:
            return FlowPath.STATION_TO_BROKER if in_port == ACCESS_PORT else FlowPath.MESH_TO_BROKER
        if int(eth_dst[:2], 16) & 1:
            return FlowPath.BROKER_TO_ALL
        if self.stations.get(eth_dst) == datapath:
            return FlowPath.BROKER_TO_STATION
        behind = self._brokers.get(eth_dst, datapath)
        return FlowPath.BROKER_TO_NOBODY if behind == datapath else FlowPath.BROKER_TO_MESH

    def counted(self, cookie: int) -> tuple[str, str] | None:
        """Return the names of path and class that a flow counts; None for other flows."""
        path, number = cookie >> 8, cookie & 0xFF
        if path not in OUTPUTS or number >= len(self._names):
            return None
        return FlowPath(path).name, self._names[number]


def _cookie(path: FlowPath, number: int) -> int:
    return int(path) << 8 | number


def _forward(priority: int, match: Sequence[tuple[str, Any]], path: FlowPath) -> Flow:
    return Flow(FORWARDING, priority, tuple(match), metadata=int(path))


def _to(mac: str, path: FlowPath) -> Flow:
    return _forward(20, (("in_port", BROKER_PORT), ("eth_dst", mac)), path)
