"""The medium of mac80211_hwsim radios: a `Medium` instead of wmediumd.

    python -m emulation.media.hwsim CONFIG.json

Theory of operation.  The process makes a radio in every station's namespace and registers on the
netlink family of mac80211_hwsim (`emulation.media.hwsim_radios`).  The kernel's 802.11 stack then
gives it every frame that a radio sends, beacons and other management frames included, with the
rates that its rate control wants tried.  The frame is transmitted on the medium at those rates; it
goes to the radios that receive it with the signal level of the link, and its sender learns how
often it was sent at which rate and whether it was acknowledged.  Acknowledgements themselves are
the medium's: mac80211 has no such frames.  Loop and requests are those of
`emulation.media.scenario`.

Everything that is due for the kernel at one moment goes in one datagram: a system call per receiver
would cost more than the medium.  The kernel answers only messages that it refuses, for example a
frame to a radio that is down.  Frames that its socket could not hold are counted as `tap_drops` of
all radios together, since their senders are unknown.

With access points there are two channels, which do not disturb each other: one of stations and
access radios, whose interfaces wait for wpa_supplicant and hostapd, and one of mesh radios, which
join an 802.11s mesh.  Associations are read off the air (`emulation.media.ieee80211`).

Frames on a frequency other than their channel's reach nobody and are not acknowledged.  CONFIG.json
is a `TapConfig`.  Further requests:

    associate, settle           do nothing: stations decide for themselves

Departures from reality: a receiver is told the rate of a frame's first try, even if a later one
arrived; unicasts without acknowledgement (a QoS policy that nothing here uses) are acknowledged;
retries lack the retry bit, as duplicates never reach the kernel.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from select import EPOLLIN
from typing import Any, Final, NamedTuple

from emulation.media.config import Port, TapConfig
from emulation.media.hwsim_radios import DATAGRAM, Radios
from emulation.media.hwsim_wire import (
    FRAME,
    HeardFrame,
    RateStep,
    Sent,
    decode_frame,
    encode_status,
    steps_of,
)
from emulation.media.ieee80211 import AssociationObserver, received_index, receiver_of, tries_of
from emulation.media.netlink_wire import NLMSG_ERROR, NetlinkError, command_of, messages
from emulation.media.nl80211_wire import Mode
from emulation.media.scenario import ScenarioMedium
from emulation.media.service import serve
from emulation.radio.airtime import FCS, Rate
from emulation.radio.delivery import Delivery, Status
from emulation.radio.mac import is_group, octets
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import RadioSpec

BATCH: Final = 16
"""Frames read in a row, before anything that has fallen due gets its turn."""


class _Rates(NamedTuple):
    """A series of rates: as the kernel gave it, try by try, and as reported to receivers."""

    steps: tuple[RateStep, ...]
    tries: tuple[Rate, ...]
    received: int


class _Radio(NamedTuple):
    """A radio to create."""

    pid: int
    interface: str
    mac: str
    mode: Mode


class _Air:
    """A channel: its medium, and the addresses of its radios."""

    def __init__(self, name: str, radios: Sequence[_Radio], spec: RadioSpec) -> None:
        self.name = name
        self.medium: Medium
        self.lost: Counter[str] = Counter()
        self.frequency = round(spec.frequency_mhz)
        self.macs = [octets(radio.mac) for radio in radios]
        self.by_mac = {mac: number for number, mac in enumerate(self.macs)}
        self.observer: AssociationObserver | None = None


def _of(port: Port) -> tuple[str, str]:
    return port.interface, port.mac


class HwsimMedium(ScenarioMedium[_Air]):
    """The radios and the channel.  Raises `DeviceError` and `ControlError`."""

    def __init__(self, config: TapConfig) -> None:
        self._air_of: dict[bytes, _Air] = {}
        self._observer: AssociationObserver | None = None
        self._rates: dict[tuple[bytes, bytes], _Rates] = {}
        self._outbox: list[bytes] = []
        self._overruns = 0
        self._refused = 0
        self._malformed = 0
        self._radios: Radios | None = None
        super().__init__(config)

    def open(self) -> None:
        radios = self._radios = Radios()
        self._family = radios.family
        config, points = self.config, self.config.access_points
        mode: Mode = "managed" if points else config.radio.mode
        stations = [_Radio(sta.pid, sta.interface, sta.mac, mode) for sta in config.stations]
        if config.mesh_radio is None:
            self._open(radios, "", "medium", stations, config.radio)
        else:
            access = [_Radio(point.pid, *_of(point.access), "managed") for point in points]
            mesh = [_Radio(point.pid, *_of(point.mesh), "mesh") for point in points]
            self._open(radios, "access", "medium", stations + access, config.radio)
            self._open(radios, "mesh", "mesh medium", mesh, config.mesh_radio)
            macs = self.channels[0].macs
            self._observer = AssociationObserver(macs[: self.stations], macs[self.stations :])
            self.channels[0].observer = self._observer
        self._socket = radios.frames.socket
        self._socket.setblocking(False)
        self.epoll.register(self._socket.fileno(), EPOLLIN)

    def _open(
        self, radios: Radios, name: str, purpose: str, pending: Sequence[_Radio], spec: RadioSpec
    ) -> None:
        """Create a channel and its radios."""
        air = _Air(name, pending, spec)
        air.medium = Medium(spec, len(pending), self.rng(purpose), partial(self._sent, air))
        for new, mac in zip(pending, air.macs, strict=True):
            radios.add(len(self._air_of), new.pid, new.interface, new.mac, spec, new.mode)
            self._air_of[mac] = air
        self.channels.append(air)

    def close_devices(self) -> None:
        if self._radios is not None:
            self._radios.close()

    # From the kernel.

    def receive(self, fd: int, events: int) -> None:
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
                    continue  # newer kernels also report addresses that come and go
                self._transmit(decode_frame(datagram, message))
            elif message.type == NLMSG_ERROR:
                self._refused += 1

    def _transmit(self, sent: Sent) -> None:
        air = self._air_of.get(sent.transmitter)
        if air is None or sent.frequency_mhz != air.frequency:
            lost = self.channels[0].lost if air is None else air.lost
            lost["of no station" if air is None else "on another channel"] += 1
            self._report(sent, 0, None)
            return
        source = air.by_mac[sent.transmitter]
        address = receiver_of(sent.frame)
        destination = BROADCAST if is_group(address) else air.by_mac.get(address, NOBODY)
        tries = self._rates_of(sent).tries
        size = len(sent.frame) + FCS
        now = time.monotonic()
        if not air.medium.transmit(now, source, destination, size, sent, tries):
            self._report(sent, 0, None)

    def _rates_of(self, sent: Sent) -> _Rates:
        known = self._rates.get(sent.steps)
        if known is None:
            steps = steps_of(sent.steps)
            tries = tries_of(steps, sent.frequency_mhz)
            known = _Rates(steps, tries, received_index(tries[0], sent.frequency_mhz))
            self._rates[sent.steps] = known
        return known

    # To the kernel.

    def hand_over(self, channel: _Air, delivery: Delivery) -> None:
        sent: Sent = delivery.frame
        heard = HeardFrame(self._family, sent.frame, sent.frequency_mhz)
        rate = self._rates_of(sent).received
        level = channel.medium.table.signal_dbm
        if channel.observer is not None:
            channel.observer.see(sent.frame)
        self._outbox += [
            heard.to(channel.macs[receiver], rate, round(level(delivery.source, receiver)))
            for receiver in delivery.receivers
        ]

    def _sent(self, air: _Air, status: Status) -> bool:
        """Report to a radio whether its frame was acknowledged."""
        signal = None
        if status.acknowledged:
            level = air.medium.table.signal_dbm(status.destination, status.source)
            signal = round(level)
        self._report(status.frame, status.attempts, signal)
        return False

    def _report(self, sent: Sent, attempts: int, acknowledged_dbm: int | None) -> None:
        steps = self._rates_of(sent).steps
        self._outbox.append(encode_status(self._family, sent, steps, attempts, acknowledged_dbm))

    def catch_up(self, now: float) -> None:
        super().catch_up(now)
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            try:
                self._socket.send(b"".join(outbox))
            except OSError:
                self.write_drops += len(outbox)

    def access_point(self, station: int) -> int | None:
        if self._observer is None:
            return super().access_point(station)
        point = self._observer.of(station)
        return None if point is None else self.stations + point

    def own_answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Do nothing about associations: stations decide for themselves."""
        if self._observer is None or request["op"] not in ("associate", "settle"):
            return super().own_answer(request, now)
        return {}

    def own_statistics(self) -> dict[str, Any]:
        """Return `refused` and `malformed` as well.

        They count messages that the kernel refused, and malformed messages from it.
        """
        return super().own_statistics() | {
            "handovers": 0 if self._observer is None else self._observer.handovers,
            "tap_drops": {"mac80211_hwsim": self._overruns},
            "refused": self._refused,
            "malformed": self._malformed,
        }


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.media.hwsim", TapConfig, HwsimMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
