"""Disturbances of a region: jammers, and lines that no link crosses."""

from __future__ import annotations

from typing import NamedTuple

Line = tuple[float, float, float, float]
"""x0, y0, x1, y1 of two points of a line, metres."""


class Jammer(NamedTuple):
    """Radiates noise of `power_dbm` (isotropic) from (x, y), metres: `duty` of each `period`, s."""

    x: float
    y: float
    power_dbm: float
    duty: float
    period: float
