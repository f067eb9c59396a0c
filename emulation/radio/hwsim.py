"""The medium of mac80211_hwsim radios: a `Medium` in wmediumd's place.

    python -m emulation.radio.hwsim CONFIG.json

Theory of operation.  The process makes a radio in every station's namespace and registers on the
netlink family of mac80211_hwsim (`emulation.radio.wifi`).  The kernel's 802.11 stack then gives it
every frame that a radio sends, beacons and other management frames included, with the rates that
its rate control wants tried.  The frame is transmitted on the medium with those rates; it goes to
the radios that receive it with the signal level of the link, and its sender learns how often it was
sent at which rate and whether it was acknowledged.  Acknowledgements themselves are the medium's:
mac80211 has no such frames.  Loop and requests are those of `emulation.radio.service`.

All that is due for the kernel at one moment goes in one datagram: a system call per receiver would
cost more than the medium.  The kernel answers only what it refuses, a frame to a radio that is
down, for example.  What its socket could not hold is counted as `tap_drops`, for nobody knows whose
it was.

Frames on another channel than the scenario's go nowhere and are not acknowledged.  CONFIG.json is
a `TapConfig` without access points.

Departures from reality: a receiver is told the rate of a frame's first try, also where a later one
arrived; unicasts without acknowledgement (a QoS policy that nothing here uses) are acknowledged;
retries do not have the retry bit, as duplicates never reach the kernel.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from select import EPOLLIN
from typing import Any, Final, NamedTuple

from emulation.radio.addressing import octets
from emulation.radio.airtime import FCS, Rate
from emulation.radio.device import DeviceError
from emulation.radio.hwsim_wire import (
    FRAME,
    Heard,
    Sent,
    Step,
    decode_frame,
    encode_status,
    steps_of,
)
from emulation.radio.ieee80211 import is_group, received_index, receiver_of, tries_of
from emulation.radio.medium import BROADCAST, NOBODY, Delivery, Medium, Status
from emulation.radio.netlink_wire import NLMSG_ERROR, NetlinkError, command_of, messages
from emulation.radio.service import MediumService, serve
from emulation.radio.tap_config import TapConfig
from emulation.radio.wifi import DATAGRAM, Radios

BATCH: Final = 16
"""Frames read in a row, before what fell due meanwhile has its turn."""


class _Rates(NamedTuple):
    """What a series of rates means: as the kernel had it, try by try, and for receivers."""

    steps: tuple[Step, ...]
    tries: tuple[Rate, ...]
    received: int


class _Air(NamedTuple):
    """The one channel."""

    name: str
    medium: Medium
    interfaces: list[str]
    lost: Counter[str]


class HwsimMedium(MediumService[_Air]):
    """The radios and the channel.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        if config.access_points:
            raise DeviceError(
                "the hwsim backend has ad hoc stations only: run mesh access points on tap"
            )
        self._macs = [octets(station.mac) for station in config.stations]
        self._by_mac = {mac: number for number, mac in enumerate(self._macs)}
        self._frequency = round(config.radio.frequency_mhz)
        self._rates: dict[tuple[bytes, bytes], _Rates] = {}
        self._outbox: list[bytes] = []
        self._overruns = 0
        self._refused = 0
        self._malformed = 0
        self._radios: Radios | None = None
        super().__init__(config)

    def open(self) -> None:
        """Make the radios; all that they send waits in the socket for the loop."""
        config = self.config
        radios = self._radios = Radios()
        self._family = radios.family
        for number, each in enumerate(config.stations):
            radios.add(number, each.pid, each.interface, each.mac, config.radio)
        medium = Medium(config.radio, self.stations, self.rng("medium"), self._sent)
        interfaces = [each.interface for each in config.stations]
        self._air = _Air("", medium, interfaces, Counter())
        self.channels.append(self._air)
        self._socket = radios.frames.socket
        self._socket.setblocking(False)
        self.epoll.register(self._socket.fileno(), EPOLLIN)

    def close_devices(self) -> None:
        """Remove the radios."""
        if self._radios is not None:
            self._radios.close()

    # From the kernel.

    def receive(self, fd: int, events: int) -> None:
        """Take some of the frames that wait."""
        for _ in range(BATCH):
            try:
                datagram = self._socket.recv(DATAGRAM)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS: the buffer was full, frames are lost
                self._overruns += 1
                continue
            try:
                self._take(datagram)
            except NetlinkError as error:
                self._malformed += 1
                if self._malformed == 1:
                    print(f"mac80211_hwsim sent {error}", file=sys.stderr, flush=True)

    def _take(self, datagram: bytes) -> None:
        for message in messages(datagram):
            if message.type == self._family:
                if command_of(datagram, message) != FRAME:
                    continue  # newer kernels also tell of addresses that come and go
                self._transmit(decode_frame(datagram, message))
            elif message.type == NLMSG_ERROR:
                self._refused += 1

    def _transmit(self, sent: Sent) -> None:
        source = self._by_mac.get(sent.transmitter)
        if source is None or sent.frequency_mhz != self._frequency:
            self._air.lost["on another channel" if source is not None else "of no station"] += 1
            self._report(sent, 0, None)
            return
        address = receiver_of(sent.frame)
        destination = BROADCAST if is_group(address) else self._by_mac.get(address, NOBODY)
        tries = self._rates_of(sent).tries
        size = len(sent.frame) + FCS
        now = time.monotonic()
        if not self._air.medium.transmit(now, source, destination, size, sent, tries):
            self._report(sent, 0, None)

    def _rates_of(self, sent: Sent) -> _Rates:
        known = self._rates.get(sent.steps)
        if known is None:
            steps = steps_of(sent.steps)
            tries = tries_of(steps, self._frequency)
            known = _Rates(steps, tries, received_index(tries[0], self._frequency))
            self._rates[sent.steps] = known
        return known

    # To the kernel.

    def hand_over(self, channel: _Air, delivery: Delivery) -> None:
        """Give a frame to the radios that received it."""
        sent: Sent = delivery.frame
        heard = Heard(self._family, sent.frame, sent.frequency_mhz)
        rate = self._rates_of(sent).received
        level = channel.medium.table.signal_dbm
        self._outbox += [
            heard.to(self._macs[receiver], rate, round(level(delivery.source, receiver)))
            for receiver in delivery.receivers
        ]

    def _sent(self, status: Status) -> bool:
        """Tell a radio what became of its frame."""
        signal = None
        if status.acknowledged:
            level = self._air.medium.table.signal_dbm(status.destination, status.source)
            signal = round(level)
        self._report(status.frame, status.attempts, signal)
        return False

    def _report(self, sent: Sent, attempts: int, acknowledged_dbm: int | None) -> None:
        steps = self._rates_of(sent).steps
        self._outbox.append(encode_status(self._family, sent, steps, attempts, acknowledged_dbm))

    def catch_up(self, now: float) -> None:
        """Let time pass, and tell the kernel all that came of it."""
        super().catch_up(now)
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            try:
                self._socket.send(b"".join(outbox))
            except OSError:
                self.write_drops += len(outbox)

    def own_statistics(self) -> dict[str, Any]:
        """Return `tap_drops` and `refused`.

        The first has how often frames were sent faster than the medium read them, the second
        counts messages that the kernel did not want.
        """
        return {
            "tap_drops": {"mac80211_hwsim": self._overruns},
            "refused": self._refused,
            "malformed": self._malformed,
        }


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.radio.hwsim", HwsimMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
