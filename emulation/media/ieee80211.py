"""The parts of 802.11 headers that the medium needs (IEEE 802.11-2016, 9.2, 9.3), rates by index.

A frame begins with frame control (2 bytes: version, type, subtype; flags), duration (2) and the
receiver address (6); all but a few control frames have the transmitter address next.

The kernel's 802.11 stack manages associations itself; `AssociationObserver` reads them off the air.
An access point's response that accepts a station (status 0) begins an association, and ends one
with another access point; a disassociation or deauthentication by either side ends it (9.3.3 and
11.3).  A station that lost its access point without such a frame still counts as associated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulation.media.hwsim_wire import RateStep
from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES, Rate

MANAGEMENT, CONTROL, DATA, EXTENSION = range(4)
ASSOCIATION_RESPONSE, REASSOCIATION_RESPONSE = 1, 3
DISASSOCIATION, DEAUTHENTICATION = 10, 12
"""Subtypes of management frames: those that begin and end an association."""
RATES: Final = (*DSSS_RATES, *OFDM_RATES)
"""mac80211_hwsim's rates at 2.4 GHz, in its order; higher bands lack the first four."""
MCS: Final = 0x08
"""Flag of a rate: the index is an HT MCS."""
MAX_TRIES: Final = 64
"""Most tries of one frame, over all its rates: mac80211 wants some 30."""
_ANSWERS: Final = (ASSOCIATION_RESPONSE, REASSOCIATION_RESPONSE)
_ENDS: Final = (DISASSOCIATION, DEAUTHENTICATION)
_STATUS: Final = slice(26, 28)
"""After the header and the capabilities: 0 if the station is accepted."""
_ACCEPTED: Final = b"\0\0"


def type_of(frame: bytes) -> int:
    """Return the type: `MANAGEMENT`, `CONTROL`, `DATA` or `EXTENSION`."""
    return (frame[0] >> 2) & 3


def subtype_of(frame: bytes) -> int:
    """Return the subtype, whose meaning depends on the type."""
    return frame[0] >> 4


def receiver_of(frame: bytes) -> bytes:
    """Return the receiver address: the next hop, not the destination."""
    return frame[4:10]


def rate_of(step: RateStep, frequency_mhz: float) -> Rate:
    """Return the rate that a step means; the slowest of its kind if the index is too high."""
    if step.flags & MCS:
        return HT_RATES[step.rate] if step.rate < len(HT_RATES) else HT_RATES[0]
    rates: Sequence[Rate] = RATES if frequency_mhz < 4000 else OFDM_RATES
    return rates[step.rate] if step.rate < len(rates) else rates[0]


def tries_of(steps: tuple[RateStep, ...], frequency_mhz: float) -> tuple[Rate, ...]:
    """Return the rate of every try of a frame, in order: at least one, at most `MAX_TRIES`."""
    tries = [rate_of(step, frequency_mhz) for step in steps for _ in range(step.tries)]
    if not tries:
        slowest = RateStep(0, 1, 0)
        tries = [rate_of(steps[0] if steps else slowest, frequency_mhz)]
    return tuple(tries[:MAX_TRIES])


def received_index(rate: Rate, frequency_mhz: float) -> int:
    """Return the index of a rate as reported to a receiver, which has no way to report an MCS.

    An HT rate becomes the fastest OFDM rate that is not above it.
    """
    rates: Sequence[Rate] = RATES if frequency_mhz < 4000 else OFDM_RATES
    if rate in rates:
        return rates.index(rate)
    slower = [index for index, candidate in enumerate(rates) if candidate.mbps <= rate.mbps]
    return slower[-1] if slower else 0


class AssociationObserver:
    """Sees frames between stations and access points, both by their addresses."""

    def __init__(self, stations: Sequence[bytes], points: Sequence[bytes]) -> None:
        self.handovers = 0
        """Changes from one access point to another."""
        self._stations = {mac: number for number, mac in enumerate(stations)}
        self._points = {mac: number for number, mac in enumerate(points)}
        self._last: list[int | None] = [None] * len(stations)
        self._current: list[int | None] = [None] * len(stations)

    def of(self, station: int) -> int | None:
        """Return a station's access point."""
        return self._current[station]

    def see(self, frame: bytes) -> None:
        """Update the associations from a received frame."""
        if type_of(frame) != MANAGEMENT:
            return
        subtype = subtype_of(frame)
        to, by = receiver_of(frame), frame[10:16]
        if subtype in _ANSWERS:
            station, point = self._stations.get(to), self._points.get(by)
            if station is None or point is None or frame[_STATUS] != _ACCEPTED:
                return
            self.handovers += self._last[station] not in (None, point)
            self._current[station] = self._last[station] = point
        elif subtype in _ENDS:
            for station_mac, point_mac in ((to, by), (by, to)):
                ended = self._stations.get(station_mac)
                point = self._points.get(point_mac)
                if ended is not None and point is not None and self._current[ended] == point:
                    self._current[ended] = None
