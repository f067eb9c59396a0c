"""Which radio a frame is for on a channel, and which of its receivers pass it on.

The medium knows radios by index; a network stack knows Ethernet addresses.  There are three ways
to map one to the other, all without I/O:

*Ad hoc.*  Every radio belongs to a station; a group address is a broadcast, any other address is
the radio that has it.

*Infrastructure* (IEEE 802.11-2016, 4.5.3).  A station sends every frame to its access point,
whatever its Ethernet destination (To DS), which acknowledges it; it accepts frames from its own
access point only, as told by the BSSID.  An access point broadcasts frames to group addresses and
sends others to the station with that address, or in front of it, if it is associated with it.
Whether it relays from station to station itself is up to the network (`emulation.wifi.network`);
with `InfrastructureAddressing` it never does, like hostapd with ap_isolate=1: everything goes
through the bridge behind it, and all access points share the channel.

*Mesh* (IEEE 802.11-2016, 14.11).  Frames go one hop.  A group address is a broadcast to the
neighbours; any other address is that of a host behind one of the mesh radios, which proxies for it.

Departure from the standard: all frames have the size of three-address frames, without the 6-byte
mesh header and the additional addresses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from emulation.radio.mac import is_group
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import UnitDisk
from emulation.wifi.association import Associations

FARTHER_DB: Final = 1e-3
"""Decibels per metre by which access points in a unit disk differ: too little to affect
reception."""


class Addressing(Protocol):
    """One of the three ways; `lost` counts by reason the frames that could not be sent on."""

    lost: Counter[str]

    def destination(self, source: int, address: bytes) -> int | None:
        """Return the radio to which `source` sends a frame for `address`; None if to none."""

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return which of the radios that received a frame pass it on to their stacks."""


class AdHocAddressing:
    """Stations with the Ethernet addresses `addresses`, in the order of their radios."""

    def __init__(self, addresses: Sequence[bytes]) -> None:
        self.lost: Counter[str] = Counter()
        self._radios = _numbered(addresses)

    def destination(self, source: int, address: bytes) -> int | None:
        """Return the radio with the address, `BROADCAST`, or `NOBODY`: such frames are sent too."""
        return BROADCAST if address[0] & 1 else self._radios.get(address, NOBODY)

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        return receivers


class Infrastructure:
    """How stations and access points forward frames; radios by index.

    `stations` are the indices of stations by address, `point_of` returns a station's access point.
    """

    def __init__(
        self, stations: Mapping[bytes, int], point_of: Callable[[int], int | None]
    ) -> None:
        self.lost: Counter[str] = Counter()
        self._stations = stations
        self._point_of = point_of
        self._behind: dict[tuple[int, bytes], int] = {}
        """Access point and address: the four-address station that the address is behind."""

    def learn(self, point: int, address: bytes, station: int) -> None:
        """Note that an address is behind a station of an access point."""
        self._behind[point, address] = station

    def station_at(self, point: int, address: bytes) -> int | None:
        """Return the station of an access point that has an address or is in front of it."""
        for station in (self._stations.get(address), self._behind.get((point, address))):
            if station is not None and self._point_of(station) == point:
                return station
        return None

    def from_station(self, station: int) -> int | None:
        """Return where a station sends a frame: to its access point."""
        point = self._point_of(station)
        if point is None:
            self.lost["sent while not associated"] += 1
        return point

    def from_point(self, point: int, address: bytes) -> int | None:
        """Return where an access point sends a frame: to a station of its own, or to all."""
        if is_group(address):
            return BROADCAST
        station = self.station_at(point, address)
        if station is None:
            self.lost["to stations not associated here"] += 1
        return station

    def accepted_by_point(self, station: int, receivers: list[int]) -> list[int]:
        """Return the access point of a station that sent a frame, if it is among the receivers."""
        return self._counted(
            receivers, [receiver for receiver in receivers if receiver == self._point_of(station)]
        )

    def accepted_by_stations(self, point: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return which receivers of a frame are stations of the access point that sent it.

        Others hear its broadcasts but ignore them.
        """
        kept = [receiver for receiver in receivers if self._point_of(receiver) == point]
        return kept if is_group(address) else self._counted(receivers, kept)

    def _counted(self, receivers: list[int], kept: list[int]) -> list[int]:
        if len(kept) < len(receivers):
            self.lost["under way at a handover"] += len(receivers) - len(kept)
        return kept


class InfrastructureAddressing(Infrastructure):
    """Radios of stations first, with the addresses `stations`, then those of the access points."""

    def __init__(self, stations: Sequence[bytes], associations: Associations) -> None:
        super().__init__(_numbered(stations), associations.of)
        self._count = len(stations)

    def destination(self, source: int, address: bytes) -> int | None:
        """Return a station's access point; an access point's station, or all of them."""
        if source < self._count:
            return self.from_station(source)
        return self.from_point(source, address)

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return the receivers associated with the sender, or it with them."""
        if source < self._count:
            return self.accepted_by_point(source, receivers)
        return self.accepted_by_stations(source, address, receivers)


class MeshAddressing:
    """Mesh radios; `hosts` has the Ethernet address of the host behind each of them."""

    def __init__(self, hosts: Sequence[bytes]) -> None:
        self.lost: Counter[str] = Counter()
        self._radios = _numbered(hosts)

    def destination(self, source: int, address: bytes) -> int | None:
        """Return the radio in front of a host, or all."""
        if is_group(address):
            return BROADCAST
        radio = self._radios.get(address, source)
        if radio == source:
            self.lost["to no host of the mesh"] += 1
            return None
        return radio

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        return receivers


def _numbered(addresses: Sequence[bytes]) -> Mapping[bytes, int]:
    return {address: number for number, address in enumerate(addresses)}


def access_levels(medium: Medium, stations: int) -> list[dict[int, float]]:
    """Return, for each station, the SNR, decibels, of each access point that it can decode.

    The first `stations` radios of the medium are stations, the others access points.  In a unit
    disk all SNRs are the same; there they fall slightly with distance, so that the nearest access
    point is the best.
    """
    table = medium.table
    if isinstance(medium.radio.propagation, UnitDisk):
        return [_tilted(medium, station, stations) for station in range(stations)]
    return [
        {}
        if station in table.down
        else {radio: snr for radio, snr in table.row(station).snr_db.items() if radio >= stations}
        for station in range(stations)
    ]


def _tilted(medium: Medium, station: int, stations: int) -> dict[int, float]:
    table = medium.table
    if station in table.down:
        return {}
    here = table.position(station)
    return {
        radio: snr - FARTHER_DB * math.dist(here, table.position(radio))
        for radio, snr in table.row(station).snr_db.items()
        if radio >= stations
    }
