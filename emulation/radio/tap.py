"""The medium of real network stacks: TAP devices, and a `Medium` in between for each channel.

    python -m emulation.radio.tap CONFIG.json

Theory of operation.  One process opens every radio's TAP device inside the namespace where it
belongs and runs one loop over them: a frame read from a device is transmitted on the medium at
the instant it was read, and a frame that the medium delivers is written to the devices of its
receivers at the instant the medium says.  The clock is CLOCK_MONOTONIC.  How far reality lags
behind those instants is the measure of fidelity, and kept in a histogram.

Without access points there is one channel and every radio is a station's.  With them there are
two, which do not disturb each other: one of stations and access radios, one of mesh radios
(`emulation.radio.addressing`).  Stations then choose an access point at every scan, and the layer 2
update of the new one comes out of its access device (`emulation.radio.association`).

Between events the loop sleeps in select() on the epoll descriptor, whose timeout is in
microseconds where epoll's own is in milliseconds; the kernel's timer slack is set to nothing.

Positions follow the trace from the instant that the request `start` names, and are at their
beginning until then.  CONFIG.json is a `TapConfig`.  Requests (see `emulation.control`), where
`name` is a station's or an access point's:

    ping                        {"stations": N}; the socket exists once all devices do
    associate                   begin to scan, with a scan at once
    settle                      scan no more: everybody stays at its access point
    start {epoch}               CLOCK_MONOTONIC seconds of time 0 of the trace
    move {name, x, y}           place a station, whatever its trace says, until
    release {name}              it follows the trace again
    fail {name [, other]}       take down a station, or the link between two
    heal {name [, other]}       undo that
    links [{name}]              {"links": [{name, neighbour, distance, received_dbm, snr_db,
                                rate_mbps, loss [, channel]}]}; of all: stalls the medium a while
    position [{name}]           {"positions": {name: [x, y]}} in metres
    associations [{name}]       {"associations": {station: access point or null}}
    stats                       counters, lateness, drops, CPU share: see `TapMedium.statistics`
    stop                        end the process
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from capture.lifetime import die_with_parent
from emulation.control import ControlError, ControlServer
from emulation.layer2_update import layer2_update
from emulation.radio.addressing import (
    Addressing,
    AdHoc,
    Infrastructure,
    Mesh,
    access_levels,
    octets,
)
from emulation.radio.association import Associations
from emulation.radio.device import DeviceError, Tap
from emulation.radio.lateness import Lateness
from emulation.radio.medium import Delivery, Medium
from emulation.radio.places import NEVER, Places
from emulation.radio.realtime import PriorityName, exact_timers, raise_priority
from emulation.radio.spec import RadioSpec
from emulation.radio.tap_config import TapConfig, TapError, load
from emulation.scenario import Waypoint

ETHERNET_HEADER: Final = 14
VLAN_TAG: Final = 4
LEAST_QUEUE: Final = 500
"""Frames a device holds for the loop, so that a burst is dropped by the medium, if at all."""
IDLE_WAIT: Final = 1.0
"""Seconds of sleep where nothing is due."""
_Device = tuple[int, str, str]
"""Process whose namespace it is in, name, Ethernet address."""


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
    ) -> None:
        self.name = name
        self.addressing = addressing
        self.medium = Medium(radio, len(devices), rng)
        self.taps: list[Tap] = []
        queue = max(radio.queue_frames, LEAST_QUEUE)
        try:
            for pid, interface, mac in devices:
                self.taps.append(Tap(pid, interface, mac, mtu, queue))
        except BaseException:
            self.close()
            raise
        self.fds = [tap.fd for tap in self.taps]

    def close(self) -> None:
        for tap in self.taps:
            tap.close()


class TapMedium:
    """The devices, the channels and the loop.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._config = config
        self._names = config.names
        self._index = {name: index for index, name in enumerate(self._names)}
        self._stations = len(config.stations)
        self._macs = [octets(station.mac) for station in config.stations]
        stands = [(Waypoint(0.0, *point.position),) for point in config.access_points]
        tracks = [*(station.waypoints for station in config.stations), *stands]
        self._places = Places(tracks, config.tick)
        self._associations = Associations(self._stations, config.association.hysteresis_db)
        self._scan_due = NEVER
        self._handovers = 0
        self._lateness = Lateness()
        self._write_drops = 0
        self._stopping = False
        self.priority: PriorityName = "none"
        """What was permitted; for the statistics."""
        self._cpu_from = (time.monotonic(), time.process_time())
        self._channels: list[_Channel] = []
        self._epoll = select.epoll()
        try:
            for channel in self._open():
                self._channels.append(channel)
            self._by_fd = {
                fd: (channel, radio)
                for channel in self._channels
                for radio, fd in enumerate(channel.fds)
            }
            for fd in self._by_fd:
                self._epoll.register(fd, select.EPOLLIN)
            self._control = ControlServer(config.control)
        except BaseException:
            self._close_devices()
            raise
        self._place(self._places.update(time.monotonic()))
        self._epoll.register(self._control.fileno(), select.EPOLLIN)

    def _open(self) -> Iterator[_Channel]:
        """Yield the channels: that of the stations, then that of the mesh where there is one."""
        config, points = self._config, self._config.access_points
        devices = [(each.pid, each.interface, each.mac) for each in config.stations]
        devices += [(each.pid, each.access.interface, each.access.mac) for each in points]
        rng = random.Random(f"{config.seed}/medium")
        if config.mesh_radio is None:
            yield _Channel("", config.radio, devices, AdHoc(self._macs), config.mtu, rng)
            return
        infrastructure = Infrastructure(self._macs, self._associations)
        yield _Channel("access", config.radio, devices, infrastructure, config.mtu, rng)
        mesh = [(each.pid, each.mesh.interface, each.mesh.mac) for each in points]
        hosts = Mesh([octets(each.host_mac) for each in points])
        rng = random.Random(f"{config.seed}/mesh medium")
        yield _Channel("mesh", config.mesh_radio, mesh, hosts, config.mtu, rng)

    def _close_devices(self) -> None:
        self._epoll.close()
        for channel in self._channels:
            channel.close()

    def close(self) -> None:
        """Remove the devices and the control socket."""
        self._control.close()
        self._close_devices()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """End the loop."""
        self._stopping = True

    # The loop.

    def run(self, wakeup: socket.socket) -> None:
        """Serve until `stop`; `wakeup` is readable after a signal, so that no signal waits."""
        self._epoll.register(wakeup.fileno(), select.EPOLLIN)
        control, signals = self._control.fileno(), wakeup.fileno()
        epoll, channels, places = self._epoll, self._channels, self._places
        sleeper = [epoll.fileno()]
        clock = time.monotonic
        while not self._stopping:
            now = clock()
            if now >= places.due:
                self._place(places.update(now))
            if now >= self._scan_due:
                self._scan_due += self._config.association.scan_interval
                self._scan()
            due = min(places.due, self._scan_due, now + IDLE_WAIT)
            for channel in channels:
                for delivery in channel.medium.advance(now):
                    self._deliver(channel, delivery)
                due = min(due, channel.medium.next_event())
            wait = due - clock()
            if wait > 0 and not select.select(sleeper, (), (), wait)[0]:
                continue
            for fd, events in epoll.poll(0):
                device = self._by_fd.get(fd)
                if device is not None:
                    self._read(fd, *device, events)
                    # Whatever fell due meanwhile does not wait for the other devices.
                    for channel in channels:
                        for delivery in channel.medium.advance(clock()):
                            self._deliver(channel, delivery)
                elif fd == control:
                    self._control.serve_ready(self._answer)
                elif fd == signals:
                    wakeup.recv(4096)

    def _read(self, fd: int, channel: _Channel, radio: int, events: int) -> None:
        """Send the next frame of a device; others wait their turn, the descriptor stays ready."""
        try:
            frame = os.read(fd, self._config.mtu + ETHERNET_HEADER + VLAN_TAG)
        except BlockingIOError:
            return
        except OSError as error:
            if events & select.EPOLLERR:
                self._lose(fd, channel, radio, error)
            return
        destination = channel.addressing.destination(radio, frame[:6])
        if destination is not None:
            channel.medium.transmit(time.monotonic(), radio, destination, len(frame), frame)

    def _lose(self, fd: int, channel: _Channel, radio: int, error: OSError) -> None:
        """Somebody deleted the device."""
        self._epoll.unregister(fd)
        channel.medium.fail(radio)
        station = channel.name == "" or (channel.name == "access" and radio < self._stations)
        name = self._names[radio] if station else channel.taps[radio].interface
        print(f"{name}: its radio device has gone: {error.strerror}", file=sys.stderr, flush=True)

    def _deliver(self, channel: _Channel, delivery: Delivery) -> None:
        frame: bytes = delivery.frame
        accepted = channel.addressing.accepted(delivery.source, frame[:6], delivery.receivers)
        for receiver in accepted:
            self._write(channel.fds[receiver], frame)
        self._lateness.add(time.monotonic() - delivery.time)

    def _write(self, fd: int, frame: bytes) -> None:
        try:
            os.write(fd, frame)
        except OSError:
            # Down (EIO) or out of buffers (EAGAIN, ENOBUFS): a radio would lose it as well.
            self._write_drops += 1

    # Positions and associations.

    def _place(self, xy: npt.NDArray[np.float64]) -> None:
        self._channels[0].medium.set_positions(xy)
        for mesh in self._channels[1:]:
            mesh.medium.set_positions(xy[self._stations :])

    def _scan(self) -> None:
        """Let all stations choose an access point; tell the network behind those they chose."""
        access = self._channels[0]
        for change in self._associations.scan(access_levels(access.medium, self._stations)):
            if change.new is not None:
                self._handovers += change.old is not None
                frame = layer2_update(self._macs[change.station])
                self._write(access.fds[self._stations + change.new], frame)

    # Requests.

    def _answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        now = time.monotonic()
        match request["op"]:
            case "ping":
                return {"stations": self._stations}
            case "associate":
                if len(self._channels) == 1:
                    raise ControlError("there are no access points")
                self._scan_due = now
            case "settle":
                self._scan_due = NEVER
            case "start":
                epoch = _number(request, "epoch")
                if self._scan_due != NEVER:
                    self._scan_due = epoch
                self._place(self._places.start(epoch, now))
            case "move":
                x, y = _number(request, "x"), _number(request, "y")
                self._places.move(self._named(request), x, y)
                self._place(self._places.at(now))
            case "release":
                self._places.release(self._named(request))
                self._place(self._places.at(now))
            case "fail" | "heal":
                self._switch(request)
            case "links":
                return {"links": self._links(request)}
            case "position":
                xy = self._places.at(now)
                self._place(xy)
                return {
                    "positions": {self._names[i]: xy[i].tolist() for i in self._chosen(request)}
                }
            case "associations":
                return {"associations": self._belonging(request)}
            case "stats":
                return self.statistics()
            case "stop":
                self.stop()
            case other:
                raise ControlError(f"unknown request {other!r}")
        return {}

    def _named(self, request: Mapping[str, Any], key: str = "name") -> int:
        name = request.get(key)
        if not isinstance(name, str) or name not in self._index:
            raise ControlError(f"no such station: {name}; there are {', '.join(self._names)}")
        return self._index[name]

    def _switch(self, request: Mapping[str, Any]) -> None:
        """Take down or up a station, all radios of an access point, or a link between two."""
        one, other = self._named(request), None
        if request.get("other") is not None:
            if request["other"] == request.get("name"):
                raise ControlError(f"{request['op']}: a link has two different stations")
            other = self._named(request, "other")
        for channel, first in zip(self._channels, (0, self._stations), strict=False):
            if one >= first and (other is None or other >= first):
                change = channel.medium.fail if request["op"] == "fail" else channel.medium.heal
                change(one - first, None if other is None else other - first)

    def _chosen(self, request: Mapping[str, Any]) -> list[int]:
        if request.get("name") is None:
            return list(range(len(self._names)))
        return [self._named(request)]

    def _links(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": self._names[radio],
                **link._asdict(),
                "neighbour": self._names[link.neighbour + first],
            }
            | ({"channel": channel.name} if channel.name else {})
            for radio in self._chosen(request)
            for channel, first in zip(self._channels, (0, self._stations), strict=False)
            if radio >= first
            for link in channel.medium.links(radio - first)
        ]

    def _belonging(self, request: Mapping[str, Any]) -> dict[str, str | None]:
        found = {}
        for station in self._chosen(request):
            if station < self._stations:
                point = self._associations.of(station)
                name = None if point is None else self._names[self._stations + point]
                found[self._names[station]] = name
        return found

    def statistics(self) -> dict[str, Any]:
        """Return what has happened so far.

        `names` gives the order of the lists in `counters`: stations, or interfaces where there are
        access points; `lateness` is of deliveries, in us; `write_drops` counts frames that a
        receiver's device did not take, `tap_drops` by name those that were sent faster than the
        medium read them; `handovers` are changes from one access point to another, `lost` counts
        frames without a way to go by reason; `cpu_share` is of one CPU, since the request before,
        `cpu_seconds` since the start.
        """
        wall, cpu = time.monotonic(), time.process_time()
        since_wall, since_cpu = self._cpu_from
        self._cpu_from = (wall, cpu)
        names = self._names
        if len(self._channels) > 1:
            names = [tap.interface for channel in self._channels for tap in channel.taps]
        taps = [tap for channel in self._channels for tap in channel.taps]
        counters: dict[str, list[Any]] = {}
        lost: Counter[str] = Counter()
        for channel in self._channels:
            for name, values in channel.medium.counters.as_dict().items():
                counters.setdefault(name, []).extend(values)
            lost += channel.addressing.lost
        return {
            "names": names,
            "counters": counters,
            "lateness": self._lateness.as_dict(),
            "write_drops": self._write_drops,
            "tap_drops": {name: tap.tx_dropped() for name, tap in zip(names, taps, strict=True)},
            "handovers": self._handovers,
            "lost": dict(lost),
            "cpu_share": (cpu - since_cpu) / max(wall - since_wall, 1e-9),
            "cpu_seconds": cpu,
            "priority": self.priority,
        }


def _number(request: Mapping[str, Any], key: str) -> float:
    value = request.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    raise ControlError(f"{request['op']}: {key} must be a number")


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m emulation.radio.tap CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = load(Path(arguments[0]))
        die_with_parent(parent=config.parent)
        medium = TapMedium(config)
    except (TapError, DeviceError, ControlError, OSError) as error:
        print(f"medium: {error}", file=sys.stderr)
        return 1
    reader, writer = socket.socketpair()
    with medium, reader, writer:
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: medium.stop())
        exact_timers()
        medium.priority = raise_priority(config.priority)
        # What start-up built lives as long as the process: no collection need look at it again.
        gc.collect()
        gc.freeze()
        medium.run(reader)
        signal.set_wakeup_fd(-1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
