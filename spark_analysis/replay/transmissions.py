"""Frames on the air, reconstructed from the rows of captures.

A transmission is a frame of one sender and all who received it.  In the captures it is the sender's
own row (the address of its IPv4 source is the sender's) and the rows of receivers after it.  Behind
access points a frame goes on without a new IPv4 source: then the captures in which it shows up one
after the other are its hops.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from emulation.scenario.runfolder import Run
from nodeapp.addressing import NETWORK
from nodeapp.wire import BROADCAST

SILENCE: Final = 2.5
"""Intervals between beacons, without one, after which a link counts as gone."""
UNBEACONED: Final = 3.0
"""The same for protocols without beacons: seconds without any frame."""
_LIMITED_BROADCAST: Final = 0xFFFFFFFF

Ints = npt.NDArray[np.int64]


@dataclass
class ReplayedTransmission:
    """A frame on the air; nodes are indices, times ns since time 0."""

    event: int
    """Index of the event."""
    sent: int
    sender: int
    hops: int
    arrived: int
    receivers: list[int] = field(default_factory=list)


class NodeIndices:
    """Indices of nodes by name and by address; an access point is at its broker's."""

    def __init__(self, run: Run) -> None:
        nodes = run.scenario.nodes
        self.by_name = {node.name: index for index, node in enumerate(nodes)}
        by_id = {node.id: index for index, node in enumerate(nodes)}
        for point in run.scenario.access_points:
            self.by_name[point.name] = by_id[point.broker]
        addresses = [int(ipaddress.IPv4Address(node.address)) for node in nodes]
        order = np.argsort(addresses)
        self._order = order.astype(np.int64)
        self._addresses = np.array(addresses, np.int64)[order]

    def of_addresses(self, addresses: Ints) -> Ints:
        """Return the indices of nodes, -1 for other addresses."""
        at = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        return np.where(self._addresses[at] == addresses, self._order[at], -1)

    def of_ids(self, ids: Ints) -> Ints:
        """Return the indices of nodes, -1 for other ids."""
        return self.of_addresses(ids + int(NETWORK.network_address))


def transmissions(
    rows: Iterable[tuple[int, int, int, int, int, int, int]], *, through: bool
) -> Iterator[ReplayedTransmission]:
    """Yield the transmissions behind sorted rows of captures.

    A row is (event, sender, IPv4 destination, hops, final destination, time, node of the capture).
    `through`: access points pass frames on under the address of their source.
    """
    before: tuple[int, ...] | None = None
    current: ReplayedTransmission | None = None
    for row in rows:
        event, source, to, hop, _, time, node = row
        if row[:5] != before or node == source or current is None:
            if current is not None and current.receivers:
                yield current
            before = row[:5]
            current = ReplayedTransmission(event, time, source, hop, time)
            if node == source:
                continue
        unicast = to not in (_LIMITED_BROADCAST, BROADCAST) and to & 0xFFFFFF != 0xFFFFFF
        if through and unicast and current.receivers and node != current.receivers[-1]:
            yield current
            current = ReplayedTransmission(event, current.arrived, current.receivers[-1], hop, time)
        if node not in current.receivers and node != current.sender:
            if not current.receivers:
                current.arrived = time
            current.receivers.append(node)
    if current is not None and current.receivers:
        yield current


class LastHeard:
    """Which access point each station was heard by last."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}

    def heard(self, time: float, station: int, point: int) -> tuple[float, int, int, int] | None:
        """Note that a point received a frame; return time, station, old and new if it changed.

        Called in order of time.
        """
        old = self._at.get(station)
        self._at[station] = point
        return None if old is None or old == point else (time, station, old, point)


def beacon_window(run: Run) -> float:
    """Return for how many seconds a received frame keeps a link up."""
    parameters: dict[str, Any] = dict(run.scenario.protocol.parameters)
    value = parameters.get("hello_interval")
    if isinstance(value, int | float) and value > 0:
        return SILENCE * float(value)
    return UNBEACONED
