"""Positions of the radios of a real-time medium: on their trajectories, unless moved by hand.

Sans-I/O.  Trajectories begin at the instant given to `start`; until then every radio is at the
start of its own.  Updates fall on a fixed grid of ticks, which a late update does not shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from emulation.media.control import ControlError
from emulation.mobility.trajectory import Trace, Waypoint

NEVER: Final = float("inf")


class RadioPositions:
    """Positions of radios that follow `trajectories`, updated every `tick` seconds."""

    def __init__(self, trajectories: Sequence[Sequence[Waypoint]], tick: float) -> None:
        self._trace = Trace(trajectories)
        self._last_move = max(track[-1].time for track in trajectories)
        self._tick = tick
        self._epoch: float | None = None
        self._moved: dict[int, tuple[float, float]] = {}
        self.due = NEVER
        """When the next update falls due, on the clock of `start`."""

    def start(self, epoch: float, now: float) -> npt.NDArray[np.float64]:
        """Let the trajectories begin at `epoch`; return the positions as `update` does."""
        self._epoch = epoch
        return self.update(now)

    def move(self, radio: int, x: float, y: float) -> None:
        """Put a radio at (x, y) in metres until it is released."""
        self._moved[radio] = (x, y)

    def release(self, radio: int) -> None:
        """Put a radio back onto its trajectory."""
        self._moved.pop(radio, None)

    def at(self, now: float) -> npt.NDArray[np.float64]:
        """Return all positions, an array (N, 2) of metres."""
        xy = self._trace.positions(self._elapsed(now))
        for radio, position in self._moved.items():
            xy[radio] = position
        return xy

    def update(self, now: float) -> npt.NDArray[np.float64]:
        """Return all positions, and set `due` to the next tick at which one may change."""
        elapsed = self._elapsed(now)
        if self._epoch is None or not self._trace.moving or elapsed >= self._last_move:
            self.due = NEVER
        else:
            ticks = int((now - self._epoch) / self._tick) + 1
            self.due = self._epoch + max(ticks, 0) * self._tick
        return self.at(now)

    def _elapsed(self, now: float) -> float:
        return 0.0 if self._epoch is None else max(now - self._epoch, 0.0)


def position_of(position: object) -> tuple[float, float, float]:
    """Return x, y and z of a position.  Raises `ControlError`."""
    numbers = isinstance(position, list | tuple) and len(position) in (2, 3)
    if not numbers or not all(_is_number(value) for value in position):  # type: ignore[attr-defined]
        raise ControlError(f"move: a position is [x, y] or [x, y, z] in metres, not {position!r}")
    x, y, z = (*map(float, position), 0.0)[:3]  # type: ignore[call-overload]
    return x, y, z


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < 1e9  # type: ignore[arg-type]
