"""A medium between TAP devices: a frame that is read from one is sent by its radio.

The devices lie in the namespaces that their radios belong to.  The medium goes on without a device
that somebody deletes.
"""

from __future__ import annotations

import abc
import os
import select
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from emulation.media.device import Tap
from emulation.media.service import MediumService


class TapService(MediumService):
    """Owns the devices, which have numbers.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, control: Path) -> None:
        self.taps: list[Tap] = []
        self.fds: list[int] = []
        self._number: dict[int, int] = {}
        """Number of a device, by its descriptor."""
        self._longest = 0
        super().__init__(control)

    @abc.abstractmethod
    def devices(self) -> Iterable[Tap]:
        """Yield the devices, creating each in turn."""

    @abc.abstractmethod
    def send(self, now: float, number: int, frame: bytes) -> None:
        """Send a frame of a device."""

    @abc.abstractmethod
    def gone(self, now: float, number: int) -> str:
        """Go on without a device; return the name of its radio."""

    def open(self) -> None:
        for tap in self.devices():
            self.take(tap)

    def take(self, tap: Tap) -> None:
        """Serve a device, under the next number."""
        self.taps.append(tap)
        self._number[tap.fd] = len(self.fds)
        self.fds.append(tap.fd)
        self.epoll.register(tap.fd, select.EPOLLIN)
        self._longest = max(self._longest, tap.longest)

    def close_devices(self) -> None:
        for tap in self.taps:
            tap.close()

    def receive(self, fd: int, events: int) -> None:
        number = self._number[fd]
        try:
            frame = os.read(fd, self._longest)
        except BlockingIOError:
            return
        except OSError as error:
            if events & select.EPOLLERR:
                self.epoll.unregister(fd)
                name = self.gone(time.monotonic(), number)
                problem = f"{name}: its radio device is gone: {error.strerror}"
                print(problem, file=sys.stderr, flush=True)
            return
        self.send(time.monotonic(), number, frame)

    def drops(self) -> list[int]:
        """Return, for each device, how many frames were sent faster than the medium read them."""
        return [tap.tx_dropped() for tap in self.taps]
