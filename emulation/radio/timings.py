"""How long frames last on the air, and how their bits are coded: worked out once for each kind."""

from __future__ import annotations

from typing import NamedTuple

from emulation.radio.air import Coding, FrameJob
from emulation.radio.airtime import ACK_BYTES, PREAMBLE, Rate
from emulation.radio.links import Links


class Timing(NamedTuple):
    """What a frame takes, in seconds."""

    duration: float
    response: float
    """SIFS and the acknowledgement; of an acknowledgement, SIFS before it."""
    payload: float
    """From the start to the first data bit."""
    coding: Coding


class Timings:
    """The timings of the frames of stations whose links are `table`."""

    def __init__(self, table: Links) -> None:
        self._table = table
        self._phy = table.phy
        self.known: dict[tuple[int, int], Timing] = {}
        """What `of` has returned so far, for a caller that looks here first."""
        self._chosen: dict[tuple[float, int], Timing] = {}
        """By rate in Mb/s, of which no two are alike, and bytes on the air."""
        self._acks: dict[Rate, Timing] = {}
        """By rate of the frame that is acknowledged."""

    def of(self, index: int, size: int) -> Timing:
        """Return what an Ethernet frame of `size` bytes takes at the rate with that index."""
        timing = self.known.get((index, size))
        if timing is None:
            phy, table = self._phy, self._table.tables[index]
            rate, mpdu = table.rate, phy.mpdu_bytes(size)
            response = phy.sifs + phy.ack_duration(rate)
            coding = Coding(table, 8 * mpdu)
            timing = Timing(phy.duration(rate, mpdu), response, PREAMBLE[rate.format], coding)
            self.known[index, size] = timing
        return timing

    def chosen(self, job: FrameJob) -> Timing:
        """Return what the next try of a frame takes whose rates the host chose."""
        rate = job.tries[job.attempts]
        timing = self._chosen.get((rate.mbps, job.size))
        if timing is None:
            phy = self._phy
            response = phy.sifs + phy.ack_duration(rate)
            coding = Coding(self._table.table_of(rate), 8 * job.size)
            timing = Timing(phy.duration(rate, job.size), response, PREAMBLE[rate.format], coding)
            self._chosen[rate.mbps, job.size] = timing
        return timing

    def control(self, size: int) -> Timing:
        """Return what an RTS or CTS of `size` bytes takes, SIFS and an answer to it apart."""
        phy = self._phy
        rate = phy.basic_rate
        coding = Coding(self._table.control_tables[rate], 8 * size)
        return Timing(phy.duration(rate, size), phy.sifs, PREAMBLE[rate.format], coding)

    def ack(self, rate: Rate) -> Timing:
        """Return what the acknowledgement of a frame at that rate takes, after SIFS."""
        timing = self._acks.get(rate)
        if timing is None:
            phy = self._phy
            control = phy.control_rate(rate)
            coding = Coding(self._table.control_tables[control], 8 * ACK_BYTES)
            duration = phy.duration(control, ACK_BYTES)
            timing = Timing(duration, phy.sifs, PREAMBLE[control.format], coding)
            self._acks[rate] = timing
        return timing
