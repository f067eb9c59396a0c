"""The paper's derivation, equations 1 to 6 (section V.A), beside what it should give.

Lengths are in cell sides (l = 1) and times in cell sides over v.  A ring i is the square circle of
the cells that are i hops away from the central one.

  * (1), (2): the mean ring of a destination, all cells but the central one equally likely, is
    (2k+1)/3.
  * (3), (4): the mean distance from the middle to ring i.  With r along the axis that is
    perpendicular to the side, a point is r sec(theta) away and the element of area is
    r sec^2(theta) dr dtheta; the paper has r dr dtheta, and so i ln(sqrt(2)+1) = 0.88 i, although
    every point of ring i is at least i - 1/2 away, and half of its area more than i.  Done with
    that element, it is (sqrt(2) + ln(sqrt(2)+1))/2 (i + 1/(12 i)) = 1.15 i and a little.
  * (5): the time, (4) over v; the paper drops the logarithm there: i (sqrt(2)+1) = 2.41 i.  What
    it concludes, that the time grows with i, holds with any factor.
  * (6): packets per event, (2k+1)/6: half of (2), since events come evenly while i(t) grows evenly
    from 0 to i(T), and since the legs are averaged, each leg being one value.  Averaged over events
    instead, long legs weigh more, as their time grows with i: E(i^2) / (2 E(i)).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, Final

LOG: Final = math.log(math.sqrt(2) + 1)
STEPS: Final = 400
"""Points in each direction of a numerical integral."""

PAPER: Final = "paper"
INTEGRAL: Final = "integral"
DRAWN: Final = "drawn"
AS_PAPER_DRAWN: Final = "drawn with the paper's element of area"


def formulas(k: int) -> Iterator[dict[str, Any]]:
    """Yield rows of equation, way and value: as the paper has it, and worked out."""
    rings = [(ring, 8 * ring) for ring in range(1, k + 1)]
    cells = sum(count for _, count in rings)
    mean = sum(ring * count for ring, count in rings) / cells
    yield _row("2: mean hops to a destination", PAPER, (2 * k + 1) / 3)
    yield _row("2: mean hops to a destination", INTEGRAL, mean)
    yield _row("4: mean distance to ring k", PAPER, k * LOG)
    yield _row("4: mean distance to ring k", INTEGRAL, ring_distance(k))
    yield _row("5: mean time to ring k", PAPER, k * (math.sqrt(2) + 1))
    yield _row("5: mean time to ring k", INTEGRAL, ring_distance(k))
    yield _row("6: packets per event", PAPER, (2 * k + 1) / 6)
    yield _row("6: packets per event", INTEGRAL, mean / 2)
    # A leg to ring i takes a time that is proportional to i, and has i/2 packets per event.
    of_events = sum(count * ring * ring / 2 for ring, count in rings) / (mean * cells)
    yield _row("6 over events: packets per event", INTEGRAL, of_events)


def ring_distance(ring: int) -> float:
    """Return the mean distance of the points of a ring from the middle, by the midpoint rule.

    One of the eight equal sectors, in Cartesian coordinates: 0 <= y <= x, x from ring - 1/2 to
    ring + 1/2.
    """
    total = area = 0.0
    for i in range(STEPS):
        x = ring - 0.5 + (i + 0.5) / STEPS
        for j in range(STEPS):
            y = x * (j + 0.5) / STEPS
            weight = x / STEPS / STEPS
            total += weight * math.hypot(x, y)
            area += weight
    return total / area


def draws(seed: int, k: int, legs: int) -> Iterator[dict[str, Any]]:
    """Yield the results of random legs: straight paths from the middle to uniform points.

    Hops are those between 8-neighbours, which is the ring of the client's cell; packets per event
    are the mean of the hops along a leg, in time.
    """
    rng = random.Random(f"{seed}/{k}")
    half = k + 0.5
    hops, passed, packets, times, of_ring = [], [], [], [], []
    for _ in range(legs):
        x, y = rng.uniform(-half, half), rng.uniform(-half, half)
        far = max(abs(x), abs(y))
        hops.append(_ring(far))
        passed.append(_ring(abs(x)) + _ring(abs(y)))
        packets.append(_mean_ring(far))
        times.append(math.hypot(x, y))
        if _ring(far) == k:
            of_ring.append(math.hypot(x, y))
    moved = [ring for ring in hops if ring]  # (1) leaves out the central cell
    pooled = sum(p * t for p, t in zip(packets, times, strict=True)) / sum(times)
    yield _row("2: mean hops to a destination", DRAWN, sum(moved) / len(moved))
    yield _row("2: mean cells that the way enters", DRAWN, sum(passed) / len(passed))
    yield _row("4: mean distance to ring k", DRAWN, sum(of_ring) / len(of_ring))
    yield _row("5: mean time to ring k", DRAWN, sum(of_ring) / len(of_ring))
    # Equation 4 as it stands: r sec(theta) over the element r dr dtheta, over the ring's area.
    total = sum(
        rng.uniform(k - 0.5, k + 0.5) ** 2 / math.cos(rng.uniform(0.0, math.pi / 4))
        for _ in range(legs)
    )
    as_paper = total / legs * math.pi / 4 / k
    yield _row("4: mean distance to ring k", AS_PAPER_DRAWN, as_paper)
    yield _row("6: packets per event", DRAWN, sum(packets) / len(packets))
    yield _row("6 over events: packets per event", DRAWN, pooled)


def _ring(distance: float) -> int:
    """Return the ring of a point that far along an axis."""
    return math.floor(distance + 0.5)


def _mean_ring(far: float) -> float:
    """Return the mean of the ring over a path from 0 to `far`, at even speed."""
    whole = _ring(far)
    if not whole:
        return 0.0
    # Rings 1 to whole - 1 take 1 each, and the last one what is left.
    return (whole * (whole - 1) / 2 + whole * (far - whole + 0.5)) / far


def _row(equation: str, way: str, value: float) -> dict[str, Any]:
    return {"equation": equation, "way": way, "value": value}
