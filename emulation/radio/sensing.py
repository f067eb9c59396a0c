"""Carrier sense and backoff: which frames silence a station, and how far it has counted down.

The theory is that of `emulation.radio.medium`, which decides who contends and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from emulation.radio.air import Transmission
from emulation.radio.links import Links
from emulation.radio.station import FOREVER, RadioStation

NS: Final = 1e-9
"""Rounding of sums of times: two instants closer than this are one."""
HISTORY: Final = 0.02
"""Most seconds that a post-backoff lasts."""


class CarrierSense:
    """The frames that silence stations whose links are `table`; `draw()` is uniform in [0, 1)."""

    def __init__(self, table: Links, draw: Callable[[], float]) -> None:
        self.nav = [-FOREVER] * table.count
        """Until when each station is silenced by RTS and CTS that it has decoded."""
        self.frames = 0
        """How many frames have been on the air so far."""
        self._table = table
        self._phy = table.phy
        self._draw = draw
        self._silencing: dict[int, Transmission] = {}
        """Source: its last frame, as long as that may silence a station with a frame to send."""
        self._ended: deque[Transmission] = deque()
        """Those of them that have ended."""
        self._history: deque[Transmission] = deque()
        """The frames of the last `HISTORY` seconds, by start."""
        self._linger = self._phy.ifs
        """Seconds for which a frame can matter after its `reserved`."""

    def add(self, frame: Transmission) -> None:
        """Register a frame that starts."""
        self.frames = frame.number = self.frames + 1
        history = self._history
        history.append(frame)
        while history[0].start < frame.start - HISTORY:
            history.popleft()
        self._silencing[frame.source] = frame

    def end(self, frame: Transmission, now: float) -> None:
        """Register the end of a frame; forget those that no longer silence anybody."""
        ended = self._ended
        ended.append(frame)
        while ended[0].reserved + self._linger < now:
            old = ended.popleft()
            if self._silencing[old.source] is old:
                del self._silencing[old.source]

    def silent_until(self, index: int, before: float) -> float:
        """Return until when frames that started before `before` silence a station."""
        until = self.nav[index]
        if self._silencing:
            sense, silencing = self._table.row(index).hears, self._silencing
            if len(sense) < len(silencing):  # a large network
                silencing = {station: silencing[station] for station in silencing.keys() & sense}
            for source, frame in silencing.items():
                if source in sense and frame.start <= before and frame.reserved > until:
                    until = frame.reserved
        return until

    def draw_backoff(self, station: RadioStation, now: float) -> None:
        """Draw a backoff and start counting it down."""
        phy = self._phy
        station.slots = int(self._draw() * (station.window + 1))
        idle_from = station.idle_from = self.silent_until(station.index, now)
        idle_from += phy.ifs
        station.count_from = idle_from if idle_from > now else now
        station.access_at = station.count_from + station.slots * phy.slot

    def silence(
        self, frame: Transmission, contenders: set[int], stations: list[RadioStation]
    ) -> None:
        """Freeze the countdown of all contenders that sense a frame that starts."""
        for index in frame.row.sense & contenders:
            self.freeze(stations[index], frame)

    def freeze(self, station: RadioStation, frame: Transmission) -> None:
        """Stop a countdown until a frame that the station senses is over."""
        phy = self._phy
        if station.access_at < frame.start + phy.cca_time - NS:
            return  # it is over before the station can have sensed this frame
        counted = int((frame.start + NS - station.count_from) / phy.slot)
        if counted > 0:
            station.slots -= counted
        if frame.reserved > station.idle_from:
            station.idle_from = frame.reserved
        station.count_from = station.idle_from + phy.ifs
        station.access_at = station.count_from + station.slots * phy.slot

    def resume(self, station: RadioStation, now: float) -> bool:
        """Resume a countdown earlier, after a frame was cut short; return whether it changes."""
        until = max(self.silent_until(station.index, now), now)
        if until >= station.idle_from:
            return False
        station.idle_from = until
        station.count_from = until + self._phy.ifs
        station.access_at = station.count_from + station.slots * self._phy.slot
        return True

    def defer(self, station: RadioStation, now: float, until: float) -> None:
        """Stop a countdown from `now` on until a NAV ends."""
        phy = self._phy
        if station.access_at < now + NS:
            return
        counted = int((now + NS - station.count_from) / phy.slot)
        if counted > 0:
            station.slots -= counted
        if until > station.idle_from:
            station.idle_from = until
        station.count_from = station.idle_from + phy.ifs
        station.access_at = station.count_from + station.slots * phy.slot

    def free(self, index: int, source: int, now: float) -> bool:
        """Return whether a station may answer an RTS of `source`: nothing else silences it."""
        if self.nav[index] > now:
            return False
        sense = self._table.row(index).hears
        return not any(
            other in sense and other != source and frame.start <= now < frame.reserved
            for other, frame in self._silencing.items()
        )

    def still_counting(self, station: RadioStation, now: float) -> bool:
        """Return whether a post-backoff is still running, given the frames that froze it."""
        missed = []
        for frame in reversed(self._history):
            if frame.number <= station.since:
                break
            if station.index in frame.row.sense:
                missed.append(frame)
        for frame in reversed(missed):
            self.freeze(station, frame)
            if station.index in frame.deferring:
                self.defer(station, frame.end, frame.nav)
        station.post_backoff = -FOREVER
        return station.access_at > now


class DistantCarrierSense(CarrierSense):
    """Carrier sense far beyond reception (`RadioSpec.sense_range`).

    After a frame that is too weak to decode, a station waits EIFS: as long as an ACK at the basic
    rate would take, before it waits DIFS.
    """

    def __init__(self, table: Links, draw: Callable[[], float]) -> None:
        super().__init__(table, draw)
        phy = table.phy
        self._eifs = phy.sifs + phy.ack_duration(phy.basic_rate)
        self._linger += self._eifs

    def silent_until(self, index: int, before: float) -> float:
        until = self.nav[index]
        if self._silencing:
            row = self._table.row(index)
            sense, decoded, eifs = row.hears, row.snr_db, self._eifs
            for source, frame in self._silencing.items():
                if frame.start <= before and source in sense:
                    if frame.reserved > until:
                        until = frame.reserved
                    if frame.end + eifs > until and source not in decoded and source != index:
                        until = frame.end + eifs
        return until

    def silence(
        self, frame: Transmission, contenders: set[int], stations: list[RadioStation]
    ) -> None:
        # `freeze` inlined: a busy network spends most of its time here.
        phy, row, source = self._phy, frame.row, frame.source
        slot, ifs, decoded = phy.slot, phy.ifs, row.snr_db
        sensed = frame.start + phy.cca_time - NS
        begun = frame.start + NS
        reserved = undecoded = frame.reserved
        if frame.end + self._eifs > reserved:
            undecoded = frame.end + self._eifs
        for index in row.sense & contenders:
            station = stations[index]
            if station.access_at < sensed:
                continue
            until = reserved if index in decoded or index == source else undecoded
            if begun <= station.count_from:
                if station.idle_from >= until:
                    continue  # it is already silent for longer
            else:
                counted = int((begun - station.count_from) / slot)
                if counted > 0:
                    station.slots -= counted
            if station.idle_from > until:
                until = station.idle_from
            station.idle_from = until
            until += ifs
            station.count_from = until
            station.access_at = until + station.slots * slot

    def freeze(self, station: RadioStation, frame: Transmission) -> None:
        phy, start = self._phy, frame.start
        if station.access_at < start + phy.cca_time - NS:
            return
        counted = int((start + NS - station.count_from) / phy.slot)
        if counted > 0:
            station.slots -= counted
        until, index = station.idle_from, station.index
        if frame.reserved > until:
            until = frame.reserved
        if index not in frame.row.snr_db and index != frame.source:
            waits = frame.end + self._eifs
            if waits > until:
                until = waits
        station.idle_from = until
        station.count_from = until + phy.ifs
        station.access_at = station.count_from + station.slots * phy.slot
