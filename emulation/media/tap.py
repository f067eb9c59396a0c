"""The medium of real network stacks: TAP devices, and a `Medium` in between for each channel.

    python -m emulation.media.tap CONFIG.json

Theory of operation.  The process opens every radio's TAP device inside the namespace it belongs to:
a frame read from a device is transmitted, and a frame that the medium delivers is written to the
devices of its receivers.  Loop and requests are those of `emulation.media.service`.

Without access points there is one channel and every radio belongs to a station; or, with `wire`,
the channel is a switch and its devices are those of hosts (`emulation.radio.wire`).  With access
points there are two, which do not disturb each other: one of stations and access radios, one of
mesh radios (`emulation.wifi.addressing`).  Stations then choose an access point at every scan, and
the layer 2 update of the new one comes out of its access device (`emulation.wifi.association`).

CONFIG.json is a `TapConfig`.  Further requests:

    associate                   begin to scan, with a scan at once
    settle                      stop scanning: every station stays at its access point
    associations [{name}]       {"associations": {station: access point or null}}
"""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from emulation.media.control import ControlError
from emulation.media.device import Tap
from emulation.media.loop import serve
from emulation.media.positions import NEVER
from emulation.media.service import MediumService
from emulation.media.tap_config import TapConfig, load
from emulation.radio.delivery import Delivery
from emulation.radio.mac import octets
from emulation.radio.medium import Medium
from emulation.radio.spec import RadioSpec
from emulation.radio.wire import WireMedium, WireSpec
from emulation.wifi.addressing import (
    Addressing,
    AdHocAddressing,
    InfrastructureAddressing,
    MeshAddressing,
    access_levels,
)
from emulation.wifi.association import Associations
from emulation.wifi.layer2_update import layer2_update
from nodeapp.wire import TrafficClass

ETHERNET_HEADER: Final = 14
VLAN_TAG: Final = 4
IPV4: Final = b"\x08\x00"
DS_FIELD: Final = ETHERNET_HEADER + 1
"""Offset of the DS field (RFC 2474) in an Ethernet frame with an IPv4 header."""
LEAST_QUEUE: Final = 500
"""Frames a device holds for the loop, so that a burst is dropped by the medium, if at all."""
_Device = tuple[int, str, str]
"""Process in whose namespace it is, name, Ethernet address."""


class _Channel:
    """A medium with the devices of its radios.  Raises `DeviceError`."""

    def __init__(
        self,
        name: str,
        radio: RadioSpec,
        devices: list[_Device],
        addressing: Addressing,
        mtu: int,
        rng: random.Random,
        wire: WireSpec | None = None,
    ) -> None:
        self.name = name
        self.addressing = addressing
        self.medium = (
            Medium(radio, len(devices), rng)
            if wire is None
            else cast(Medium, WireMedium(wire))  # used as one
        )
        self.routing_first = radio.queue_order == "routing-first"
        self.taps: list[Tap] = []
        queue = max(radio.queue_frames, LEAST_QUEUE)
        try:
            for pid, interface, mac in devices:
                self.taps.append(Tap(pid, interface, mac, mtu, queue))
        except BaseException:
            self.close()
            raise
        self.fds = [tap.fd for tap in self.taps]
        self.interfaces = [tap.interface for tap in self.taps]

    @property
    def lost(self) -> Counter[str]:
        """Frames that could not be sent on, by reason."""
        return self.addressing.lost

    def close(self) -> None:
        for tap in self.taps:
            tap.close()


def is_routing(frame: bytes) -> bool:
    """Return whether an Ethernet frame is marked as a message of the routing protocol."""
    code_point = frame[DS_FIELD] >> 2 if len(frame) > DS_FIELD else 0
    return frame[12:14] == IPV4 and code_point == TrafficClass.ROUTING_CONTROL


class TapMedium(MediumService[_Channel]):
    """The devices and the channels.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._macs = [octets(station.mac) for station in config.stations]
        self._associations = Associations(config.association.hysteresis_db)
        self._scan_due = NEVER
        self._handovers = 0
        self._by_fd: dict[int, tuple[_Channel, int]] = {}
        super().__init__(config)

    def open(self) -> None:
        """Make the devices of all channels."""
        for channel in self._open():
            self.channels.append(channel)
            self._by_fd.update((fd, (channel, radio)) for radio, fd in enumerate(channel.fds))
        for fd in self._by_fd:
            self.epoll.register(fd, select.EPOLLIN)

    def _open(self) -> Iterator[_Channel]:
        """Yield the channels: that of the stations, then that of the mesh, if there is one."""
        config, points = self.config, self.config.access_points
        devices = [(each.pid, each.interface, each.mac) for each in config.stations]
        devices += [(each.pid, each.access.interface, each.access.mac) for each in points]
        rng = self.rng("medium")
        if config.mesh_radio is None:
            stations = AdHocAddressing(self._macs)
            yield _Channel("", config.radio, devices, stations, config.mtu, rng, config.wire)
            return
        infrastructure = InfrastructureAddressing(self._macs, self._associations)
        yield _Channel("access", config.radio, devices, infrastructure, config.mtu, rng)
        mesh = [(each.pid, each.mesh.interface, each.mesh.mac) for each in points]
        hosts = MeshAddressing([octets(each.host_mac) for each in points])
        rng = self.rng("mesh medium")
        yield _Channel("mesh", config.mesh_radio, mesh, hosts, config.mtu, rng)

    def close_devices(self) -> None:
        """Remove the devices."""
        for channel in self.channels:
            channel.close()

    def receive(self, fd: int, events: int) -> None:
        """Send the next frame of a device; others wait their turn, the descriptor stays ready."""
        channel, radio = self._by_fd[fd]
        try:
            frame = os.read(fd, self.config.mtu + ETHERNET_HEADER + VLAN_TAG)
        except BlockingIOError:
            return
        except OSError as error:
            if events & select.EPOLLERR:
                self._lose(fd, channel, radio, error)
            return
        destination = channel.addressing.destination(radio, frame[:6])
        if destination is not None:
            now = time.monotonic()
            first = channel.routing_first and is_routing(frame)
            channel.medium.transmit(now, radio, destination, len(frame), frame, first=first)

    def _lose(self, fd: int, channel: _Channel, radio: int, error: OSError) -> None:
        """Go on without a device that somebody deleted."""
        self.epoll.unregister(fd)
        channel.medium.fail(radio)
        station = channel.name == "" or (channel.name == "access" and radio < self.stations)
        name = self.names[radio] if station else channel.taps[radio].interface
        print(f"{name}: its radio device has gone: {error.strerror}", file=sys.stderr, flush=True)

    def hand_over(self, channel: _Channel, delivery: Delivery) -> None:
        """Write a frame to the devices of those that accept it."""
        frame: bytes = delivery.frame
        accepted = channel.addressing.accepted(delivery.source, frame[:6], delivery.receivers)
        for receiver in accepted:
            self.write(channel.fds[receiver], frame)

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
        access = self.channels[0]
        for change in self._associations.scan(now, access_levels(access.medium, self.stations)):
            if change.new is not None:
                self._handovers += change.old is not None
                frame = layer2_update(self._macs[change.station])
                self.write(access.fds[change.new], frame)

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer requests about associations."""
        match request["op"]:
            case "associate":
                if len(self.channels) == 1:
                    raise ControlError("there are no access points")
                self._scan_due = now
            case "settle":
                self._scan_due = NEVER
            case "associations" if len(self.channels) == 1:
                raise ControlError("there are no access points")
            case "associations":
                return {"associations": self._belonging(request)}
            case _:
                return super().own_answer(request, now)
        return {}

    def _belonging(self, request: Mapping[str, Any]) -> dict[str, str | None]:
        found = {}
        for station in self.chosen(request):
            if station < self.stations:
                point = self._associations.of(station)
                name = None if point is None else self.names[point]
                found[self.names[station]] = name
        return found

    def own_statistics(self) -> dict[str, Any]:
        """Return `tap_drops` and `handovers`.

        The first counts, by name, frames that were sent faster than the medium read them; the
        second counts changes from one access point to another.
        """
        taps = [tap for channel in self.channels for tap in channel.taps]
        names = self.names if len(self.channels) == 1 else [tap.interface for tap in taps]
        return {
            "tap_drops": {name: tap.tx_dropped() for name, tap in zip(names, taps, strict=True)},
            "handovers": self._handovers,
        }


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.media.tap", load, TapMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
