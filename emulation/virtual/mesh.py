"""Access points under the virtual clock: two channels, and the bridges between them.

Theory of operation.  As on the real-time backends, stations and access radios share one medium and
mesh radios another; the same classes decide addressing, associations and paths of frames through a
bridge (`emulation.wifi.cells`, `emulation.network.controller.flows`).  Bridges and wires take no
time, and the controller moves a station's flow at once.

Captures are those of a real run: every node's own interface, and both radios of each access point.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from emulation.network.controller.flows import (
    ACCESS_PORT,
    BROKER_PORT,
    MESH_PORT,
    OTHER,
    OUTPUTS,
    Bridge,
    FlowComputation,
    FlowPath,
)
from emulation.radio.delivery import Delivery
from emulation.radio.losses import LossLog
from emulation.radio.mac import octets
from emulation.radio.medium import BROADCAST, Medium
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Carried, Channel, Hand
from emulation.virtual.clock import Clock
from emulation.virtual.packets import mac_of
from emulation.virtual.recording import VirtualRecorder, unix_ns
from emulation.wifi.cells import Cells, RadioChannel, faults_of
from emulation.wifi.layer2_update import BROADCAST_MAC, layer2_update
from nodeapp.kinds import TrafficClass
from nodeapp.wire import traffic_class


class MeshChannel(Channel):
    """The channel of a scenario with access points: two media, and all bridges.

    It calls `hand` for frames that arrive at nodes, reports frames on the access points' radio
    ports to `recorder`, and has `clock` call it for every scan of the stations.
    """

    reports_links = False
    """An acknowledgement is the access point's, not the packet's destination's."""

    def __init__(
        self, scenario: Scenario, clock: Clock, recorder: VirtualRecorder, hand: Hand
    ) -> None:
        assert scenario.mesh_radio is not None
        self._clock = clock
        self._recorder = recorder
        self._hand = hand
        self._interval = scenario.association.scan_interval
        nodes, points = scenario.nodes, scenario.access_points
        self._nodes = len(nodes)
        self._stations = [index for index, node in enumerate(nodes) if not node.wired]
        """Radio of a station on the access channel: its index among the nodes."""
        self._radios = {index: radio for radio, index in enumerate(self._stations)}
        self._addresses = [mac_of(node.id) for node in nodes]
        indices = {node.id: index for index, node in enumerate(nodes)}
        self._brokers = [indices[point.broker] for point in points]
        self._points = {index: point for point, index in enumerate(self._brokers)}
        self._datapaths = [point.datapath_id for point in points]
        self._macs = [octets(nodes[index].mac) for index in self._stations]
        self._positions = np.array([point.position for point in points], dtype=np.float64)

        brokers = [nodes[index] for index in self._brokers]
        self.cells = Cells(
            self._macs,
            [octets(broker.mac) for broker in brokers],
            scenario.radio,
            scenario.mesh_radio,
            scenario.association.hysteresis_db,
            lambda purpose: random.Random(f"{scenario.seed}/{purpose}"),
        )
        self.medium: Medium = self.cells.access.medium
        self._mesh = self.cells.mesh.medium
        self._mesh.set_positions(self._positions)
        names = [nodes[index].name for index in self._stations] + [point.name for point in points]
        self._names = names
        self.faults = faults_of((self.medium, self._mesh), names, len(self._stations))
        self._bridges = [
            Bridge(point.name, point.datapath_id, broker.mac)
            for point, broker in zip(points, brokers, strict=True)
        ]
        self._computation = FlowComputation(self._bridges, {})
        self._frames: Counter[tuple[int, FlowPath, str]] = Counter()
        self._bytes: Counter[tuple[int, FlowPath, str]] = Counter()
        self._moves: list[dict[str, Any]] = []
        self._on_mesh = False
        """Whether the last delivery was on the mesh channel."""
        clock.call_at(0.0, self._scan, 0)

    # Called by the simulation.

    def log_losses(self, log: LossLog) -> None:
        """Log what stations and access points lose."""
        self.medium.losses.log = log.of(self._names, _datagram)
        self._mesh.losses.log = log.of(self._names[len(self._stations) :], _datagram)

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        """Set the stations' positions; access points stay, and wired nodes have no radio."""
        self.medium.set_positions(np.concatenate((xy[self._stations], self._positions)))

    def transmit(
        self, now: float, source: int, destination: int, size: int, carried: Carried
    ) -> None:
        """Send a packet of a node, over its radio or into its bridge."""
        address = BROADCAST_MAC if destination == BROADCAST else self._addresses[destination]
        radio = self._radios.get(source)
        if radio is None:
            self._bridge(now, self._points[source], BROKER_PORT, address, size, carried)
        else:
            self._send(self.cells.access, now, radio, address, size, carried)

    def next_delivery(self, until: float) -> Delivery | None:
        """Let time pass on both channels until something arrives; None if `until` is first."""
        while True:
            access, mesh = self.medium.next_event(), self._mesh.next_event()
            if min(access, mesh) > until:
                return None
            self._on_mesh = mesh < access
            # Up to the next event of the other channel.
            if self._on_mesh:
                delivery = self._mesh.next_delivery(min(access, until))
            else:
                delivery = self.medium.next_delivery(min(mesh, until))
            if delivery is not None:
                return delivery

    def deliver(self, delivery: Delivery) -> None:
        """Process an arrival: at stations, or at access points and so at bridges."""
        address, size, carried = delivery.frame
        time, source, receivers = delivery.time, delivery.source, delivery.receivers
        if self._on_mesh:
            for point in self.cells.mesh.accepted(source, address, receivers):
                self._capture(time, point, MESH_PORT, carried)
                self._bridge(time, point, MESH_PORT, address, size, carried)
            return
        stations = len(self._stations)
        accepted = self.cells.access.accepted(source, address, receivers)
        nodes = [self._stations[radio] for radio in accepted if radio < stations]
        if nodes:
            self._hand(time, nodes, carried)
        for radio in accepted:
            if radio >= stations:
                self._capture(time, radio - stations, ACCESS_PORT, carried)
                self._bridge(time, radio - stations, ACCESS_PORT, address, size, carried)

    def exported(self) -> dict[str, Any]:
        """Return the counters in the form of the controller's."""
        names = [kind.name for kind in TrafficClass] + [OTHER]
        return {
            "format": 1,
            "complete": True,
            "time_ns": unix_ns(self._clock.now),
            "access_points": [
                {
                    "name": bridge.name,
                    "counters": [
                        {
                            "path": path.name,
                            "class": name,
                            "frames": self._frames[point, path, name],
                            "bytes": self._bytes[point, path, name],
                        }
                        for path in FlowPath
                        for name in names
                    ],
                }
                for point, bridge in enumerate(self._bridges)
            ],
            "moves": self._moves,
        }

    # Bridges.

    def _bridge(
        self, now: float, point: int, port: int, address: bytes, size: int, carried: Carried
    ) -> None:
        path = self._computation.path(self._datapaths[point], port, address.hex(":"))
        self._count(point, path, traffic_class(carried[0].datagram).name, size)
        for output in OUTPUTS[path]:
            if output == BROKER_PORT:
                self._hand(now, [self._brokers[point]], carried)
                continue
            self._capture(now, point, output, carried)
            if output == ACCESS_PORT:
                access = self.cells.access
                self._send(access, now, len(self._stations) + point, address, size, carried)
            else:
                self._send(self.cells.mesh, now, point, address, size, carried)

    @staticmethod
    def _send(
        channel: RadioChannel, now: float, radio: int, address: bytes, size: int, carried: Carried
    ) -> None:
        channel.send(now, radio, address, size, (address, size, carried), _is_routing)

    def _count(self, point: int, path: FlowPath, name: str, size: int) -> None:
        self._frames[point, path, name] += 1
        self._bytes[point, path, name] += size

    def _capture(self, time: float, point: int, port: int, carried: Carried) -> None:
        self._recorder.heard(time, [self._capture_index(point, port)], carried[2])

    def _capture_index(self, point: int, port: int) -> int:
        """Return the index of a radio port's capture (`emulation.virtual.recording.captures`)."""
        return 2 * self._nodes + 2 * point + (port == MESH_PORT)

    # Associations.

    def _scan(self, number: int) -> None:
        """Let all stations choose an access point; schedule the next scan."""
        now = self._clock.now
        for _, station, _, radio in self.cells.scan(now):
            if radio is not None:
                new = radio - len(self._stations)
                frame = layer2_update(self._macs[station])
                self._recorder.emitted(now, self._capture_index(new, ACCESS_PORT), frame)
                self._count(new, FlowPath.ASSOCIATION, OTHER, len(frame))
                self._learn(new, frame)
        # On a fixed grid: a multiple of the interval rather than a sum.
        self._clock.call_at((number + 1) * self._interval, self._scan, number + 1)

    def _learn(self, point: int, frame: bytes) -> None:
        changes = self._computation.heard(self._datapaths[point], ACCESS_PORT, frame)
        names = {bridge.datapath: bridge.name for bridge in self._bridges}
        left = [names[change.datapath] for change in changes if not change.add]
        if changes:
            self._moves.append(
                {
                    "time_ns": unix_ns(self._clock.now),
                    "station": frame[6:12].hex(":"),
                    "access_point": names[self._datapaths[point]],
                    "left": left[0] if left else None,
                }
            )


def _datagram(frame: tuple[bytes, int, Carried]) -> bytes:
    return frame[2][0].datagram


def _is_routing(frame: tuple[bytes, int, Carried]) -> bool:
    return frame[2][0].is_routing
