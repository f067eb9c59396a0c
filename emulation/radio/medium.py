"""The radio channel shared by all stations: CSMA/CA of 802.11 over `emulation.radio.air`.

Sans-I/O: the medium has no clock and no sockets.  Its owner passes frames and the time, and gets
the frames that arrive at stations.  Given the same calls and the same generator it does the same,
to the bit.

    medium.transmit(now, source, destination, size_bytes, frame)
    medium.next_event()             when something will happen by itself
    medium.advance(now)             frames that have arrived by now
    medium.next_delivery(until)     the next arrival, for an owner whose clock waits for it
    medium.listen(station)          have unicasts for others that it decodes arrive there as well
    medium.withdraw(source, to)     take back frames that have not been on the air

Theory of operation: the distributed coordination function (IEEE 802.11-2016, 10.3), as a
discrete-event simulation whose events are only those of contenders and of frames on the air.

*Access.*  A station with a frame transmits at once if it has sensed nothing for an interframe
space.  Otherwise it draws a number of slots and becomes a contender: after the medium has been
idle for the interframe space, it counts slots, and transmits when none is left.  The count stands
still while the medium is busy.  After each transmission it counts a fresh number even when it has
nothing to send (post-backoff); no event marks the end of that: whether it is over is worked out,
from the frames since, when the station has a frame again.

*Carrier sense.*  Since a frame's end is known when it starts, so is the moment until which it
silences those that sense it: they are told once, and no event marks the end of busy.  The heap
keeps one entry per contender, at a time not later than its access; freezing only changes the
contender, and an entry that comes too early goes back.  A frame younger than the CCA time is not
sensed yet: contenders that finish within that time of each other collide.

*Virtual carrier sense.*  A unicast silences those that sense it until its ACK would end.  Those
that decode it do so by its duration field (NAV), the others by EIFS, which is about as long.

With RTS and CTS, those that decode either are silent until the ACK would end (`rts_cts`), the
others by EIFS.

*Acknowledgement.*  The receiver of a unicast answers after SIFS.  The ACK is a frame on the air
like any other.  If it does not arrive, the sender doubles its contention window and tries again,
`retry_limit` times; the receiver passes a frame on once, however often it gets it.  The unicasts of
802.11n are those of `aggregation`.

Departures from the standard: rates follow the SNR of the link without probing; no fragmentation;
the ACK timeout ends with the NAV, and EIFS follows every collision (docs/model.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

import numpy.typing as npt

from emulation.radio.aggregation import AGGREGATE_END, Aggregation
from emulation.radio.air import Air, FrameJob, Transmission
from emulation.radio.airtime import Rate
from emulation.radio.counters import Counters
from emulation.radio.delivery import Delivery, Overheard, Status
from emulation.radio.jamming import Jamming
from emulation.radio.link_row import Link
from emulation.radio.links import Links
from emulation.radio.losses import Losses
from emulation.radio.reception import Reception
from emulation.radio.rts_cts import Parts, RtsCts, Sender
from emulation.radio.sensing import HISTORY, NS, CarrierSense, DistantCarrierSense
from emulation.radio.spec import NEVER, RadioSpec
from emulation.radio.station import FOREVER, RadioStation
from emulation.radio.timings import Timings

BROADCAST: Final = -1
"""Destination: every station that receives the frame."""
NOBODY: Final = -2
"""Destination of a unicast to an address that no station has: sent, and never acknowledged."""
_ACCESS, _END, _NO_ACK = range(3)


class Medium(Sender):
    """The channel of `count` stations with the same `radio`, all at (0, 0) to begin with.

    `rng` decides everything that is random.  Times are seconds on any clock that does not go back.
    `on_status` is called for each unicast that its sender is done with, while time passes or when
    `fail` takes the sender down: it must not call the medium.  If it returns True,
    `next_delivery` stops at that instant.
    """

    def __init__(
        self,
        radio: RadioSpec,
        count: int,
        rng: random.Random,
        on_status: Callable[[Status], bool] | None = None,
    ) -> None:
        self.radio, self.count = radio, count
        self._on_status, self._stopped = on_status, False
        self.table = Links(radio, count, seed=rng.getrandbits(63))
        self.counters = Counters(count)
        self.losses = Losses(self.table)
        self._random = rng.random
        self._phy = self.table.phy
        self._basic = self._phy.rates.index(self._phy.basic_rate)
        self._timings = Timings(self.table)
        self._air = Air(radio, self.table.noise_mw)
        self._reception = Reception(self.table, self._air, self.counters, self.losses, self._random)
        self._stations = [RadioStation(i, self._phy.cw_min) for i in range(count)]
        self._contenders: set[int] = set()
        sense = CarrierSense if radio.sense_range is None else DistantCarrierSense
        self._sensing = sense(self.table, self._random)
        self._listeners: set[int] = set()
        self._heap: list[tuple[float, int, int, Any]] = []
        self._order, self._now = 0, -FOREVER
        self._out: list[Delivery] = []
        parts = Parts(
            *(self.table, self._timings, self._air, self._sensing, self._reception),
            *(self.counters, self.losses, self._stations, self._contenders, self._random),
        )
        self._rts = RtsCts(self, parts) if radio.rts_threshold < NEVER else None
        self._aggregation = Aggregation(self, parts, self._rts) if radio.standard == "n" else None
        self.jamming = Jamming(
            self.table, self._air, self._sensing, self.push, self._silence, self._resume
        )

    # What the owner calls.

    def set_positions(self, xy: npt.ArrayLike) -> None:
        """Set all positions: an array (N, 2) of metres.  Frames on the air are not affected."""
        self.table.set_positions(xy)

    def transmit(
        self,
        now: float,
        source: int,
        destination: int,
        size_bytes: int,
        frame: Any,
        tries: tuple[Rate, ...] = (),
        first: bool = False,
    ) -> bool:
        """Queue a frame at a station; `size_bytes` as an Ethernet frame.  Return whether it fits.

        `destination` is a station, `BROADCAST` or `NOBODY`.  `frame` is handed on untouched.

        `tries` has the rate of every try if the host's own rate control chose them, instead of
        the best rate and the retry limit; a broadcast has one try.  `size_bytes` is then that of
        the 802.11 frame with its FCS, and `on_status` is called for broadcasts too.

        With `first`, it overtakes all but the one whose turn it is; a full queue drops its last.
        """
        self._run(now)
        station = self._stations[source]
        queue = station.queue
        if len(queue) >= self.radio.queue_frames or source in self.table.down:
            self.counters.queue_drops[source] += 1
            # An A-MPDU may hold all frames of the queue.
            if not first or len(queue) < 2 or queue[-1].aired or source in self.table.down:
                self.losses.refused(now, source, frame, destination)
                return False
            last = queue.pop()
            self.losses.refused(now, source, last.frame, last.destination)
        self.counters.queued[source] += 1
        job = FrameJob(destination, size_bytes, frame, tries)
        if first and queue:
            queue.insert(1, job)
        else:
            queue.append(job)
        if station.job is None and source not in self._contenders:
            if now - station.post_backoff < HISTORY and self._sensing.still_counting(station, now):
                self._contenders.add(source)
                self.push(station.access_at, _ACCESS, station)
            else:
                self._request_access(station, self._now)
        return True

    def next_event(self) -> float:
        """Return when `advance` has something to do next; infinity if nothing is under way."""
        if self._out:
            return self._out[0].time
        return self._heap[0][0] if self._heap else FOREVER

    def advance(self, now: float) -> list[Delivery]:
        """Let time pass until `now`; return the arrivals since the last call, in order."""
        self._run(now)
        if not self._out:
            return []
        result, self._out = self._out, []
        return result

    def next_delivery(self, until: float) -> Delivery | None:
        """Let time pass until something arrives, and return it; None if `until` comes first.

        None also if `on_status` stopped it.  Later events of that instant have not happened yet.
        """
        heap, out = self._heap, self._out
        self._stopped = False
        while not out:
            if not heap or heap[0][0] > until:
                if until > self._now:
                    self._now = until
                return None
            self._step()
            if self._stopped:
                return None
        return out.pop(0)

    def listen(self, station: int, listens: bool = True) -> None:
        """Make a station's radio promiscuous: it gets unicasts for others as `Overheard`.

        Every try that it decodes arrives at its end, after the unicast itself.
        """
        if listens:
            self._listeners.add(station)
        else:
            self._listeners.discard(station)

    def watch(self, observer: Callable[[Transmission], None]) -> None:
        """Have `observer` called with every frame that is put on the air."""
        self._air.watch = observer

    def withdraw(self, source: int, destination: int) -> list[Any]:
        """Take back the frames of a station for another that were not on the air; in order.

        A frame whose RTS is on the air or was just given up stays.
        """
        station = self._stations[source]
        queue, current = station.queue, station.job
        fresh = (job for job in queue if not job.attempts and job is not current)
        taken = [job for job in fresh if job.destination == destination]
        if taken:
            if queue[0] is taken[0]:
                station.short_retries = 0
            left = [job for job in queue if job not in taken]
            queue.clear()
            queue.extend(left)
            if not queue and source in self._contenders:
                # The countdown continues, with nothing to send after it.
                self._contenders.discard(source)
                station.post_backoff = self._now
                station.since = self._sensing.frames
        self.losses.withdrawn(self._now, source, taken)
        return [job.frame for job in taken]

    def fail(self, station: int, other: int | None = None) -> None:
        """Take down a station, whose queue is lost, or the link between two stations."""
        self.table.fail(station, other)
        if other is None:
            if self._aggregation is not None:
                self._aggregation.fail(station, self._now)
            state = self._stations[station]
            self.counters.queue_drops[station] += len(state.queue)
            self.losses.waiting(self._now, station, state.queue)
            lost = [job for job in state.queue if job.tries]
            state.queue.clear()
            state.job = None
            for job in lost:
                self.report(station, job, False, self._now)
            state.window = self._phy.cw_min
            state.short_retries = 0
            state.post_backoff = -FOREVER
            self._contenders.discard(station)

    def heal(self, station: int, other: int | None = None) -> None:
        """Undo `fail` with the same arguments."""
        self.table.heal(station, other)

    def meet(self, pairs: frozenset[tuple[int, int]]) -> None:
        """Link these pairs of stations alone, the lower first; frames on the air go on."""
        self.table.meet(pairs)

    def links(self, station: int) -> list[Link]:
        """Return the links of a station to those that sense it, nearest first."""
        return self.table.links(station)

    def backlog(self, station: int) -> int:
        """Return how many frames of a station wait, the one on the air included."""
        return len(self._stations[station].queue)

    # Events.

    def push(self, time: float, kind: int, what: Any) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, kind, what))

    def _run(self, now: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            self._step()
        if now > self._now:
            self._now = now

    def _step(self) -> None:
        heap = self._heap
        time, _, kind, what = heap[0]
        self._now = time
        if kind == _ACCESS and what.access_at > time + NS and what.index in self._contenders:
            # Frozen meanwhile.
            self._order += 1
            heapreplace(heap, (what.access_at, self._order, _ACCESS, what))
            return
        heappop(heap)
        if kind == _END:
            self._end(what, time)
        elif kind == _ACCESS:
            self._access(what, time)
        elif kind == _NO_ACK:
            self._retry(what, time)
        elif kind < 0:
            self.jamming.step(kind, what, time)
        elif self._aggregation is not None and kind >= AGGREGATE_END:
            self._aggregation.step(kind, what, time)
        elif self._rts is not None:
            self._rts.step(kind, what, time)

    # Channel access.

    def _request_access(self, station: RadioStation, now: float) -> None:
        """Transmit at once if the medium has been idle for long enough, or contend."""
        index = station.index
        sensed = self._sensing.silent_until(index, now - self._phy.cca_time)
        if sensed + self._phy.ifs <= now and not self._air.busy(index):
            self.start(station, now)
        else:
            self._contend(station, now)

    def _contend(self, station: RadioStation, now: float) -> None:
        """Draw a backoff and contend when it has been counted down."""
        self._sensing.draw_backoff(station, now)
        self._contenders.add(station.index)
        self.push(station.access_at, _ACCESS, station)

    def _access(self, station: RadioStation, now: float) -> None:
        """The countdown of a contender has ended."""
        if station.index not in self._contenders:
            return
        self._contenders.discard(station.index)
        if self._air.busy(station.index):
            self._contend(station, now)  # its own ACK came first
        else:
            self.start(station, now)

    # Transmission.

    def start(self, station: RadioStation, now: float, cleared: bool = False) -> None:
        """Put the first frame of a station's queue on the air, or its RTS unless `cleared`."""
        job = station.job = station.queue[0]
        source, destination = station.index, job.destination
        if self._aggregation is not None and destination != BROADCAST and not job.tries:
            self._aggregation.start(station, now, cleared)
            return
        row = self.table.row(source)
        if job.tries:
            timing = self._timings.chosen(job)
        else:
            fixed = destination == BROADCAST
            index = self._basic if fixed else self.table.unicast_rate(row, destination)
            known = self._timings.known.get((index, job.size))
            timing = known or self._timings.of(index, job.size)
        duration, response, payload, coding = timing
        end = reserved = now + duration
        if destination != BROADCAST:
            if self._rts is not None and not cleared and self._rts.covers(job):
                self._rts.request(station, job, timing, now)
                return
            reserved += response
        counters = self.counters
        counters.sent[source] += 1
        if job.aired:
            counters.retries[source] += 1
        job.aired = True
        job.attempts += 1
        frame = Transmission(row, destination, now, now + payload, end, reserved, coding, job)
        self.put_on_air(frame)

    def put_on_air(self, frame: Transmission, kind: int = _END) -> None:
        self.counters.airtime[frame.source] += frame.end - frame.start
        self._sensing.add(frame)
        self._air.add(frame)
        if self._contenders:
            self._sensing.silence(frame, self._contenders, self._stations)
        self.push(frame.end, kind, frame)

    def _silence(self, frame: Transmission) -> None:
        """Freeze the countdown of all contenders that sense a frame that starts."""
        self._sensing.silence(frame, self._contenders, self._stations)

    def _resume(self, frame: Transmission, now: float) -> None:
        """Let contenders that sense a frame that was cut short continue counting."""
        for index in frame.row.sense & self._contenders:
            station = self._stations[index]
            if self._sensing.resume(station, now):
                self.push(station.access_at, _ACCESS, station)

    def _end(self, frame: Transmission, now: float) -> None:
        """A frame leaves the air."""
        self._air.remove(frame)
        self._sensing.end(frame, now)
        station = self._stations[frame.source]
        if frame.acknowledges is not None:
            self._ack_ended(frame, frame.acknowledges, now)
        elif frame.job is not station.job:
            pass  # the station went down meanwhile
        elif frame.destination == BROADCAST:
            receivers = self._reception.receivers(frame)
            if receivers:
                self._out.append(Delivery(now, frame.job.frame, frame.source, receivers))
            if frame.job.tries:
                self.report(frame.source, frame.job, False, now)
            self._done(station, now)
        elif self._reception.received(frame, frame.destination):
            if not frame.job.delivered:
                frame.job.delivered = True
                self.arrive(frame.job, frame.source, now)
            self._acknowledge(frame, now)
        else:
            self.push(frame.reserved, _NO_ACK, frame)
        if self._listeners and frame.acknowledges is None and frame.destination != BROADCAST:
            self.overhear(frame, now)
        if frame.overlaps:
            self._air.forget(frame)

    def arrive(self, job: FrameJob, source: int, now: float) -> None:
        self.counters.received[job.destination] += 1
        self._out.append(Delivery(now, job.frame, source, [job.destination]))

    def overhear(self, frame: Transmission, now: float) -> None:
        if self._listeners:
            overhearers = self._reception.overhearers(frame, self._listeners)
            if overhearers:
                self._out.append(Overheard(now, frame.job.frame, frame.source, overhearers))

    # Acknowledgement.

    def _acknowledge(self, frame: Transmission, now: float) -> None:
        """The receiver answers after SIFS (an ACK on the air at once spares an event)."""
        source, destination = frame.source, frame.destination
        if self._air.busy(destination):
            self.push(frame.reserved, _NO_ACK, frame)
            return
        duration, sifs, preamble, coding = self._timings.ack(frame.coding.table.rate)
        start = now + sifs
        end = start + duration
        self.counters.acks[destination] += 1
        row = self.table.row(destination)
        job = frame.job
        ack = Transmission(row, source, start, start + preamble, end, end, coding, job, frame)
        self.put_on_air(ack)

    def _ack_ended(self, ack: Transmission, frame: Transmission, now: float) -> None:
        station = self._stations[frame.source]
        if station.job is not frame.job:
            return
        if self._reception.received(ack, frame.source):
            self.report(frame.source, frame.job, True, now)
            self._done(station, now)
        else:
            self._retry(frame, now)

    def _retry(self, frame: Transmission, now: float) -> None:
        """A unicast was not acknowledged."""
        station = self._stations[frame.source]
        if station.job is not frame.job:
            return
        job = frame.job
        announced = self._rts is not None and self._rts.covers(job)
        limit = self.radio.long_retry_limit if announced else self.radio.retry_limit
        last = job.attempts >= (len(job.tries) or limit + 1)
        self.failed(station, job, last, now)

    def failed(self, station: RadioStation, job: FrameJob, last: bool, now: float) -> None:
        """Try a unicast again, or give it up after the last try."""
        if last:
            if self._aggregation is not None:
                self._aggregation.give_up(station.index, job, now)
            self.counters.retry_drops[station.index] += 1
            self.losses.given_up(now, station.index, job)
            self.report(station.index, job, False, now)
            self._done(station, now)
            return
        station.job = None
        station.window = min(2 * station.window + 1, self._phy.cw_max)
        self._contend(station, now)

    def report(self, source: int, job: FrameJob, acknowledged: bool, now: float) -> None:
        if self._on_status is not None:
            how = acknowledged, job.attempts
            self._stopped |= self._on_status(Status(now, job.frame, source, job.destination, *how))

    def _done(self, station: RadioStation, now: float) -> None:
        """The exchange of a station's first frame is over."""
        station.queue.popleft()
        station.window = self._phy.cw_min
        self.proceed(station, now)

    def proceed(self, station: RadioStation, now: float) -> None:
        station.job = None
        if station.queue:
            self._contend(station, now)
        else:
            self._sensing.draw_backoff(station, now)
            station.post_backoff = now
            station.since = self._sensing.frames
