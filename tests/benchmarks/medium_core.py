"""Speed of the medium alone, without devices: `python -m tests.benchmarks.medium_core`.

Loads of 512-byte broadcasts, in simulated time: 60 mobile nodes in a square of 1 km, positions
every 0.1 s, and 3,000 static nodes with a mean degree of 45.  Prints events (accesses and frame
ends), frames and deliveries per second of CPU time, and how much faster than real time that is.
"""

from __future__ import annotations

import math
import os
import random
import time

import numpy as np

from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import LogDistance, Propagation, RadioSpec, UnitDisk

RANGE = 250.0
LOG_DISTANCE = LogDistance()


def _drive(
    name: str,
    nodes: int,
    side: float,
    rate: float,
    seconds: float,
    mobile: bool = False,
    model: Propagation = LOG_DISTANCE,
) -> None:
    """Have every node broadcast `rate` times a second for `seconds`, and print the speed."""
    rng = random.Random(1)
    numbers = np.random.default_rng(1)
    medium = Medium(RadioSpec(range=RANGE, propagation=model), nodes, random.Random(2))
    positions = numbers.uniform(0, side, (nodes, 2))
    speeds = numbers.uniform(-20, 20, (nodes, 2))
    medium.set_positions(positions)
    sends = sorted(
        (rng.uniform(0, seconds), rng.randrange(nodes)) for _ in range(int(nodes * rate * seconds))
    )
    if not mobile:
        for node in range(nodes):
            medium.table.row(node)
    deliveries = 0
    tick = 0.1
    began = time.process_time()
    for at, node in sends:
        if mobile and at >= tick:
            medium.set_positions(positions + speeds * tick)
            tick += 0.1
        for delivery in medium.advance(at):
            deliveries += len(delivery.receivers)
        medium.transmit(at, node, BROADCAST, 512, None)
    for delivery in medium.advance(math.inf):
        deliveries += len(delivery.receivers)
    cpu = time.process_time() - began
    totals = medium.counters.totals()
    collided = totals["collisions"] / (deliveries + totals["collisions"])
    print(
        f"{name}: {2 * totals['sent'] / cpu:,.0f} events/s, {totals['sent'] / cpu:,.0f} frames/s, "
        f"{deliveries / cpu:,.0f} deliveries/s; {seconds / cpu:.2f} x real time at "
        f"{rate:g} frames/s a node, {collided:.1%} of receptions collided "
        f"(load {os.getloadavg()[0]:.1f})"
    )


def main() -> None:
    _drive("60 mobile", 60, 1000.0, 20.0, 10.0, mobile=True)
    degree = 45
    side = math.sqrt(3000 * math.pi * RANGE**2 / degree)
    _drive("3,000 static, degree 45, light", 3000, side, 1.0, 3.0)
    _drive("3,000 static, degree 45, busy", 3000, side, 10.0, 1.0)
    disk = UnitDisk(collisions=False)
    _drive("the same, unit disk without collisions", 3000, side, 10.0, 1.0, model=disk)


if __name__ == "__main__":
    main()
