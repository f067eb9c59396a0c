"""RTS and CTS: a unicast reserves the air around its receiver before it is sent.

Theory of operation (IEEE 802.11-2016, 10.3.2.4 to 10.3.2.8; IEEE 802.11-2007, 9.2.5.4 to 9.2.5.7).
A unicast of more than `RadioSpec.rts_threshold` bytes does not start when its station may
transmit: an RTS does, at the basic rate.  Its receiver answers after SIFS with a CTS, unless
something else silences it; the frame itself follows after another SIFS, and its acknowledgement.

*Virtual carrier sense.*  Both frames announce when the acknowledgement will end.  A station that
decodes one not meant for it sets its network allocation vector (NAV): it does not transmit before
then, even if it senses nothing.  So a CTS silences the stations that are hidden from the sender.  A
station that senses an RTS or CTS without decoding it waits EIFS.

*Retries.*  An RTS without an answer doubles the contention window and is tried again,
`retry_limit` times in a row (dot11ShortRetryLimit counts the first one too).  A CTS ends that
series.  A frame whose CTS came and whose ACK did not begins again with an RTS, `long_retry_limit`
times.  If the host chose a rate for each try, a lost RTS costs one.

A NAV is not reset if the announced frame does not come: the standard only permits that, and ns-2
does not do it either.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from emulation.radio.air import Air, ControlFrame, FrameJob, Transmission
from emulation.radio.airtime import CTS_BYTES, RTS_BYTES
from emulation.radio.counters import Counters
from emulation.radio.links import Links
from emulation.radio.losses import Losses
from emulation.radio.reception import Reception
from emulation.radio.sensing import CarrierSense
from emulation.radio.station import RadioStation
from emulation.radio.timings import Timing, Timings

CONTROL_END, NO_CTS, CLEAR = range(3, 6)
"""Kinds of events of the medium: an RTS or CTS ends, the CTS is missing, the data may go."""


class Sender(abc.ABC):
    """The medium as the exchanges use it."""

    @abc.abstractmethod
    def put_on_air(self, frame: Transmission, kind: int) -> None:
        """Start a frame; schedule an event of that kind at its end."""

    @abc.abstractmethod
    def push(self, time: float, kind: int, what: Any) -> None:
        """Schedule an event."""

    @abc.abstractmethod
    def start(self, station: RadioStation, now: float, cleared: bool) -> None:
        """Transmit a station's frame, whose CTS has come if it is `cleared`."""

    @abc.abstractmethod
    def proceed(self, station: RadioStation, now: float) -> None:
        """Contend for the next frame of a station, or count the post-backoff."""

    @abc.abstractmethod
    def arrive(self, job: FrameJob, source: int, now: float) -> None:
        """Hand a unicast to its receiver's host."""

    @abc.abstractmethod
    def overhear(self, frame: Transmission, now: float) -> None:
        """Hand a unicast, at its end, to the hosts that listen to all."""

    @abc.abstractmethod
    def report(self, source: int, job: FrameJob, acknowledged: bool, now: float) -> None:
        """Report the outcome of a unicast to the medium's owner."""

    @abc.abstractmethod
    def failed(self, station: RadioStation, job: FrameJob, last: bool, now: float) -> None:
        """Go on after a try that did not succeed: with another one, unless it was the last."""


class Parts(NamedTuple):
    """What the medium consists of, for the exchanges."""

    table: Links
    timings: Timings
    air: Air
    sensing: CarrierSense
    reception: Reception
    counters: Counters
    losses: Losses
    stations: list[RadioStation]
    contenders: set[int]
    draw: Callable[[], float]
    """Uniform in [0, 1)."""


class RtsCts:
    """The exchanges over the medium `sender`, which consists of `parts`."""

    def __init__(self, sender: Sender, parts: Parts) -> None:
        self._sender = sender
        self._table = parts.table
        self._rts: Final = parts.timings.control(RTS_BYTES)
        self._cts: Final = parts.timings.control(CTS_BYTES)
        self._air = parts.air
        self._sensing = parts.sensing
        self._reception = parts.reception
        self._counters = parts.counters
        self._stations = parts.stations
        self._contenders = parts.contenders

    def covers(self, job: FrameJob) -> bool:
        """Return whether a unicast needs an RTS."""
        size = job.size if job.tries else self._table.phy.mpdu_bytes(job.size)
        return size > self._table.radio.rts_threshold

    def request(self, station: RadioStation, job: FrameJob, data: Timing, now: float) -> None:
        """Send the RTS of a unicast that takes `data`."""
        index = station.index
        duration, sifs, preamble, coding = self._rts
        end = now + duration
        answered = end + sifs + self._cts.duration
        nav = answered + sifs + data.duration + data.response
        times = now + preamble, end, answered
        row = self._table.row(index)
        self._counters.rts[index] += 1
        frame = ControlFrame(row, job.destination, now, times, coding, job, nav)
        self._sender.put_on_air(frame, CONTROL_END)

    def step(self, kind: int, frame: ControlFrame, now: float) -> None:
        """Process an event: `frame` is the one that ends, or the RTS."""
        if kind == CONTROL_END:
            self._end(frame, now)
        elif kind == NO_CTS:
            self._unanswered(frame, now)
        elif self._stations[frame.source].job is frame.job:
            own = self._air.active.get(frame.source)
            if own is None:
                self._sender.start(self._stations[frame.source], now, True)
            else:  # an ACK: where frames do not meet, one came while the RTS was on the air
                self._sender.push(own.end, CLEAR, frame)

    def _end(self, frame: ControlFrame, now: float) -> None:
        """Set the NAV of those that decode a frame; continue at its receiver."""
        self._air.remove(frame)
        self._sensing.end(frame, now)
        decoders = self._reception.decoders(frame)
        frame.deferring = frozenset(decoders) - {frame.destination}
        nav = self._sensing.nav
        for index in frame.deferring:
            if frame.nav > nav[index]:
                nav[index] = frame.nav
                if index in self._contenders:  # others do it when they have something to send
                    self._sensing.defer(self._stations[index], now, frame.nav)
        heard = frame.destination in decoders
        rts = frame.answers
        if rts is None:
            if heard and self._may_answer(frame, now):
                self._answer(frame, now)
            else:
                self._sender.push(frame.reserved, NO_CTS, frame)
        elif not heard:
            self._unanswered(rts, now)
        elif self._stations[rts.source].job is rts.job:
            self._stations[rts.source].short_retries = 0
            self._sender.push(now + self._cts.response, CLEAR, rts)
        if frame.overlaps:
            self._air.forget(frame)

    def _may_answer(self, rts: ControlFrame, now: float) -> bool:
        index = rts.destination
        return not self._air.busy(index) and self._sensing.free(index, rts.source, now)

    def _answer(self, rts: ControlFrame, now: float) -> None:
        """Send the CTS: put on the air at once, with its start after SIFS."""
        index = rts.destination
        duration, sifs, preamble, coding = self._cts
        start = now + sifs
        end = start + duration
        eifs = end + sifs + self._cts.duration  # a CTS is as long as an ACK
        times = start + preamble, end, eifs
        row = self._table.row(index)
        self._counters.cts[index] += 1
        frame = ControlFrame(row, rts.source, start, times, coding, rts.job, rts.nav, rts)
        self._sender.put_on_air(frame, CONTROL_END)

    def _unanswered(self, rts: ControlFrame, now: float) -> None:
        """The CTS did not come."""
        station, job = self._stations[rts.source], rts.job
        if station.job is not job:
            return  # the station went down meanwhile
        if job.tries:
            job.attempts += 1
            last = job.attempts >= len(job.tries)
        else:
            station.short_retries += 1
            last = station.short_retries > self._table.radio.retry_limit
        if last:
            station.short_retries = 0
        self._sender.failed(station, job, last, now)
