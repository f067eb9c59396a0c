"""Whom a frame is for on a channel, and which of those that received it pass it on.

The medium knows radios by index; a network stack knows Ethernet addresses.  There are three ways
to map one to the other, all without I/O:

*Ad hoc.*  Every radio belongs to a station; a group address is a broadcast, any other address is
the radio that has it.

*Infrastructure* (IEEE 802.11-2016, 4.5.3).  A station sends every frame to its access point,
whatever its Ethernet destination (To DS), which acknowledges it; it accepts frames from its own
access point only, as told by the BSSID.  An access point broadcasts frames to group addresses and
sends others to the station with that address, if it is associated with it.  It never relays from
station to station itself, like hostapd with ap_isolate=1: everything goes through the bridge behind
it.  All access points share the channel.

*Mesh* (IEEE 802.11-2016, 14.11).  Frames go one hop.  A group address is a broadcast to the
neighbours; any other address is that of a host behind one of the mesh radios, which proxies for it.

Departure from the standard: all frames have the size of three-address frames, without the 6-byte
mesh header and the additional addresses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from emulation.radio.association import Associations
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import UnitDisk

FARTHER_DB: Final = 1e-3
"""Decibels a metre by which access points in a unit disk differ: too little to change what
arrives."""


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
        """Return the radio with the address, `BROADCAST` or `NOBODY`, which is sent as well."""
        return BROADCAST if address[0] & 1 else self._radios.get(address, NOBODY)

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return all."""
        return receivers


class InfrastructureAddressing:
    """Radios of stations first, with the addresses `stations`, then those of the access points."""

    def __init__(self, stations: Sequence[bytes], associations: Associations) -> None:
        self.lost: Counter[str] = Counter()
        self._count = len(stations)
        self._radios = _numbered(stations)
        self._associations = associations

    def destination(self, source: int, address: bytes) -> int | None:
        """Return a station's access point; an access point's station, or all of them."""
        if source < self._count:
            point = self._associations.of(source)
            if point is None:
                self.lost["sent while not associated"] += 1
                return None
            return self._count + point
        if address[0] & 1:
            return BROADCAST
        station = self._radios.get(address)
        if station is None or self._associations.of(station) != source - self._count:
            self.lost["to stations not associated here"] += 1
            return None
        return station

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return those that are associated with the sender, or it with them."""
        count, of = self._count, self._associations.of
        if source < count:
            kept = [each for each in receivers if of(source) == each - count]
        else:
            kept = [each for each in receivers if each < count and of(each) == source - count]
            if address[0] & 1:
                return kept  # a broadcast: the others hear it and ignore it
        if len(kept) < len(receivers):
            self.lost["under way at a handover"] += len(receivers) - len(kept)
        return kept


class MeshAddressing:
    """Mesh radios; `hosts` has the Ethernet address of the host behind each of them."""

    def __init__(self, hosts: Sequence[bytes]) -> None:
        self.lost: Counter[str] = Counter()
        self._radios = _numbered(hosts)

    def destination(self, source: int, address: bytes) -> int | None:
        """Return the radio in front of a host, or all."""
        if address[0] & 1:
            return BROADCAST
        radio = self._radios.get(address, source)
        if radio == source:
            self.lost["to no host of the mesh"] += 1
            return None
        return radio

    def accepted(self, source: int, address: bytes, receivers: list[int]) -> list[int]:
        """Return all."""
        return receivers


def _numbered(addresses: Sequence[bytes]) -> Mapping[bytes, int]:
    return {address: number for number, address in enumerate(addresses)}


def access_levels(medium: Medium, stations: int) -> list[dict[int, float]]:
    """Return by station the SNR, decibels, of each access point that it can decode.

    The first `stations` radios of the medium are stations, the others access points.  In a unit
    disk all SNRs are the same; there they are a little less the farther an access point is, so that
    the nearest one is the best.
    """
    table = medium.table
    if isinstance(medium.radio.propagation, UnitDisk):
        return [_tilted(medium, station, stations) for station in range(stations)]
    return [
        {}
        if station in table.down
        else {
            radio - stations: snr
            for radio, snr in table.row(station).snr_db.items()
            if radio >= stations
        }
        for station in range(stations)
    ]


def _tilted(medium: Medium, station: int, stations: int) -> dict[int, float]:
    table = medium.table
    if station in table.down:
        return {}
    here = table.position(station)
    return {
        radio - stations: snr - FARTHER_DB * math.dist(here, table.position(radio))
        for radio, snr in table.row(station).snr_db.items()
        if radio >= stations
    }
