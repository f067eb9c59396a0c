"""The medium of real network stacks: TAP devices, and a `Medium` in between for each channel.

    python -m emulation.media.tap CONFIG.json

Theory of operation.  The process opens every radio's TAP device inside the namespace it belongs to:
a frame read from a device is transmitted, and a frame that the medium delivers is written to the
devices of its receivers.  Loop and requests are those of `emulation.media.scenario`.

Without access points there is one channel and every radio belongs to a station; or, with `wire`,
the channel is a switch and its devices are those of hosts (`emulation.radio.wire`).  With access
points there are two, one of stations and access radios, one of mesh radios
(`emulation.wifi.cells`).  Stations then choose an access point at every scan, and the layer 2
update of the new one comes out of its access device.

CONFIG.json is a `TapConfig`.  Further requests:

    associate                   begin to scan, with a scan at once
    settle                      stop scanning: every station stays at its access point
    inject {packet, to}         let stations receive a packet (hexadecimal) from elsewhere
"""

from __future__ import annotations

import heapq
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from emulation.media.config import TapConfig
from emulation.media.control import ControlError
from emulation.media.device import Tap
from emulation.media.positions import NEVER
from emulation.media.scenario import ScenarioMedium
from emulation.media.service import serve
from emulation.media.taps import TapService
from emulation.radio.delivery import Delivery
from emulation.radio.faults import Disturbances
from emulation.radio.losses import LossLog
from emulation.radio.mac import octets
from emulation.radio.medium import Medium
from emulation.radio.wire import WireMedium
from emulation.scenario.faults import Fault
from emulation.wifi.addressing import AdHocAddressing
from emulation.wifi.cells import Cells, RadioChannel
from emulation.wifi.layer2_update import layer2_update
from nodeapp.headers import ETHERNET_LENGTH, IP_LENGTH, UDP
from nodeapp.kinds import TrafficClass
from nodeapp.wire import NODE_PORT

IPV4: Final = b"\x08\x00"
DS_FIELD: Final = ETHERNET_LENGTH + 1
"""Offset of the DS field (RFC 2474) in an Ethernet frame with an IPv4 header."""
PROTOCOL: Final = ETHERNET_LENGTH + 9
PORT: Final = ETHERNET_LENGTH + IP_LENGTH + 2
"""Offset of UDP's destination port after an IPv4 header without options."""
NODE_PORTS: Final = NODE_PORT.to_bytes(2)
DATAGRAM: Final = PORT + 6


def is_routing(frame: bytes) -> bool:
    """Return whether an Ethernet frame is marked as a message of the routing protocol."""
    code_point = frame[DS_FIELD] >> 2 if len(frame) > DS_FIELD else 0
    return frame[12:14] == IPV4 and code_point == TrafficClass.ROUTING_CONTROL


def datagram_of(frame: bytes) -> bytes:
    """Return the message between nodes in an Ethernet frame; empty if there is none.

    Of a datagram in several fragments only the first shows what it is.
    """
    if len(frame) < DATAGRAM or frame[12:14] != IPV4 or frame[PROTOCOL] != UDP:
        return b""
    return frame[DATAGRAM:] if frame[PORT : PORT + 2] == NODE_PORTS else b""


class TapMedium(ScenarioMedium[RadioChannel], TapService):
    """The devices and the channels.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._macs = [octets(station.mac) for station in config.stations]
        self._cells: Cells | None = None
        self._scan_due = NEVER
        self._handovers = 0
        self._radios: list[tuple[RadioChannel, int]] = []
        """The channel of a device, and the radio's index there."""
        self._late: list[tuple[float, int, int, bytes]] = []
        """Packets that are kept back: until when, in what order, the device, and the packet."""
        self._order = itertools.count()
        self._log: LossLog | None = None
        super().__init__(config)
        self._disturbances = Disturbances(self.rng("disturbances"))
        if config.losses is not None and config.wire is None:
            epoch_ns = time.time_ns() - time.monotonic_ns()
            self._log = log = LossLog(config.losses, epoch_ns, config.event_kinds)
            for channel, first in zip(self.channels, (0, self.stations), strict=False):
                channel.medium.losses.log = log.of(self.names[first:], datagram_of)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        super().close()

    def devices(self) -> Iterator[Tap]:
        config, mtu = self.config, self.config.mtu
        queue = config.radio.queue_frames
        for station in config.stations:
            yield Tap(station.pid, station.interface, station.mac, mtu, queue)
        count, points = len(self.names), config.access_points
        if config.mesh_radio is None:
            single = self._single()
            self.channels.append(single)
            self._radios = [(single, radio) for radio in range(count)]
            return
        radios = config.radio, config.mesh_radio
        hosts = [octets(point.host_mac) for point in points]
        cells = Cells(self._macs, hosts, *radios, config.association.hysteresis_db, self.rng)
        self._cells, self.channels = cells, [cells.access, cells.mesh]
        self._radios = [(cells.access, radio) for radio in range(count)]
        self._radios += [(cells.mesh, radio) for radio in range(len(points))]
        for point in points:
            yield Tap(point.pid, point.access.interface, point.access.mac, mtu, queue)
        queue = config.mesh_radio.queue_frames
        for point in points:
            yield Tap(point.pid, point.mesh.interface, point.mesh.mac, mtu, queue)

    def _single(self) -> RadioChannel:
        """Return the channel of stations, or of hosts on a switch."""
        config = self.config
        if config.wire is None:
            medium = Medium(config.radio, len(self._macs), self.rng("medium"))
        else:
            medium = cast(Medium, WireMedium(config.wire))  # used as one
        return RadioChannel("", config.radio, medium, AdHocAddressing(self._macs))

    def send(self, now: float, number: int, frame: bytes) -> None:
        channel, radio = self._radios[number]
        channel.send(now, radio, frame[:6], len(frame), frame, is_routing)

    def gone(self, now: float, number: int) -> str:
        channel, radio = self._radios[number]
        channel.medium.fail(radio)
        return self.labels[number]

    def hand_over(self, channel: RadioChannel, delivery: Delivery) -> None:
        frame: bytes = delivery.frame
        first = 0 if channel is self.channels[0] else len(self.names)
        receivers = channel.accepted(delivery.source, frame[:6], delivery.receivers)
        if self._disturbances.active:
            self._disturb(delivery.time, delivery.source, receivers, frame)
            return
        for receiver in receivers:
            self.write(self.fds[first + receiver], frame)

    # Disturbances and strangers: in networks without access points, or at stations.

    def _disturb(self, now: float, source: int, receivers: Iterable[int], frame: bytes) -> None:
        """Write a frame as often and as late as it arrives."""
        for receiver in receivers:
            for late in self._disturbances.copies((self.names[source], self.names[receiver])):
                if late:
                    entry = (now + late, next(self._order), self.fds[receiver], frame)
                    heapq.heappush(self._late, entry)
                else:
                    self.write(self.fds[receiver], frame)

    def disturb(self, fault: Fault, *, begins: bool) -> None:
        (self._disturbances.begin if begins else self._disturbances.end)(fault)

    def _inject(self, request: dict[str, Any]) -> None:
        """Write a packet that no device has sent."""
        packet, to = request.get("packet"), request.get("to")
        if not isinstance(packet, str) or not isinstance(to, list):
            raise ControlError("inject needs a packet in hexadecimal, and a list of stations")
        for name in to:
            self.write(self.fds[self.named({"name": name})], bytes.fromhex(packet))

    # What falls due by itself.

    def own_due(self, now: float) -> float:
        while self._late and self._late[0][0] <= now:
            _, _, fd, frame = heapq.heappop(self._late)
            self.write(fd, frame)
        if now >= self._scan_due:
            self._scan_due += self.config.association.scan_interval
            self._scan(now)
        return min(self._scan_due, self._late[0][0]) if self._late else self._scan_due

    def started(self, epoch: float) -> None:
        if self._scan_due != NEVER:
            self._scan_due = epoch

    def _scan(self, now: float) -> None:
        """Let all stations choose an access point; announce changes to the networks behind."""
        assert self._cells is not None
        for change in self._cells.scan(now):
            if change.new is not None:
                self._handovers += change.old is not None
                frame = layer2_update(self._macs[change.station])
                self.write(self.fds[change.new], frame)

    def access_point(self, station: int) -> int | None:
        if self._cells is None:
            return super().access_point(station)
        return self._cells.access_point(station)

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        match request["op"]:
            case "associate":
                if self._cells is None:
                    raise ControlError("there are no access points")
                self._scan_due = now
            case "settle":
                self._scan_due = NEVER
            case "inject":
                self._inject(request)
            case _:
                return super().own_answer(request, now)
        return {}

    def own_statistics(self) -> dict[str, Any]:
        return super().own_statistics() | {
            "tap_drops": dict(zip(self.labels, self.drops(), strict=True)),
            "handovers": self._handovers,
        }


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.media.tap", TapConfig, TapMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
