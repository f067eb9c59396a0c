"""A medium of real network stacks as a process: its clock, its loop and its requests.

`emulation.realtime.tap` and `emulation.realtime.hwsim` are two of them: they differ in where frames
come from and go to.  They share the following.

One process runs one loop: a frame from a stack is transmitted on a `Medium` at the instant it was
read, and a frame that the medium delivers is handed to its receivers' stacks at the instant the
medium says.  The clock is CLOCK_MONOTONIC.  How far reality lags behind those instants is the
measure of fidelity, and is kept in a histogram.  Between events the loop sleeps in select() on the
epoll descriptor, as select() takes its timeout in microseconds and epoll in milliseconds; the
kernel's timer slack is set to its minimum.

Positions follow the trace from the instant given by the request `start`; until then they are those
of its beginning.  Requests (see `emulation.realtime.control`); `name` is that of a station or an
access point:

    ping                        {"stations": N}; the socket exists once all devices do
    associate                   begin to scan, with a scan at once
    settle                      stop scanning: every station stays at its access point
    start {epoch}               CLOCK_MONOTONIC seconds of time 0 of the trace
    move {name, x, y}           place a station, whatever its trace says, until
    release {name}              it follows the trace again
    fail {name [, other]}       take down a station, or the link between two
    heal {name [, other]}       undo that
    fault {fault}               make a fault of radios (`emulation.scenario.faults`)
    end fault {fault}           end it
    links [{name}]              {"links": [{name, neighbour, distance, received_dbm, snr_db,
                                rate_mbps, loss [, channel]}]}; of all: stalls the medium a while
    position [{name}]           {"positions": {name: [x, y]}} in metres
    associations [{name}]       {"associations": {station: access point or null}}
    stats                       counters, lateness, drops, CPU share: see `TapMedium.statistics`
    stop                        end the process
"""

from __future__ import annotations

import abc
import gc
import random
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from capture.lifetime import die_with_parent
from emulation.errors import explained
from emulation.mobility.trajectory import Waypoint
from emulation.radio.delivery import Delivery
from emulation.radio.faults import RadioFaults
from emulation.radio.medium import Medium
from emulation.realtime.control import ControlError, ControlServer
from emulation.realtime.device import DeviceError
from emulation.realtime.lateness import Lateness
from emulation.realtime.positions import NEVER, RadioPositions
from emulation.realtime.priority import PriorityName, exact_timers, raise_priority
from emulation.realtime.tap_config import TapConfig, TapError, load
from emulation.scenario.faults import Fault

IDLE_WAIT: Final = 1.0
"""Seconds of sleep if nothing is due."""


class MediumChannel(Protocol):
    """A medium, its name, and the interfaces of its radios."""

    @property
    def name(self) -> str:
        """Name of the channel; empty if there is only one."""

    @property
    def medium(self) -> Medium:
        """The medium."""

    @property
    def interfaces(self) -> Sequence[str]:
        """Names of the radios' interfaces, in the order of the radios."""

    @property
    def lost(self) -> Counter[str]:
        """Frames that could not be sent on, by reason."""


C = TypeVar("C", bound=MediumChannel)


class MediumService(abc.ABC, Generic[C]):
    """The loop and the requests.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self.config = config
        self.names = config.names
        self.stations = len(config.stations)
        self._index = {name: index for index, name in enumerate(self.names)}
        stands = [(Waypoint(0.0, *point.position),) for point in config.access_points]
        tracks = [*(station.waypoints for station in config.stations), *stands]
        self._positions = RadioPositions(tracks, config.tick)
        self._lateness = Lateness()
        self.write_drops = 0
        self._stopping = False
        self.priority: PriorityName = "none"
        """The priority that was permitted, for the statistics."""
        self._cpu_from = (time.monotonic(), time.process_time())
        self.channels: list[C] = []
        self.epoll = select.epoll()
        try:
            self.open()
            self._control = ControlServer(config.control)
        except BaseException:
            self._close_devices()
            raise
        self.set_positions(self._positions.update(time.monotonic()))
        firsts = zip(self.channels, (0, self.stations), strict=False)
        self._faults = RadioFaults(
            [
                (channel.medium, {name: at for at, name in enumerate(self.names[first:])})
                for channel, first in firsts
                if config.wire is None  # a switch has no radios that could fail
            ]
        )
        self.epoll.register(self._control.fileno(), select.EPOLLIN)

    # What a kind of medium adds.

    @abc.abstractmethod
    def open(self) -> None:
        """Make the devices, fill `channels` and register with `epoll`.  Raises `DeviceError`."""

    @abc.abstractmethod
    def close_devices(self) -> None:
        """Remove the devices that were made."""

    @abc.abstractmethod
    def receive(self, fd: int, events: int) -> None:
        """Read what is ready at a descriptor of a device; others wait their turn."""

    @abc.abstractmethod
    def hand_over(self, channel: C, delivery: Delivery) -> None:
        """Give a delivered frame to the stacks of its receivers."""

    def own_due(self, now: float) -> float:
        """Do what else falls due; return when to be called again."""
        return NEVER

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer a request that is not handled here."""
        raise ControlError(f"unknown request {request['op']!r}")

    def own_statistics(self) -> dict[str, Any]:
        """Return the statistics that only this kind of medium has."""
        return {}

    def started(self, epoch: float) -> None:
        """Take note that the trajectories begin at `epoch`."""

    # Life.

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose."""
        return random.Random(f"{self.config.seed}/{purpose}")

    def _close_devices(self) -> None:
        self.epoll.close()
        self.close_devices()

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
        self.epoll.register(wakeup.fileno(), select.EPOLLIN)
        control, signals = self._control.fileno(), wakeup.fileno()
        epoll, channels, positions = self.epoll, self.channels, self._positions
        sleeper = [epoll.fileno()]
        clock = time.monotonic
        while not self._stopping:
            now = clock()
            if now >= positions.due:
                self.set_positions(positions.update(now))
            due = min(self.own_due(now), positions.due, now + IDLE_WAIT)
            self.catch_up(now)
            for channel in channels:
                due = min(due, channel.medium.next_event())
            wait = due - clock()
            if wait > 0 and not select.select(sleeper, (), (), wait)[0]:
                continue
            for fd, events in epoll.poll(0):
                if fd == control:
                    self._control.serve_ready(self._answer)
                elif fd == signals:
                    wakeup.recv(4096)
                else:
                    self.receive(fd, events)
                    # What has fallen due in the meantime does not wait for the other devices.
                    self.catch_up(clock())

    def catch_up(self, now: float) -> None:
        """Let time pass in all channels, and hand over what has arrived."""
        for channel in self.channels:
            for delivery in channel.medium.advance(now):
                self.hand_over(channel, delivery)
                self._lateness.add(time.monotonic() - delivery.time)

    # Positions.

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        """Move all radios: an array (stations and access points, 2) of metres."""
        self.channels[0].medium.set_positions(xy)
        for mesh in self.channels[1:]:
            mesh.medium.set_positions(xy[self.stations :])

    # Requests.

    def _answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        now = time.monotonic()
        match request["op"]:
            case "ping":
                return {"stations": self.stations}
            case "start":
                epoch = _number(request, "epoch")
                self.started(epoch)
                self.set_positions(self._positions.start(epoch, now))
            case "move":
                x, y = _number(request, "x"), _number(request, "y")
                self._positions.move(self.named(request), x, y)
                self.set_positions(self._positions.at(now))
            case "release":
                self._positions.release(self.named(request))
                self.set_positions(self._positions.at(now))
            case "fail" | "heal":
                self._switch(request)
            case "fault":
                self._faults.begin(_fault(request), now)
            case "end fault":
                self._faults.end(_fault(request))
            case "links":
                return {"links": self._links(request)}
            case "position":
                xy = self._positions.at(now)
                self.set_positions(xy)
                return {"positions": {self.names[i]: xy[i].tolist() for i in self.chosen(request)}}
            case "stats":
                return self.statistics()
            case "stop":
                self.stop()
            case _:
                return self.own_answer(request, now)
        return {}

    def named(self, request: Mapping[str, Any], key: str = "name") -> int:
        name = request.get(key)
        if not isinstance(name, str) or name not in self._index:
            raise ControlError(f"no such station: {name}; there are {', '.join(self.names)}")
        return self._index[name]

    def _switch(self, request: Mapping[str, Any]) -> None:
        """Fail or heal a station, all radios of an access point, or the link between two."""
        one, other = self.named(request), None
        if request.get("other") is not None:
            if request["other"] == request.get("name"):
                raise ControlError(f"{request['op']}: a link has two different stations")
            other = self.named(request, "other")
        for channel, first in zip(self.channels, (0, self.stations), strict=False):
            if one >= first and (other is None or other >= first):
                change = channel.medium.fail if request["op"] == "fail" else channel.medium.heal
                change(one - first, None if other is None else other - first)

    def chosen(self, request: Mapping[str, Any]) -> list[int]:
        if request.get("name") is None:
            return list(range(len(self.names)))
        return [self.named(request)]

    def _links(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": self.names[radio],
                **link._asdict(),
                "neighbour": self.names[link.neighbour + first],
            }
            | ({"channel": channel.name} if channel.name else {})
            for radio in self.chosen(request)
            for channel, first in zip(self.channels, (0, self.stations), strict=False)
            if radio >= first
            for link in channel.medium.links(radio - first)
        ]

    def statistics(self) -> dict[str, Any]:
        """Return what has happened so far.

        `names` gives the order of the lists in `counters`: stations, or interfaces if there are
        access points; `lateness` is that of deliveries, in us; `write_drops` counts frames that a
        receiver's device did not take; `lost` counts by reason frames that could not be sent on;
        `cpu_share` is of one CPU since the previous request, `cpu_seconds` since the start.
        `own_statistics` are added to them.
        """
        wall, cpu = time.monotonic(), time.process_time()
        since_wall, since_cpu = self._cpu_from
        self._cpu_from = (wall, cpu)
        names = self.names
        if len(self.channels) > 1:
            names = [name for channel in self.channels for name in channel.interfaces]
        counters: dict[str, list[Any]] = {}
        lost: Counter[str] = Counter()
        for channel in self.channels:
            for name, values in channel.medium.counters.as_dict().items():
                counters.setdefault(name, []).extend(values)
            lost += channel.lost
        return {
            "names": names,
            "counters": counters,
            "lateness": self._lateness.as_dict(),
            "write_drops": self.write_drops,
            "lost": dict(lost),
            "cpu_share": (cpu - since_cpu) / max(wall - since_wall, 1e-9),
            "cpu_seconds": cpu,
            "priority": self.priority,
            **self.own_statistics(),
        }


def _fault(request: Mapping[str, Any]) -> Fault:
    try:
        fault = Fault.model_validate(request.get("fault"))
    except ValidationError as error:
        raise ControlError(f"no fault: {error.errors()[0]['msg']}") from None
    if not fault.is_of_radio:
        raise ControlError(f"a fault of kind {fault.kind} is not of radios")
    return fault


def _number(request: Mapping[str, Any], key: str) -> float:
    value = request.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    raise ControlError(f"{request['op']}: {key} must be a number")


def serve(
    arguments: list[str], module: str, medium_of: Callable[[TapConfig], MediumService[Any]]
) -> int:
    """Run a medium whose configuration is the one command-line argument; return the exit code."""
    if len(arguments) != 1:
        print(f"usage: python -m {module} CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = load(Path(arguments[0]))
        die_with_parent(parent=config.parent)
        medium = medium_of(config)
    except (TapError, DeviceError, ControlError, OSError) as error:
        reason = explained(error) if isinstance(error, OSError) else error
        print(f"medium: {reason}", file=sys.stderr)
        return 1
    reader, writer = socket.socketpair()
    with medium, reader, writer:
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: medium.stop())
        exact_timers()
        medium.priority = raise_priority(config.priority)
        # What start-up built lives as long as the process: collections need not visit it again.
        gc.collect()
        gc.freeze()
        medium.run(reader)
        signal.set_wakeup_fd(-1)
    return 0
