"""The radio channel shared by all stations: CSMA/CA of 802.11 over `emulation.radio.air`.

Sans-I/O: the medium has no clock and no sockets.  Its owner says what is sent and what time it
is, and is told which frames have arrived where.  Given the same calls and the same generator it
does the same, to the bit.

    medium.transmit(now, source, destination, size_bytes, frame)
    medium.next_event()             when something will happen on its own
    medium.advance(now)             what has arrived until now
    medium.next_delivery(until)     the next arrival, for an owner whose clock waits for it

Theory of operation: the distributed coordination function (IEEE 802.11-2016, 10.3), as a
discrete-event simulation whose events are only those of contenders and of frames on the air.

*Access.*  A station with a frame transmits at once where it has sensed nothing for an interframe
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

*Acknowledgement.*  The receiver of a unicast answers after SIFS.  The ACK is a frame on the air
like any other.  Where it does not arrive, the sender doubles its contention window and tries
again, `retry_limit` times; the receiver passes a frame on once, however often it gets it.

Departures from the standard: rates follow the SNR of the link without probing; no RTS, no
fragmentation, no aggregation; the ACK timeout ends with the NAV, and EIFS follows every collision,
also where no header was decoded, so that all stations around count their slots from the same
instant (docs/medium.md says what that comes to).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import numpy.typing as npt

from emulation.radio.air import Air, Coding, Job, Transmission
from emulation.radio.airtime import ACK_BYTES, PREAMBLE, Rate
from emulation.radio.counters import Counters
from emulation.radio.errors import survival_table
from emulation.radio.links import Link, Links
from emulation.radio.spec import RadioSpec
from emulation.radio.station import FOREVER, Station, Timing

BROADCAST: Final = -1
"""Destination: every station that receives the frame."""
NOBODY: Final = -2
"""Destination of a unicast to an address that no station has: sent, and never acknowledged."""
_NS: Final = 1e-9
"""Rounding of sums of times: two instants closer than this are one."""
HISTORY: Final = 0.02
"""Seconds after which a post-backoff is over at the latest."""

_ACCESS, _END, _NO_ACK = range(3)


class Delivery(NamedTuple):
    """A frame's end at `time`, and the stations that received it (at least one)."""

    time: float
    frame: Any
    source: int
    receivers: list[int]


class Status(NamedTuple):
    """What a sender learns of a unicast when it is done with it, at `time`.

    `acknowledged` says that an ACK came; `attempts` is how often the frame was on the air.
    """

    time: float
    frame: Any
    source: int
    destination: int
    acknowledged: bool
    attempts: int


class Medium:
    """The channel of `count` stations with the same `radio`, all at (0, 0) to begin with.

    `rng` decides everything that is random.  Times are seconds on any clock that does not go back.
    `on_status` is told of each unicast that its sender is done with, while time passes or where
    `fail` takes the sender down: it must not call the medium.  Where it returns True,
    `next_delivery` stops at that instant.
    """

    def __init__(
        self,
        radio: RadioSpec,
        count: int,
        rng: random.Random,
        on_status: Callable[[Status], bool] | None = None,
    ) -> None:
        self.radio = radio
        self.count = count
        self._on_status = on_status
        self._stopped = False
        self.table = Links(radio, count, seed=rng.getrandbits(63))
        self.counters = Counters(count)
        self._random = rng.random
        self._phy = self.table.phy
        self._basic = self._phy.rates.index(self._phy.basic_rate)
        self._timings: dict[tuple[int, int], Timing] = {}
        """By index of the rate and bytes of the frame."""
        self._chosen_timings: dict[tuple[float, int], Timing] = {}
        """By rate in Mb/s, of which no two are alike, and bytes on the air."""
        self._acks: dict[Rate, Timing] = {}
        """By rate of the frame that is acknowledged."""
        self._air = Air(radio, self.table.noise_mw)
        self._stations = [Station(i, self._phy.cw_min) for i in range(count)]
        self._contenders: set[int] = set()
        self._silencing: dict[int, Transmission] = {}
        """Source: its last frame, as long as that may silence a station that has a frame now."""
        self._ended: deque[Transmission] = deque()
        """Of these, the frames that have ended."""
        self._history: deque[Transmission] = deque()
        """The frames of the last `HISTORY` seconds, by start."""
        self._started = 0
        self._heap: list[tuple[float, int, int, Any]] = []
        self._order = 0
        self._out: list[Delivery] = []
        self._now = -FOREVER

    # What the owner calls.

    def set_positions(self, xy: npt.ArrayLike) -> None:
        """Place all stations: an array (N, 2) of metres.  Frames on the air are not affected."""
        self.table.set_positions(xy)

    def transmit(
        self,
        now: float,
        source: int,
        destination: int,
        size_bytes: int,
        frame: Any,
        tries: tuple[Rate, ...] = (),
    ) -> bool:
        """Queue a frame at a station; `size_bytes` as an Ethernet frame.  Return whether it fits.

        `destination` is a station, `BROADCAST` or `NOBODY`.  `frame` is handed on untouched.

        `tries` has the rate of every try where the host's own rate control chose them, instead of
        the best rate and the retry limit; a broadcast has one try.  `size_bytes` is then that of
        the 802.11 frame with its FCS, and `on_status` is told of broadcasts too.
        """
        self._run(now)
        station = self._stations[source]
        if len(station.queue) >= self.radio.queue_frames or source in self.table.down:
            self.counters.queue_drops[source] += 1
            return False
        self.counters.queued[source] += 1
        station.queue.append(Job(destination, size_bytes, frame, tries))
        if station.job is None and source not in self._contenders:
            if now - station.post_backoff < HISTORY and self._still_counting(station, now):
                self._contenders.add(source)
                self._push(station.access_at, _ACCESS, station)
            else:
                self._request_access(station, self._now)
        return True

    def next_event(self) -> float:
        """Return when `advance` has something to do next; infinity where nothing is under way."""
        if self._out:
            return self._out[0].time
        return self._heap[0][0] if self._heap else FOREVER

    def advance(self, now: float) -> list[Delivery]:
        """Let time pass until `now` and return what has arrived since the last call, in order."""
        self._run(now)
        if not self._out:
            return []
        result, self._out = self._out, []
        return result

    def next_delivery(self, until: float) -> Delivery | None:
        """Let time pass until something arrives, and return it; None where `until` comes first.

        None also where `on_status` stopped it.  What is due at that instant after it has not
        happened yet.
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

    def fail(self, station: int, other: int | None = None) -> None:
        """Take down a station, whose queue is lost, or the link between two stations."""
        self.table.fail(station, other)
        if other is None:
            state = self._stations[station]
            self.counters.queue_drops[station] += len(state.queue)
            lost = [job for job in state.queue if job.tries]
            state.queue.clear()
            state.job = None
            for job in lost:
                self._report(station, job, False, self._now)
            state.window = self._phy.cw_min
            state.post_backoff = -FOREVER
            self._contenders.discard(station)

    def heal(self, station: int, other: int | None = None) -> None:
        """Undo `fail` with the same arguments."""
        self.table.heal(station, other)

    def links(self, station: int) -> list[Link]:
        """Return the links of a station to those that sense it, nearest first."""
        return self.table.links(station)

    def backlog(self, station: int) -> int:
        """Return how many frames of a station wait, the one on the air included."""
        return len(self._stations[station].queue)

    # Events.

    def _push(self, time: float, kind: int, what: Any) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, kind, what))

    def _run(self, now: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            self._step()
        if now > self._now:
            self._now = now

    def _step(self) -> None:
        time, _, kind, what = heappop(self._heap)
        self._now = time
        if kind == _END:
            self._end(what, time)
        elif kind == _ACCESS:
            self._access(what, time)
        else:
            self._retry(what, time)

    # Channel access.

    def _silent_until(self, index: int, before: float) -> float:
        """Return until when frames that started before `before` silence a station."""
        until = -FOREVER
        if self._silencing:
            sense = self.table.row(index).sense
            for source, frame in self._silencing.items():
                if source in sense and frame.start <= before and frame.reserved > until:
                    until = frame.reserved
        return until

    def _request_access(self, station: Station, now: float) -> None:
        """Transmit at once where the medium has been idle for long enough, or contend."""
        index = station.index
        sensed = self._silent_until(index, now - self._phy.cca_time)
        if sensed + self._phy.ifs <= now and not self._air.busy(index):
            self._start(station, now)
        else:
            self._contend(station, now)

    def _draw_backoff(self, station: Station, now: float) -> None:
        """Draw a backoff and start counting it down."""
        phy = self._phy
        station.slots = int(self._random() * (station.window + 1))
        idle_from = station.idle_from = self._silent_until(station.index, now)
        idle_from += phy.ifs
        station.count_from = idle_from if idle_from > now else now
        station.access_at = station.count_from + station.slots * phy.slot

    def _contend(self, station: Station, now: float) -> None:
        """Draw a backoff and contend when it has been counted down."""
        self._draw_backoff(station, now)
        self._contenders.add(station.index)
        self._push(station.access_at, _ACCESS, station)

    def _access(self, station: Station, now: float) -> None:
        """The countdown of a contender has ended, unless it was frozen meanwhile."""
        if station.index not in self._contenders:
            return
        if station.access_at > now + _NS:
            self._push(station.access_at, _ACCESS, station)
            return
        self._contenders.discard(station.index)
        if self._air.busy(station.index):
            self._contend(station, now)  # its own ACK came first
        else:
            self._start(station, now)

    def _silence(self, frame: Transmission) -> None:
        """Freeze the countdown of all contenders that sense a frame that starts."""
        sense = frame.row.sense
        for index in self._contenders:
            if index in sense:
                self._freeze(self._stations[index], frame)

    def _freeze(self, station: Station, frame: Transmission) -> None:
        """Stop a countdown until a frame that the station senses is over."""
        phy = self._phy
        if station.access_at < frame.start + phy.cca_time - _NS:
            return  # it is over before the station can have sensed this frame
        counted = int((frame.start + _NS - station.count_from) / phy.slot)
        if counted > 0:
            station.slots -= counted
        if frame.reserved > station.idle_from:
            station.idle_from = frame.reserved
        station.count_from = station.idle_from + phy.ifs
        station.access_at = station.count_from + station.slots * phy.slot

    def _still_counting(self, station: Station, now: float) -> bool:
        """Return whether a post-backoff goes on, after what froze it since it began."""
        missed = []
        for frame in reversed(self._history):
            if frame.number <= station.since:
                break
            if station.index in frame.row.sense:
                missed.append(frame)
        for frame in reversed(missed):
            self._freeze(station, frame)
        station.post_backoff = -FOREVER
        return station.access_at > now

    # Transmission.

    def _start(self, station: Station, now: float) -> None:
        """Put the first frame of a station's queue on the air."""
        job = station.job = station.queue[0]
        source, destination = station.index, job.destination
        row = self.table.row(source)
        if job.tries:
            timing = self._chosen(job)
        else:
            if destination == BROADCAST:
                index = self._basic
            else:
                index = self.table.unicast_rate(row, destination)
            known = self._timings.get((index, job.size))
            if known is None:
                known = self._timings[index, job.size] = self._timing(index, job.size)
            timing = known
        duration, response, payload, coding = timing
        end = reserved = now + duration
        if destination != BROADCAST:
            reserved += response
        counters = self.counters
        counters.sent[source] += 1
        if job.attempts:
            counters.retries[source] += 1
        job.attempts += 1
        self._put_on_air(
            Transmission(row, destination, now, now + payload, end, reserved, coding, job)
        )

    def _timing(self, index: int, size: int) -> Timing:
        """Return what a frame of `size` bytes takes at the rate with that index."""
        phy, table = self._phy, self.table.tables[index]
        rate, mpdu = table.rate, phy.mpdu_bytes(size)
        response = phy.sifs + phy.ack_duration(rate)
        coding = Coding(table, 8 * mpdu)
        return Timing(phy.duration(rate, mpdu), response, PREAMBLE[rate.format], coding)

    def _chosen(self, job: Job) -> Timing:
        """Return what the next try of a frame takes whose rates the host chose."""
        rate = job.tries[job.attempts]
        timing = self._chosen_timings.get((rate.mbps, job.size))
        if timing is None:
            phy = self._phy
            response = phy.sifs + phy.ack_duration(rate)
            coding = Coding(survival_table(rate), 8 * job.size)
            timing = Timing(phy.duration(rate, job.size), response, PREAMBLE[rate.format], coding)
            self._chosen_timings[rate.mbps, job.size] = timing
        return timing

    def _put_on_air(self, frame: Transmission) -> None:
        self.counters.airtime[frame.source] += frame.end - frame.start
        self._started += 1
        frame.number = self._started
        history = self._history
        history.append(frame)
        while history[0].start < frame.start - HISTORY:
            history.popleft()
        self._air.add(frame)
        self._silencing[frame.source] = frame
        if self._contenders:
            self._silence(frame)
        self._push(frame.end, _END, frame)

    def _end(self, frame: Transmission, now: float) -> None:
        """A frame leaves the air."""
        self._air.remove(frame)
        ended = self._ended
        ended.append(frame)
        while ended[0].reserved + self._phy.ifs < now:
            old = ended.popleft()
            if self._silencing[old.source] is old:
                del self._silencing[old.source]
        station = self._stations[frame.source]
        if frame.acknowledges is not None:
            self._ack_ended(frame, frame.acknowledges, now)
        elif frame.job is not station.job:
            pass  # the station went down meanwhile
        elif frame.destination == BROADCAST:
            self._deliver_broadcast(frame, now)
            if frame.job.tries:
                self._report(frame.source, frame.job, False, now)
            self._done(station, now)
        elif self._received(frame, frame.destination):
            if not frame.job.delivered:
                frame.job.delivered = True
                self.counters.received[frame.destination] += 1
                self._out.append(Delivery(now, frame.job.frame, frame.source, [frame.destination]))
            self._acknowledge(frame, now)
        else:
            self._push(frame.reserved, _NO_ACK, frame)
        if frame.overlaps:
            self._air.forget(frame)

    def _deliver_broadcast(self, frame: Transmission, now: float) -> None:
        if frame.coding.table is self.table.basic:
            certain, others = self.table.broadcast_outcome(frame.row, frame.coding.bits)
        else:
            coding = frame.coding
            certain, others = self.table.outcome_at(frame.row, coding.table, coding.bits)
        draw = self._random
        counters = self.counters
        lost: list[int] = []
        receivers = list(certain)
        if frame.overlaps:
            heard = [(receiver, draw()) for receiver in certain]
            for receiver, chance in others:
                luck = draw()
                if luck < chance:
                    heard.append((receiver, luck))
                else:
                    lost.append(receiver)
            receivers, collided = self._air.survivors(frame, heard)
            for receiver in collided:
                counters.collisions[receiver] += 1
        else:
            for receiver, chance in others:
                (receivers if draw() < chance else lost).append(receiver)
        if self.table.failed:
            receivers = [r for r in receivers if self.table.up(frame.source, r)]
        for receiver in lost:
            counters.noise_losses[receiver] += 1
        received = counters.received
        for receiver in receivers:
            received[receiver] += 1
        if receivers:
            self._out.append(Delivery(now, frame.job.frame, frame.source, receivers))

    def _received(self, frame: Transmission, receiver: int) -> bool:
        """Decide about the one receiver of a unicast or an ACK."""
        if receiver not in frame.row.snr_db:
            return False
        if self.table.failed and not self.table.up(frame.source, receiver):
            return False
        alone = self._air.alone(frame, receiver)
        if alone == 1.0 and not frame.overlaps:
            return True
        luck = self._random()
        if luck >= alone:
            self.counters.noise_losses[receiver] += 1
            return False
        if frame.overlaps and not self._air.survives(frame, receiver, luck):
            self.counters.collisions[receiver] += 1
            return False
        return True

    # Acknowledgement.

    def _acknowledge(self, frame: Transmission, now: float) -> None:
        """The receiver of a unicast answers after SIFS, unless it transmits.

        The answer is put on the air at once, with its start after SIFS, to spare an event.
        """
        source, destination = frame.source, frame.destination
        if self._air.busy(destination):
            self._push(frame.reserved, _NO_ACK, frame)
            return
        rate = frame.coding.table.rate
        timing = self._acks.get(rate)
        if timing is None:
            timing = self._acks[rate] = self._ack_timing(rate)
        duration, sifs, preamble, coding = timing
        start = now + sifs
        end = start + duration
        self.counters.acks[destination] += 1
        row = self.table.row(destination)
        self._put_on_air(
            Transmission(row, source, start, start + preamble, end, end, coding, frame.job, frame)
        )

    def _ack_timing(self, rate: Rate) -> Timing:
        """Return what the acknowledgement of a frame takes, after SIFS."""
        phy = self._phy
        control = phy.control_rate(rate)
        coding = Coding(self.table.control_tables[control], 8 * ACK_BYTES)
        duration = phy.duration(control, ACK_BYTES)
        return Timing(duration, phy.sifs, PREAMBLE[control.format], coding)

    def _ack_ended(self, ack: Transmission, frame: Transmission, now: float) -> None:
        station = self._stations[frame.source]
        if station.job is not frame.job:
            return
        if self._received(ack, frame.source):
            self._report(frame.source, frame.job, True, now)
            self._done(station, now)
        else:
            self._retry(frame, now)

    def _retry(self, frame: Transmission, now: float) -> None:
        """A unicast was not acknowledged."""
        station = self._stations[frame.source]
        if station.job is not frame.job:
            return
        job = frame.job
        if job.attempts >= (len(job.tries) or self.radio.retry_limit + 1):
            self.counters.retry_drops[frame.source] += 1
            self._report(frame.source, job, False, now)
            self._done(station, now)
            return
        station.job = None
        station.window = min(2 * station.window + 1, self._phy.cw_max)
        self._contend(station, now)

    def _report(self, source: int, job: Job, acknowledged: bool, now: float) -> None:
        if self._on_status is not None:
            status = Status(now, job.frame, source, job.destination, acknowledged, job.attempts)
            if self._on_status(status):
                self._stopped = True

    def _done(self, station: Station, now: float) -> None:
        """The frame is out of the queue; contend for the next, or count the post-backoff."""
        station.queue.popleft()
        station.job = None
        station.window = self._phy.cw_min
        if station.queue:
            self._contend(station, now)
        else:
            self._draw_backoff(station, now)
            station.post_backoff = now
            station.since = self._started
