"""The service that owns a medium in real time: its clock, its devices and its control socket.

There are three: the medium of a scenario between TAP devices (`emulation.media.tap`) or radios of
mac80211_hwsim (`emulation.media.hwsim`), and that of a script (`emulation.media.wireless`).

One process runs one loop: a frame from a stack is transmitted on a `Medium` at the instant it was
read, and a frame that the medium delivers is handed to its receivers' stacks at the instant the
medium says.  The clock is CLOCK_MONOTONIC.  How far reality lags behind those instants is the
measure of fidelity, and is kept in a histogram.  Between events the loop sleeps in select() on the
epoll descriptor, as select() takes its timeout in microseconds and epoll in milliseconds; the
kernel's timer slack is set to its minimum.  Waking up still takes a while, so the loop wakes that
much before something is due, and polls the devices until then.

A request takes effect when it arrives, and does not change frames already on the air.
Requests to every medium (`emulation.media.control`):

    ping                        {"stations": N}; the socket exists once all devices do
    stats                       counters, lateness, drops, CPU share: see `statistics`
    stop                        end the process
"""

from __future__ import annotations

import abc
import errno
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from capture.process import (
    PriorityName,
    allow_descriptors,
    die_with_parent,
    exact_timers,
    explained,
    raise_priority,
)
from emulation.media.config import ProcessConfig, TapError, load
from emulation.media.control import ControlError, ControlServer
from emulation.media.device import DeviceError

_UNIT: Final = 1e7
"""Buckets count tenths of a microsecond..."""
_BITS: Final = 6
"""...exactly up to 2**6 of them, and to this many significant bits above."""
WAKE_UP: Final = 30e-6
"""Seconds before something is due from which the loop stays awake.

The medium's median delay of a frame fell from 119 us to 65 with it, for 6 % of a processor;
50 us gained 1 us more, for 15 % (docs/benchmarks.md).
"""
_ENDINGS: Final = (signal.SIGTERM, signal.SIGINT)
_DOWN: Final = (errno.EIO, errno.EBADFD)
"""Errors of a device that was taken down or deleted."""
IDLE_WAIT: Final = 1.0
"""Seconds to sleep if nothing is due."""


class Lateness:
    """Histogram of delays in seconds; negative ones count as zero."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest = 0.0
        self._buckets = [0] * (48 << (_BITS - 1))

    def add(self, seconds: float) -> None:
        """Count one delay of up to an hour or so; longer ones share the last bucket."""
        self.count += 1
        if seconds > self.greatest:
            self.greatest = seconds
        value = int(seconds * _UNIT) if seconds > 0 else 0
        shift = max(value.bit_length() - _BITS, 0)
        self._buckets[min((shift << (_BITS - 1)) + (value >> shift), len(self._buckets) - 1)] += 1

    def quantile(self, share: float) -> float:
        """Return the delay in seconds that `share` of all do not exceed, 0 if there are none."""
        wanted = share * self.count
        seen = 0
        for index, number in enumerate(self._buckets):
            seen += number
            if number and seen >= wanted:
                shift = max((index >> (_BITS - 1)) - 1, 0)
                value = index - (shift << (_BITS - 1))
                return min(((value + 1) << shift) / _UNIT, self.greatest)
        return 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the count, and p50, p99 and maximum in microseconds."""
        return {
            "count": self.count,
            "p50_us": round(self.quantile(0.5) * 1e6, 1),
            "p99_us": round(self.quantile(0.99) * 1e6, 1),
            "max_us": round(self.greatest * 1e6, 1),
        }


P = TypeVar("P", bound=ProcessConfig)


class MediumService(abc.ABC):
    """Owns a medium; answers at the socket `control`.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, control: Path) -> None:
        self.lateness = Lateness()
        self.write_drops = 0
        self.down_drops = 0
        self._stopping = False
        self.priority: PriorityName = "none"
        """The permitted priority, for the statistics."""
        self._cpu_from = (time.monotonic(), time.process_time())
        self.epoll = select.epoll()
        try:
            self.open()
            self._control = ControlServer(control)
        except BaseException:
            self._close_devices()
            raise
        self.epoll.register(self._control.fileno(), select.EPOLLIN)

    # For a subclass to add.

    @abc.abstractmethod
    def open(self) -> None:
        """Make the devices and register with `epoll`.  Raises `DeviceError`."""

    @abc.abstractmethod
    def close_devices(self) -> None:
        """Remove the devices that were made."""

    @abc.abstractmethod
    def receive(self, fd: int, events: int) -> None:
        """Read what is ready at a descriptor of a device; others wait their turn."""

    @abc.abstractmethod
    def pass_time(self, now: float) -> float:
        """Do what has fallen due and `catch_up`; return when to be called again."""

    @abc.abstractmethod
    def catch_up(self, now: float) -> None:
        """Let time pass, and hand over what has arrived."""

    @abc.abstractmethod
    def answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer a request that not every medium knows.  Raises `ControlError` to refuse it."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many stations there are, or radios."""

    @abc.abstractmethod
    def own_statistics(self) -> dict[str, Any]:
        """Return the counts of this kind of medium.

        `names` gives the order of the lists in `counters`; `lost` counts frames that could not be
        sent on, by reason; `tap_drops` those sent faster than the medium read them, by name;
        `handovers` changes from one access point to another.
        """

    # Life.

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
        epoll = self.epoll
        sleeper = [epoll.fileno()]
        clock = time.monotonic
        while not self._stopping:
            now = clock()
            due = min(self.pass_time(now), now + IDLE_WAIT)
            wait = due - clock() - WAKE_UP
            if wait > 0 and not select.select(sleeper, (), (), wait)[0]:
                continue
            for fd, events in epoll.poll(0):
                if fd == control:
                    self._control.serve_ready(self._answer)
                elif fd == signals:
                    wakeup.recv(4096)
                else:
                    self.receive(fd, events)
                    # Events that fell due in the meantime do not wait for the other devices.
                    self.catch_up(clock())

    def _answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        now = time.monotonic()
        self.catch_up(now)
        match request["op"]:
            case "ping":
                return {"stations": self.size}
            case "stats":
                return self.statistics()
            case "stop":
                self.stop()
                return {}
        return self.answer(request, now)

    def write(self, fd: int, frame: bytes) -> None:
        try:
            os.write(fd, frame)
        except OSError as error:
            if error.errno in _DOWN:
                self.down_drops += 1
            else:  # out of buffers (EAGAIN, ENOBUFS)
                self.write_drops += 1

    def statistics(self) -> dict[str, Any]:
        """Return the figures so far: `own_statistics`, and those of the loop.

        `lateness` is that of deliveries, in us; `write_drops` counts frames that a device did not
        accept, `down_drops` those for devices that are down or deleted; `cpu_share` is of one CPU
        since the previous request, `cpu_seconds` since the start; `priority` is the permitted one.
        """
        wall, cpu = time.monotonic(), time.process_time()
        since_wall, since_cpu = self._cpu_from
        self._cpu_from = (wall, cpu)
        return self.own_statistics() | {
            "lateness": self.lateness.as_dict(),
            "write_drops": self.write_drops,
            "down_drops": self.down_drops,
            "cpu_share": (cpu - since_cpu) / max(wall - since_wall, 1e-9),
            "cpu_seconds": cpu,
            "priority": self.priority,
        }


def serve(
    arguments: list[str],
    module: str,
    model: type[P],
    medium_of: Callable[[P], MediumService],
) -> int:
    """Run a medium whose configuration is the one command-line argument; return the exit code."""
    if len(arguments) != 1:
        print(f"usage: python -m {module} CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = load(model, Path(arguments[0]))
        die_with_parent(parent=config.parent)
        allow_descriptors()  # two per station
        # Whoever sees the control socket may end the medium, even before it runs.
        early: list[int] = []
        for number in _ENDINGS:
            signal.signal(number, lambda number, _: early.append(number))
        medium = medium_of(config)
    except (TapError, DeviceError, ControlError, OSError) as error:
        reason = explained(error) if isinstance(error, OSError) else error
        print(f"medium: {reason}", file=sys.stderr)
        return 1
    reader, writer = socket.socketpair()
    with medium, reader, writer:
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in _ENDINGS:
            signal.signal(number, lambda *_: medium.stop())
        if early:
            medium.stop()
        exact_timers()
        medium.priority = raise_priority(config.priority)
        # Objects built so far live as long as the process: collections need not visit them again.
        gc.collect()
        gc.freeze()
        medium.run(reader)
        signal.set_wakeup_fd(-1)
    return 0
