"""What a leg costs alone, without the rest of the mesh: the paper's 10,000 legs per point.

Packets depend on the leg alone: the serving broker is the central one, a packet to the ring that
the client is in takes as many hops between brokers, and one more to the client.  Frames do not
collide, queues are empty and links take no time, so that delay is waiting.

  * Prediction: an event goes to the ring of the client's cell at that time.
  * Probing: the client probes every 10 s, the first time at a random moment within these.  A probe
    takes the hops to the central broker, and each event that waits comes back in a packet.
  * Batch: events wait until the client has arrived; so do those that no probe fetched before.

Means of legs are means over legs of each leg's mean, `event_mesh_packets` is pooled: over all
events.  Pooled means are greater, since a leg of i rings has i times as many events: by
E(i^2) / E(i)^2, which is 9/8 over a square, less what the middle's legs without events change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_analysis.papers.mesh_prediction.names import BATCH, PREDICTION, PROBING

CELL: Final = 250.0
"""Side of a cell, metres."""
PROBES: Final = 10.0
"""Seconds between probes."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def alone(k: int, interval: float, speed: float, seed: int, legs: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each protocol: packets and delay of random legs, in s."""
    rng = np.random.default_rng([seed, k, round(1000 * interval), round(1000 * speed)])
    x, y = rng.uniform(-(k + 0.5), k + 0.5, (2, legs))
    far = np.maximum(abs(x), abs(y))
    arrival = np.hypot(x, y) * CELL / speed
    events = rng.poisson(arrival / interval)
    leg = np.repeat(np.arange(legs), events)
    time = rng.uniform(0.0, 1.0, len(leg)) * arrival[leg]
    first = rng.uniform(0.0, PROBES, legs)
    probed = np.maximum(np.ceil((arrival - first) / PROBES), 0).astype(np.int64)
    prober = np.repeat(np.arange(legs), probed)
    start = np.repeat(np.cumsum(probed) - probed, probed)
    probe = first[prober] + PROBES * (np.arange(len(prober)) - start)
    fetched = first[leg] + PROBES * np.maximum(np.ceil((time - first[leg]) / PROBES), 0)
    fetched = np.minimum(fetched, arrival[leg])

    def ring(of: Ints, at: Floats) -> Floats:
        rings: Floats = np.floor(far[of] * at / arrival[of] + 0.5)
        return rings

    none = np.zeros(0, np.int64)
    for protocol, reached, probers, probes in (
        (PREDICTION, time, none, none.astype(float)),
        (PROBING, fetched, prober, probe),
        (BATCH, arrival[leg], none, none.astype(float)),
    ):
        hops = np.bincount(leg, ring(leg, reached), legs)
        hops += np.bincount(probers, ring(probers, probes), legs)
        sent = events + np.bincount(probers, minlength=legs)
        waited = np.bincount(leg, reached - time, legs)
        some = events > 0
        yield {
            "protocol": protocol,
            "leg_mesh_packets": float((hops[some] / events[some]).mean()),
            "leg_packets": float(((hops + sent)[some] / events[some]).mean()),
            "event_mesh_packets": float(hops.sum() / events.sum()),
            "leg_delay": float((waited[some] / events[some]).mean()),
        }
