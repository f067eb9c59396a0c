"""The medium of real network stacks: TAP devices, and a `Medium` in between for each channel.

    python -m emulation.media.tap CONFIG.json

Theory of operation.  The process opens every radio's TAP device inside the namespace it belongs to:
a frame read from a device is transmitted, and a frame that the medium delivers is written to the
devices of its receivers.  Loop and requests are those of `emulation.media.service`.

Without access points there is one channel and every radio belongs to a station; or, with `wire`,
the channel is a switch and its devices are those of hosts (`emulation.radio.wire`).  With access
points there are two, one of stations and access radios, one of mesh radios
(`emulation.wifi.cells`).  Stations then choose an access point at every scan, and the layer 2
update of the new one comes out of its access device.

CONFIG.json is a `TapConfig`.  Further requests:

    associate                   begin to scan, with a scan at once
    settle                      stop scanning: every station stays at its access point
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from emulation.media.control import ControlError
from emulation.media.device import ETHERNET_HEADER, Device, DeviceError, Taps
from emulation.media.loop import serve
from emulation.media.positions import NEVER
from emulation.media.service import MediumService
from emulation.media.tap_config import Port, TapConfig, load
from emulation.radio.delivery import Delivery
from emulation.radio.mac import octets
from emulation.radio.medium import Medium
from emulation.radio.wire import WireMedium
from emulation.wifi.addressing import AdHocAddressing
from emulation.wifi.cells import Cells, RadioChannel
from emulation.wifi.layer2_update import layer2_update
from nodeapp.wire import TrafficClass

IPV4: Final = b"\x08\x00"
DS_FIELD: Final = ETHERNET_HEADER + 1
"""Offset of the DS field (RFC 2474) in an Ethernet frame with an IPv4 header."""


def is_routing(frame: bytes) -> bool:
    """Return whether an Ethernet frame is marked as a message of the routing protocol."""
    code_point = frame[DS_FIELD] >> 2 if len(frame) > DS_FIELD else 0
    return frame[12:14] == IPV4 and code_point == TrafficClass.ROUTING_CONTROL


class TapMedium(MediumService[RadioChannel]):
    """The devices and the channels.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._macs = [octets(station.mac) for station in config.stations]
        self._cells: Cells | None = None
        self._scan_due = NEVER
        self._handovers = 0
        self._taps: Taps | None = None
        self._by_fd: dict[int, tuple[RadioChannel, int]] = {}
        self._fds: dict[RadioChannel, list[int]] = {}
        super().__init__(config)

    def open(self) -> None:
        """Make the channels and the devices of their radios."""
        config, points = self.config, self.config.access_points
        queue = config.radio.queue_frames
        devices = [Device(each.pid, each.interface, each.mac, queue) for each in config.stations]
        if config.mesh_radio is None:
            self.channels.append(self._single())
        else:
            hosts = [octets(each.host_mac) for each in points]
            hysteresis = config.association.hysteresis_db
            radios = config.radio, config.mesh_radio
            cells = self._cells = Cells(self._macs, hosts, *radios, hysteresis, self.rng)
            self.channels += [cells.access, cells.mesh]
            devices += [_device(each.pid, each.access, queue) for each in points]
            queue = config.mesh_radio.queue_frames
            devices += [_device(each.pid, each.mesh, queue) for each in points]
        self._taps = Taps(self.epoll, devices, config.mtu)
        fds, first = self._taps.fds, len(self.names)  # that of the mesh
        for channel, own in zip(self.channels, (fds[:first], fds[first:]), strict=False):
            self._fds[channel] = own
            self._by_fd.update((fd, (channel, radio)) for radio, fd in enumerate(own))

    def _single(self) -> RadioChannel:
        """Return the channel of stations, or of hosts on a switch."""
        config, count = self.config, len(self._macs)
        if config.wire is None:
            medium = Medium(config.radio, count, self.rng("medium"))
        else:
            medium = cast(Medium, WireMedium(config.wire))  # used as one
        return RadioChannel("", config.radio, medium, AdHocAddressing(self._macs))

    def close_devices(self) -> None:
        """Remove the devices."""
        if self._taps is not None:
            self._taps.close()

    def receive(self, fd: int, events: int) -> None:
        """Send the next frame of a device; others wait their turn, the descriptor stays ready."""
        assert self._taps is not None
        channel, radio = self._by_fd[fd]
        try:
            frame = self._taps.read(fd, events)
        except DeviceError as error:  # go on without it
            channel.medium.fail(radio)
            name = self.labels[self._taps.fds.index(fd)]
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            return
        if frame is not None:
            channel.send(time.monotonic(), radio, frame[:6], len(frame), frame, is_routing)

    def hand_over(self, channel: RadioChannel, delivery: Delivery) -> None:
        """Write a frame to the devices of those that accept it."""
        frame: bytes = delivery.frame
        fds = self._fds[channel]
        for receiver in channel.accepted(delivery.source, frame[:6], delivery.receivers):
            self.write(fds[receiver], frame)

    # Associations.

    def own_due(self, now: float) -> float:
        """Scan if it is time; return when the next scan is."""
        if now >= self._scan_due:
            self._scan_due += self.config.association.scan_interval
            self._scan(now)
        return self._scan_due

    def started(self, epoch: float) -> None:
        """Scan from `epoch` on, if scanning has begun."""
        if self._scan_due != NEVER:
            self._scan_due = epoch

    def _scan(self, now: float) -> None:
        """Let all stations choose an access point; tell the network behind those they chose."""
        assert self._cells is not None
        for change in self._cells.scan(now):
            if change.new is not None:
                self._handovers += change.old is not None
                frame = layer2_update(self._macs[change.station])
                self.write(self._fds[self._cells.access][change.new], frame)

    def access_point(self, station: int) -> int | None:
        """Return the index of a station's access point among the names; None if it has none."""
        if self._cells is None:
            return super().access_point(station)
        return self._cells.access_point(station)

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer requests about scans."""
        match request["op"]:
            case "associate":
                if self._cells is None:
                    raise ControlError("there are no access points")
                self._scan_due = now
            case "settle":
                self._scan_due = NEVER
            case _:
                return super().own_answer(request, now)
        return {}

    def own_statistics(self) -> dict[str, Any]:
        """Return `tap_drops` and `handovers` besides."""
        drops = self._taps.drops() if self._taps is not None else []
        return super().own_statistics() | {
            "tap_drops": dict(zip(self.labels, drops, strict=True)),
            "handovers": self._handovers,
        }


def _device(pid: int, port: Port, queue: int) -> Device:
    return Device(pid, port.interface, port.mac, queue)


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.media.tap", load, TapMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
