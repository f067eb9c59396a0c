"""Durations of frames on the air, and coding of their bits: computed once for each kind."""

from __future__ import annotations

from typing import NamedTuple

from emulation.radio.air import Coding, FrameJob
from emulation.radio.airtime import ACK_BYTES, BLOCK_ACK_BYTES, Rate
from emulation.radio.links import Links


class Timing(NamedTuple):
    """The times of a frame, seconds."""

    duration: float
    response: float
    """SIFS and the acknowledgement; for an acknowledgement, the SIFS before it."""
    payload: float
    """From the start to the first data bit."""
    coding: Coding


class Timings:
    """The timings of the frames of stations whose links are `table`."""

    def __init__(self, table: Links) -> None:
        self._table = table
        self._phy = table.phy
        self.known: dict[tuple[int, int], Timing] = {}
        """Results of `of` so far, for callers that look here first."""
        self._chosen: dict[tuple[float, int], Timing] = {}
        """By rate in Mb/s, which is unique, and bytes on the air."""
        self._acks: dict[Rate, Timing] = {}
        """By rate of the acknowledged frame."""
        self._block_acks: dict[Rate, Timing] = {}
        """By rate of the acknowledged A-MPDU."""

    def of(self, index: int, size: int) -> Timing:
        """Return the times of an Ethernet frame of `size` bytes at the rate with that index."""
        timing = self.known.get((index, size))
        if timing is None:
            phy, table = self._phy, self._table.tables[index]
            rate, mpdu = table.rate, phy.mpdu_bytes(size)
            response = phy.sifs + phy.ack_duration(rate)
            coding = Coding(table, 8 * mpdu)
            timing = Timing(phy.duration(rate, mpdu), response, rate.preamble, coding)
            self.known[index, size] = timing
        return timing

    def chosen(self, job: FrameJob) -> Timing:
        """Return the times of the next try of a frame whose rates the host chose."""
        rate = job.tries[job.attempts]
        timing = self._chosen.get((rate.mbps, job.size))
        if timing is None:
            phy = self._phy
            response = phy.sifs + phy.ack_duration(rate)
            coding = Coding(self._table.table_of(rate), 8 * job.size)
            timing = Timing(phy.duration(rate, job.size), response, rate.preamble, coding)
            self._chosen[rate.mbps, job.size] = timing
        return timing

    def control(self, size: int) -> Timing:
        """Return the times of an RTS or CTS of `size` bytes, without SIFS and its answer."""
        phy = self._phy
        rate = phy.basic_rate
        coding = Coding(self._table.control_tables[rate], 8 * size)
        return Timing(phy.duration(rate, size), phy.sifs, rate.preamble, coding)

    def ack(self, rate: Rate) -> Timing:
        """Return the times of the acknowledgement of a frame at that rate, after SIFS."""
        timing = self._acks.get(rate)
        if timing is None:
            timing = self._acks[rate] = self._answer(rate, ACK_BYTES)
        return timing

    def block_ack(self, rate: Rate) -> Timing:
        """Return the times of the BlockAck of an A-MPDU at that rate, after SIFS."""
        timing = self._block_acks.get(rate)
        if timing is None:
            timing = self._block_acks[rate] = self._answer(rate, BLOCK_ACK_BYTES)
        return timing

    def _answer(self, rate: Rate, size: int) -> Timing:
        phy = self._phy
        control = phy.control_rate(rate)
        coding = Coding(self._table.control_tables[control], 8 * size)
        return Timing(phy.duration(control, size), phy.sifs, control.preamble, coding)
