"""The medium of real network stacks: one TAP device a station, and the `Medium` in between.

    python -m emulation.radio.tap CONFIG.json

Theory of operation.  One process opens every station's TAP device inside the station's network
namespace and runs one loop over them: a frame read from a device is transmitted on the medium at
the instant it was read, and a frame that the medium delivers is written to the devices of its
receivers at the instant the medium says.  The clock is CLOCK_MONOTONIC.  How far reality lags
behind those instants is the measure of fidelity, and kept in a histogram.

Between events the loop sleeps in select() on the epoll descriptor, whose timeout is in
microseconds where epoll's own is in milliseconds; the kernel's timer slack is set to nothing.

Positions follow the trace from the instant that the request `start` names, and are at their
beginning until then.  CONFIG.json is a `TapConfig`.  Requests (see `emulation.control`):

    ping                        {"stations": N}; the socket exists once all devices do
    start {epoch}               CLOCK_MONOTONIC seconds of time 0 of the trace
    move {name, x, y}           place a station, whatever its trace says, until
    release {name}              it follows the trace again
    fail {name [, other]}       take down a station, or the link between two
    heal {name [, other]}       undo that
    links [{name}]              {"links": [{name, neighbour, distance, received_dbm, snr_db,
                                rate_mbps, loss}]}; of all stations: stalls the medium for a while
    position [{name}]           {"positions": {name: [x, y]}} in metres
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from capture.lifetime import die_with_parent
from emulation.control import ControlError, ControlServer
from emulation.radio.device import DeviceError, Tap
from emulation.radio.lateness import Lateness
from emulation.radio.medium import BROADCAST, NOBODY, Delivery, Medium
from emulation.radio.realtime import (
    PriorityName,
    exact_timers,
    raise_priority,
)
from emulation.radio.spec import RadioSpec
from emulation.scenario import Trace, Waypoint

ETHERNET_HEADER: Final = 14
VLAN_TAG: Final = 4
LEAST_QUEUE: Final = 500
"""Frames a device holds for the loop, so that a burst is dropped by the medium, if at all."""
IDLE_WAIT: Final = 1.0
"""Seconds of sleep where nothing is due."""


class Station(BaseModel):
    """One station: the process whose namespace it lives in, its device, and its trajectory."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    pid: int = Field(ge=1)
    interface: str
    mac: str = Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")
    waypoints: tuple[Waypoint, ...] = Field(min_length=1)


class TapConfig(BaseModel):
    """What the medium process is told at its start."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    radio: RadioSpec
    seed: int
    stations: tuple[Station, ...] = Field(min_length=1)
    control: Path
    tick: float = Field(default=0.1, gt=0, le=60, description="seconds between position updates")
    mtu: int = Field(default=1500, ge=68, le=65_521)
    priority: PriorityName = "round-robin"
    parent: int | None = Field(default=None, description="process that must be alive")


class TapError(Exception):
    """A start that failed; the message is one line that says what to change."""


class TapMedium:
    """The devices, the medium and the loop.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._config = config
        names = [station.name for station in config.stations]
        self._names = names
        self._index = {name: index for index, name in enumerate(names)}
        self.medium = Medium(config.radio, len(names), random.Random(f"{config.seed}/medium"))
        self._trace = Trace([station.waypoints for station in config.stations])
        self._last_move = max(station.waypoints[-1].time for station in config.stations)
        self._epoch: float | None = None
        self._moved: dict[int, tuple[float, float]] = {}
        self._positions_due = float("inf")
        self._place(0.0)
        self._lateness = Lateness()
        self._write_drops = 0
        self._stopping = False
        self.priority: PriorityName = "none"
        """What was permitted; for the statistics."""
        self._cpu_from = (time.monotonic(), time.process_time())
        self._taps: list[Tap] = []
        self._epoll = select.epoll()
        try:
            self._open()
            self._control = ControlServer(config.control)
        except BaseException:
            self._close_devices()
            raise
        self._epoll.register(self._control.fileno(), select.EPOLLIN)

    def _open(self) -> None:
        self._by_fd: dict[int, int] = {}
        self._by_mac: dict[bytes, int] = {}
        queue = max(self._config.radio.queue_frames, LEAST_QUEUE)
        for index, station in enumerate(self._config.stations):
            tap = Tap(station.pid, station.interface, station.mac, self._config.mtu, queue)
            self._taps.append(tap)
            self._by_fd[tap.fd] = index
            self._by_mac[bytes.fromhex(station.mac.replace(":", ""))] = index
            self._epoll.register(tap.fd, select.EPOLLIN)
        self._fds = [tap.fd for tap in self._taps]

    def _close_devices(self) -> None:
        self._epoll.close()
        for tap in self._taps:
            tap.close()

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
        epoll, medium = self._epoll, self.medium
        sleeper = [epoll.fileno()]
        clock = time.monotonic
        while not self._stopping:
            now = clock()
            if now >= self._positions_due:
                self._follow_trace(now)
            for delivery in medium.advance(now):
                self._deliver(delivery)
            due = min(medium.next_event(), self._positions_due, now + IDLE_WAIT)
            wait = due - clock()
            if wait > 0 and not select.select(sleeper, (), (), wait)[0]:
                continue
            for fd, events in epoll.poll(0):
                station = self._by_fd.get(fd)
                if station is not None:
                    self._read(fd, station, events)
                    # Whatever fell due meanwhile does not wait for the other devices.
                    for delivery in medium.advance(clock()):
                        self._deliver(delivery)
                elif fd == control:
                    self._control.serve_ready(self._answer)
                elif fd == signals:
                    wakeup.recv(4096)

    def _read(self, fd: int, station: int, events: int) -> None:
        """Send the next frame of a device; others wait their turn, the descriptor stays ready."""
        try:
            frame = os.read(fd, self._config.mtu + ETHERNET_HEADER + VLAN_TAG)
        except BlockingIOError:
            return
        except OSError as error:
            if events & select.EPOLLERR:
                self._lose(fd, station, error)
            return
        destination = BROADCAST if frame[0] & 1 else self._by_mac.get(frame[:6], NOBODY)
        self.medium.transmit(time.monotonic(), station, destination, len(frame), frame)

    def _lose(self, fd: int, station: int, error: OSError) -> None:
        """Somebody deleted the device."""
        self._epoll.unregister(fd)
        self.medium.fail(station)
        name = self._names[station]
        print(f"{name}: its radio device has gone: {error.strerror}", file=sys.stderr, flush=True)

    def _deliver(self, delivery: Delivery) -> None:
        fds, write, frame = self._fds, os.write, delivery.frame
        for receiver in delivery.receivers:
            try:
                write(fds[receiver], frame)
            except OSError:
                # Down (EIO) or out of buffers (EAGAIN, ENOBUFS): a radio would lose it as well.
                self._write_drops += 1
        self._lateness.add(time.monotonic() - delivery.time)

    # Positions.

    def _place(self, elapsed: float) -> None:
        xy = self._trace.positions(elapsed)
        for station, place in self._moved.items():
            xy[station] = place
        self._xy = xy
        self.medium.set_positions(xy)

    def _elapsed(self, now: float) -> float:
        return 0.0 if self._epoch is None else max(now - self._epoch, 0.0)

    def _follow_trace(self, now: float) -> None:
        elapsed = self._elapsed(now)
        self._place(elapsed)
        if self._epoch is None or not self._trace.moving or elapsed >= self._last_move:
            self._positions_due = float("inf")
        else:
            # On a fixed grid, which a late update does not shift.
            ticks = int((now - self._epoch) / self._config.tick) + 1
            self._positions_due = self._epoch + max(ticks, 0) * self._config.tick

    # Requests.

    def _answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        now = time.monotonic()
        match request["op"]:
            case "ping":
                return {"stations": len(self._names)}
            case "start":
                self._epoch = _number(request, "epoch")
                self._follow_trace(now)
            case "move":
                station = self._named(request)
                self._moved[station] = (_number(request, "x"), _number(request, "y"))
                self._place(self._elapsed(now))
            case "release":
                self._moved.pop(self._named(request), None)
                self._place(self._elapsed(now))
            case "fail":
                self.medium.fail(self._named(request), self._other(request))
            case "heal":
                self.medium.heal(self._named(request), self._other(request))
            case "links":
                return {"links": self._links(request)}
            case "position":
                self._place(self._elapsed(now))
                return {
                    "positions": {
                        self._names[i]: self._xy[i].tolist() for i in self._chosen(request)
                    }
                }
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

    def _other(self, request: Mapping[str, Any]) -> int | None:
        if request.get("other") is None:
            return None
        if request["other"] == request.get("name"):
            raise ControlError(f"{request['op']}: a link has two different stations")
        return self._named(request, "other")

    def _chosen(self, request: Mapping[str, Any]) -> list[int]:
        if request.get("name") is None:
            return list(range(len(self._names)))
        return [self._named(request)]

    def _links(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": self._names[station],
                **link._asdict(),
                "neighbour": self._names[link.neighbour],
            }
            for station in self._chosen(request)
            for link in self.medium.links(station)
        ]

    def statistics(self) -> dict[str, Any]:
        """Return what has happened so far.

        `names` gives the order of the lists in `counters`; `lateness` is of deliveries, in us;
        `write_drops` counts frames that a receiver's device did not take, `tap_drops` by station
        those that were sent faster than the medium read them; `cpu_share` is of one CPU, since
        the request before, `cpu_seconds` since the start.
        """
        wall, cpu = time.monotonic(), time.process_time()
        since_wall, since_cpu = self._cpu_from
        self._cpu_from = (wall, cpu)
        return {
            "names": self._names,
            "counters": self.medium.counters.as_dict(),
            "lateness": self._lateness.as_dict(),
            "write_drops": self._write_drops,
            "tap_drops": {
                name: tap.tx_dropped() for name, tap in zip(self._names, self._taps, strict=True)
            },
            "cpu_share": (cpu - since_cpu) / max(wall - since_wall, 1e-9),
            "cpu_seconds": cpu,
            "priority": self.priority,
        }


def _number(request: Mapping[str, Any], key: str) -> float:
    value = request.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    raise ControlError(f"{request['op']}: {key} must be a number")


def load(path: Path) -> TapConfig:
    """Read a configuration.  Raises `TapError`."""
    try:
        return TapConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise TapError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "configuration"
        raise TapError(f"{path}: {where}: {first['msg']}") from None


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
