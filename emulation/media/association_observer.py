"""Which station is associated with which access point, from the frames on the air.

The kernel's 802.11 stack manages associations itself.  An access point's response that accepts a
station (status 0) begins an association, and ends one with another access point; a disassociation
or deauthentication by either side ends it (IEEE 802.11-2016, 9.3.3 and 11.3).  A station that lost
its access point without such a frame still counts as associated with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulation.media.ieee80211 import (
    ASSOCIATION_RESPONSE,
    DEAUTHENTICATION,
    DISASSOCIATION,
    MANAGEMENT,
    REASSOCIATION_RESPONSE,
    receiver_of,
    subtype_of,
    type_of,
)

_ANSWERS: Final = (ASSOCIATION_RESPONSE, REASSOCIATION_RESPONSE)
_ENDS: Final = (DISASSOCIATION, DEAUTHENTICATION)
_STATUS: Final = slice(26, 28)
"""After the header and the capabilities: 0 if the station is accepted."""
_ACCEPTED: Final = b"\0\0"


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
