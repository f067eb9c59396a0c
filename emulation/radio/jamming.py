"""Jammers: sources of noise that come and go in bursts, on the air alongside the stations' frames.

A burst is a `Transmission` that nobody decodes: interference to receivers that hear it, and busy
air to stations that sense it.  On a unit disk it reaches as far as the stations do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from emulation.radio.air import Air, Coding, FrameJob, Transmission
from emulation.radio.link_row import Jammer
from emulation.radio.links import Links
from emulation.radio.sensing import CarrierSense

_BEGINS, _ENDS, _STOPS = -1, -2, -3
NOBODY: Final = -2


class Jamming:
    """The jammers of a medium.

    `push(time, kind, what)` schedules a call of `step`, with a negative kind; `silence(frame)`
    freezes the contenders that sense a burst, and `resume(frame, now)` lets them continue counting
    after one that was cut short.
    """

    def __init__(
        self,
        table: Links,
        air: Air,
        sensing: CarrierSense,
        push: Callable[[float, int, Any], None],
        silence: Callable[[Transmission], None],
        resume: Callable[[Transmission, float], None],
    ) -> None:
        self._table, self._air, self._sensing = table, air, sensing
        self._push, self._silence, self._resume = push, silence, resume
        self._coding = Coding(table.basic, 1)

    def begin(self, now: float, jammer: Jammer) -> int:
        """Start a jammer; return its number."""
        number = self._table.add_jammer(jammer)
        self._push(now, _BEGINS, number)
        return number

    def end(self, number: int, now: float) -> None:
        """Stop a jammer, and its burst on the air."""
        self._push(now, _STOPS, number)

    def step(self, kind: int, what: Any, now: float) -> None:
        """Begin or end a burst, or end a jammer."""
        if kind == _BEGINS:
            self._burst(what, now)
        elif kind == _STOPS:
            self._stop(what, now)
        else:
            burst: Transmission = what
            if self._air.active.get(burst.source) is burst:  # it was not cut short
                self._over(burst, now)

    def _burst(self, number: int, now: float) -> None:
        jammer = self._table.jammer(number)
        if jammer is None:
            return
        row, end = self._table.jam_row(number), now + jammer.duty * jammer.period
        noise = FrameJob(NOBODY, 0, None)
        frame = Transmission(row, NOBODY, now, now, end, end, self._coding, noise)
        self._sensing.add(frame)
        self._air.add(frame)
        self._silence(frame)
        self._push(end, _ENDS, frame)
        self._push(now + jammer.period, _BEGINS, number)

    def _stop(self, number: int, now: float) -> None:
        burst = self._air.active.get(number)
        if burst is not None:
            burst.end = burst.reserved = now
            self._over(burst, now)
            self._resume(burst, now)
        self._table.remove_jammer(number)

    def _over(self, burst: Transmission, now: float) -> None:
        self._air.remove(burst)
        self._sensing.end(burst, now)
        self._air.forget(burst)
