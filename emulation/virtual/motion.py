"""A node's own idea of its position: a receiver's fixes, extrapolated along their velocity."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from emulation.virtual.clock import FOREVER, Clock
from nodeapp.host import Position

Place = tuple[float, float, float]
"""A waypoint: seconds into the run, x and y in metres."""


class Motion:
    """A node on its way along `waypoints`, one or more, with `rate` fixes a second."""

    __slots__ = (
        *("_at", "_clock", "_ex", "_ey", "_fixed_at", "_leg_until", "_next_fix", "_position"),
        "_rate",
        *("_since", "_times", "_vx", "_vy", "_waypoints", "_x", "_x0", "_y", "_y0"),
    )

    def __init__(self, clock: Clock, waypoints: Sequence[Place], rate: float) -> None:
        self._clock: Final = clock
        self._waypoints: Final = waypoints
        self._times: Final = [waypoint[0] for waypoint in waypoints]
        self._rate: Final = rate
        self._fixed_at = 0.0
        self._next_fix = 0.0 if len(waypoints) > 1 else FOREVER
        self._since = self._x0 = self._y0 = 0.0
        """When and where the current leg began; it has the velocity of the fix..."""
        self._leg_until = -FOREVER
        """...until then."""
        self._ex = self._ey = 0.0
        """Error of the receiver's fixes, metres."""
        self._at = -1.0
        """When it was last asked for a position."""
        self._stand(waypoints[0])

    def _stand(self, place: Place) -> None:
        _, x, y = place
        self._x, self._y = x + self._ex, y + self._ey
        self._vx = self._vy = 0.0
        self._position = Position(self._x, self._y)

    def misplace(self, dx: float, dy: float) -> None:
        """Let the receiver be wrong by so many metres from now on."""
        self._x += dx - self._ex
        self._y += dy - self._ey
        self._ex, self._ey = dx, dy
        self._at = -1.0
        self._position = Position(self._x, self._y, self._vx, self._vy)

    def position(self) -> Position:
        """Return the last fix, extrapolated along its velocity."""
        now = self._clock.now
        if now != self._at:
            self._at = now
            if now >= self._next_fix:
                self._take_fix(now)
            vx, vy = self._vx, self._vy
            if vx or vy:
                age = now - self._fixed_at
                self._position = Position(self._x + vx * age, self._y + vy * age, vx, vy)
        return self._position

    def _take_fix(self, now: float) -> None:
        number = int(now * self._rate)
        time = self._fixed_at = number / self._rate
        self._next_fix = (number + 1) / self._rate
        if time >= self._leg_until:
            waypoints = self._waypoints
            leg = bisect_right(self._times, time)
            if leg == 0:
                return  # it has not set off yet
            if leg == len(waypoints):
                self._next_fix = FOREVER
                self._stand(waypoints[-1])
                return
            self._since, self._x0, self._y0 = waypoints[leg - 1]
            self._leg_until, x, y = waypoints[leg]
            seconds = self._leg_until - self._since
            self._stand(waypoints[leg - 1])
            self._vx, self._vy = (x - self._x0) / seconds, (y - self._y0) / seconds
        self._x = self._x0 + self._vx * (time - self._since) + self._ex
        self._y = self._y0 + self._vy * (time - self._since) + self._ey
