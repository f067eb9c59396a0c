"""The network of a scenario with access points: two media, and who is associated with whom.

Stations and access radios share one channel and mesh radios another, and the two do not disturb
each other.  The bridges that connect them, one per access point, are not modelled here.  On the
access channel the radios of the stations come first, then those of the access points; the mesh has
one radio per access point.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from emulation.radio.energy import metered
from emulation.radio.faults import RadioFaults
from emulation.radio.losses import LossCause
from emulation.radio.medium import NOBODY, Medium
from emulation.radio.spec import RadioSpec
from emulation.scenario.access_point import MESH_CHANNEL
from emulation.wifi.addressing import (
    Addressing,
    InfrastructureAddressing,
    MeshAddressing,
    access_levels,
)
from emulation.wifi.association import Associations, Change


class RadioChannel:
    """A medium, its name if there are several, and its addressing."""

    def __init__(self, name: str, radio: RadioSpec, medium: Medium, addressing: Addressing) -> None:
        self.name = name
        self.medium = medium
        self.accepted = addressing.accepted
        self._destination = addressing.destination
        self._addressing = addressing
        self._routing_first = radio.queue_order == "routing-first"

    @property
    def lost(self) -> Counter[str]:
        """Frames that could not be sent on, by reason."""
        return self._addressing.lost

    def send(
        self,
        now: float,
        source: int,
        address: bytes,
        size: int,
        frame: Any,
        is_routing: Callable[[Any], bool],
    ) -> None:
        """Send a frame of a radio to an address; routing messages may overtake the rest."""
        destination = self._destination(source, address)
        if destination is None:
            self.medium.losses.gone(now, source, frame, LossCause.UNREACHABLE, NOBODY)
        else:
            first = self._routing_first and is_routing(frame)
            self.medium.transmit(now, source, destination, size, frame, first=first)


class Cells:
    """The two channels.

    `stations` are the stations' addresses, `hosts` those of the hosts behind the access points;
    `rng(purpose)` makes generators.
    """

    def __init__(
        self,
        stations: Sequence[bytes],
        hosts: Sequence[bytes],
        radio: RadioSpec,
        mesh_radio: RadioSpec,
        hysteresis_db: float,
        rng: Callable[[str], random.Random],
    ) -> None:
        self.stations = len(stations)
        self._associations = Associations(hysteresis_db)
        self.access_point = self._associations.of
        """Returns the radio of a station's access point; None if it has none."""
        medium = Medium(radio, len(stations) + len(hosts), rng("medium"))
        infrastructure = InfrastructureAddressing(stations, self._associations)
        self.access = RadioChannel("access", radio, medium, infrastructure)
        medium = Medium(mesh_radio, len(hosts), rng("mesh medium"))
        self.mesh = RadioChannel(MESH_CHANNEL, mesh_radio, medium, MeshAddressing(hosts))

    def scan(self, now: float) -> list[Change]:
        """Let all stations choose an access point; return the changes."""
        return self._associations.scan(now, access_levels(self.access.medium, self.stations))


def faults_of(media: Sequence[Medium], names: Sequence[str], stations: int) -> RadioFaults:
    """Return the faults of the radios `names`: the stations', then the access points'.

    The first medium has all of them, a second one only those of access points.  The energy of the
    stations is counted if the radio's settings say so.
    """
    firsts = zip(media, (0, stations), strict=False)
    return RadioFaults(
        [(medium, {name: at for at, name in enumerate(names[first:])}) for medium, first in firsts],
        metered(media[0], stations) if media else None,
    )
