"""A-MPDU and block acknowledgement of 802.11n: several unicasts to a station in one PPDU.

Theory of operation (IEEE 802.11-2016, 9.7, 10.13 and 10.24).  When a station may transmit, the
frames in its queue for the receiver of the first one go together, up to `RadioSpec.ampdu`
bytes, `LONGEST` seconds and the `WINDOW` of frames that a BlockAck names.  Each has a delimiter of
4 bytes and begins at a multiple of 4 bytes.  The receiver answers after SIFS with one BlockAck (a
lone frame gets an ACK), and what that does not name stays in the queue and goes again, with
what has come meanwhile.  The aggregate is one event at its end, its BlockAck another.

*Loss.*  Each frame survives on its own, by its bits and by the interference while they last.  If
none does, there is no BlockAck.  Without one the contention window doubles, as without an ACK.

*Order.*  The receiver hands frames on in the order of their first try: those behind a missing one
wait in its reorder buffer until that arrives or is given up.

Departures from the standard: agreements exist from the start; instead of a BlockAckReq, the sender
repeats frames, and the receiver learns at once that one was given up; no minimum spacing between
frames, as ns-3 has it by default.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from emulation.radio.air import Aggregate, Coding, FrameJob, Transmission
from emulation.radio.airtime import OFDM_SYMBOL, SHORT_SYMBOL
from emulation.radio.minstrel import Minstrel
from emulation.radio.rts_cts import Parts, RtsCts, Sender
from emulation.radio.station import RadioStation
from emulation.radio.timings import Timing

AGGREGATE_END, BLOCK_ACK_END, NO_BLOCK_ACK = range(6, 9)
"""Kinds of events of the medium: an A-MPDU or its answer ends, or the answer is missing."""
WINDOW: Final = 64
"""Frames of a BlockAck."""
LONGEST: Final = 5.484e-3
"""Seconds of a PPDU in HT-mixed format: what L-SIG can announce (table 19-25)."""
DELIMITER: Final = 4
"""Bytes before each frame, and the multiple at which it begins."""
Pair = tuple[int, int]
"""Source and destination."""


class Aggregation:
    """The unicasts of 802.11n over the medium `sender`, which consists of `parts`."""

    def __init__(self, sender: Sender, parts: Parts, rts: RtsCts | None) -> None:
        self._sender = sender
        self._rts = rts
        self._table = parts.table
        self._timings = parts.timings
        self._air = parts.air
        self._sensing = parts.sensing
        self._reception = parts.reception
        self._counters = parts.counters
        self._losses = parts.losses
        self._stations = parts.stations
        self._phy = parts.table.phy
        self._minstrel: Minstrel | None = None
        if parts.table.radio.rate_control == "minstrel":
            self._minstrel = Minstrel(self._phy, parts.draw)
        self._limits = [self._limit(index) for index in range(len(self._phy.rates))]
        """By index of a rate: bytes of an A-MPDU, 0 if there is none."""
        self._unreleased: dict[Pair, deque[FrameJob]] = {}
        """Frames since the first that the receiver lacks, in the order of their first try."""
        self._announced: dict[int, tuple[int, list[FrameJob]]] = {}
        """Source: index of the rate, and frames, that its last RTS was for."""

    def _limit(self, index: int) -> int:
        rate, most = self._phy.rates[index], self._table.radio.ampdu
        if rate.format != "HT" or not most:
            return 0
        symbol = SHORT_SYMBOL if rate.short_guard else OFDM_SYMBOL
        symbols = int((LONGEST - rate.preamble) / symbol)
        return min(most, (symbols * rate.bits_per_symbol - 16 - rate.tail_bits) // 8)

    def start(self, station: RadioStation, now: float, cleared: bool) -> None:
        """Put the first frame of a queue on the air with others, or its RTS unless `cleared`."""
        job, source = station.queue[0], station.index
        destination = job.destination
        row = self._table.row(source)
        if cleared:
            index, announced = self._announced[source]
            queued = set(station.queue)
            jobs = [job for job in announced if job in queued]
        else:
            sampled = False
            if self._minstrel is None:
                index = self._table.unicast_rate(row, destination)
            else:
                index, sampled = self._minstrel.choose((source, destination), job.attempts, now)
            jobs = [job] if sampled else self._together(station, job, self._limits[index])
        timing, bounds, size = self._timing(index, jobs)
        if self._rts is not None and not cleared and size > self._table.radio.rts_threshold:
            self._announced[source] = index, jobs
            self._rts.request(station, job, timing, now)
            return
        counters = self._counters
        counters.sent[source] += len(jobs)
        waiting = self._waiting(source, destination)
        for job in jobs:
            if job.aired:
                counters.retries[source] += 1
            else:
                job.aired = True
                waiting.append(job)
            job.attempts += 1
        end = now + timing.duration
        times = now + timing.payload, end, end + timing.response
        frame = Aggregate(row, destination, now, times, timing.coding, jobs, bounds, index)
        frame.announced = cleared
        self._sender.put_on_air(frame, AGGREGATE_END)

    def _waiting(self, source: int, destination: int) -> deque[FrameJob]:
        waiting = self._unreleased.get((source, destination))
        if waiting is None:
            waiting = self._unreleased[source, destination] = deque()
        return waiting

    def _together(self, station: RadioStation, first: FrameJob, limit: int) -> list[FrameJob]:
        """Return the frames of a queue that go together with the first one."""
        jobs, queue, destination = [first], station.queue, first.destination
        if not limit or destination < 0 or len(queue) == 1:
            return jobs
        phy = self._phy
        size = DELIMITER + phy.mpdu_bytes(first.size)
        room = WINDOW - len(self._waiting(station.index, destination)) - (not first.aired)
        for job in islice(queue, 1, None):
            if job.destination != destination or job.tries:
                continue
            size = _aligned(size) + DELIMITER + phy.mpdu_bytes(job.size)
            if size > limit or len(jobs) == WINDOW or (room <= 0 and not job.aired):
                break
            room -= not job.aired
            jobs.append(job)
        return jobs

    def _timing(
        self, index: int, jobs: list[FrameJob]
    ) -> tuple[Timing, list[tuple[float, float, Coding]], int]:
        """Return the times of frames that go together, their bounds, and their bytes in all."""
        alone = self._timings.of(index, jobs[0].size)
        phy = self._phy
        if len(jobs) == 1:
            return alone, [], phy.mpdu_bytes(jobs[0].size)
        ends: list[tuple[int, int, Coding]] = []
        size = 0
        for job in jobs:
            begin = _aligned(size)
            size = begin + DELIMITER + phy.mpdu_bytes(job.size)
            ends.append((begin, size, self._timings.of(index, job.size).coding))
        rate = phy.rates[index]
        duration, response = phy.duration(rate, size), self._timings.block_ack(rate)
        answer = response.response + response.duration
        bounds = [(begin / size, end / size, coding) for begin, end, coding in ends]
        return Timing(duration, answer, alone.payload, alone.coding), bounds, size

    def step(self, kind: int, frame: Transmission, now: float) -> None:
        """Process an event: `frame` is the one that ends, or the A-MPDU without an answer."""
        if kind == AGGREGATE_END:
            assert isinstance(frame, Aggregate)
            self._end(frame, now)
        elif kind == BLOCK_ACK_END:
            self._air.remove(frame)
            self._sensing.end(frame, now)
            aggregate = frame.acknowledges
            assert isinstance(aggregate, Aggregate)
            if self._stations[aggregate.source].job is aggregate.job:
                answered = self._reception.received(frame, aggregate.source)
                self._settle(aggregate, answered, now)
            if frame.overlaps:
                self._air.forget(frame)
        else:
            assert isinstance(frame, Aggregate)
            if self._stations[frame.source].job is frame.job:
                self._settle(frame, False, now)

    def _end(self, frame: Aggregate, now: float) -> None:
        """Find out what the receiver gets of an A-MPDU; let it answer."""
        self._air.remove(frame)
        self._sensing.end(frame, now)
        pieces = frame.pieces()
        if frame.job is self._stations[frame.source].job:  # unless the station went down meanwhile
            decoded = False
            for piece in pieces:
                if self._reception.received(piece, frame.destination):
                    decoded = piece.job.delivered = True
            if decoded:
                self._release(frame.source, frame.destination, now)
            if decoded and not self._air.busy(frame.destination):
                self._answer(frame, now)
            else:
                self._sender.push(frame.reserved, NO_BLOCK_ACK, frame)
        for piece in pieces:
            self._sender.overhear(piece, now)
        if frame.overlaps:
            self._air.forget(frame)

    def _answer(self, frame: Aggregate, now: float) -> None:
        """Send the BlockAck: put on the air at once, with its start after SIFS."""
        rate, timings = self._phy.rates[frame.index], self._timings
        lone = len(frame.jobs) == 1
        duration, sifs, preamble, coding = timings.ack(rate) if lone else timings.block_ack(rate)
        frame.acknowledged = [job for job in frame.jobs if job.delivered]
        start = now + sifs
        end = start + duration
        self._counters.acks[frame.destination] += 1
        row = self._table.row(frame.destination)
        times = start, start + preamble, end, end
        answer = Transmission(row, frame.source, *times, coding, frame.job, frame)
        self._sender.put_on_air(answer, BLOCK_ACK_END)

    def _settle(self, frame: Aggregate, answered: bool, now: float) -> None:
        """Take what was acknowledged or given up out of the sender's queue; go on."""
        source, station, radio = frame.source, self._stations[frame.source], self._table.radio
        limit = radio.long_retry_limit if frame.announced else radio.retry_limit
        acknowledged = set(frame.acknowledged) if answered else set()
        over: set[FrameJob] = set()
        for job in frame.jobs:
            if job in acknowledged:
                over.add(job)
                self._sender.report(source, job, True, now)
            elif job.attempts > limit:
                over.add(job)
                self._counters.retry_drops[source] += 1
                self._losses.given_up(now, source, job)
                self._sender.report(source, job, False, now)
                self.give_up(source, job, now)
        if self._minstrel is not None:
            pair = source, frame.destination
            self._minstrel.learn(pair, frame.index, len(frame.jobs), len(acknowledged))
        left = [job for job in station.queue if job not in over]
        station.queue.clear()
        station.queue.extend(left)
        if answered or frame.job in over:
            station.window = self._phy.cw_min
        else:
            station.window = min(2 * station.window + 1, self._phy.cw_max)
        self._sender.proceed(station, now)

    def give_up(self, source: int, job: FrameJob, now: float) -> None:
        """Have the receiver no longer wait for a frame."""
        waiting = self._unreleased.get((source, job.destination))
        if waiting and job.aired and not job.delivered:
            waiting.remove(job)
            self._release(source, job.destination, now)

    def _release(self, source: int, destination: int, now: float) -> None:
        """Hand on what the receiver has up to the first frame that it lacks."""
        waiting = self._unreleased.get((source, destination))
        while waiting and waiting[0].delivered:
            self._sender.arrive(waiting.popleft(), source, now)

    def fail(self, station: int, now: float) -> None:
        """A station goes down: receivers wait no longer for its frames, nor it for others'."""
        for pair, waiting in self._unreleased.items():
            if station in pair:
                for job in waiting:
                    if job.delivered:
                        self._sender.arrive(job, pair[0], now)
                lacking = [job for job in waiting if not job.delivered and pair[0] != station]
                waiting.clear()
                waiting.extend(lacking)


def _aligned(size: int) -> int:
    return -(-size // DELIMITER) * DELIMITER
