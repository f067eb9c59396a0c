"""Saturation throughput of the distributed coordination function in closed form.

G. Bianchi, Performance analysis of the IEEE 802.11 distributed coordination function, IEEE JSAC
18 (2000), with the finite number of retries of H. Wu et al., Performance of reliable transport
protocol over IEEE 802.11 wireless LAN: analysis and enhancement (INFOCOM 2002).  n stations within
range of each other always have a frame; a slot is idle, holds one frame, or holds a collision.

Bianchi's chain counts a busy slot as one slot of every station's backoff.  In the standard a busy
medium freezes the count, so that right after a transmission only stations that took part in it and
drew 0 can transmit (I. Tinnirello, G. Bianchi and Y. Xiao, Refinements on IEEE 802.11 distributed
coordination function modeling approaches, IEEE Trans. Veh. Tech. 59, 2010).  `counted_throughput`
includes that: it simulates the counters alone, frame by frame, without time, air or propagation.

With RTS and CTS (section V of Bianchi's paper) only RTS collide: a success takes RTS and CTS more,
a collision no longer than an RTS and the time of the CTS that does not come.
"""

from __future__ import annotations

import random

from emulation.radio.airtime import CTS_BYTES, RTS_BYTES, Phy, Rate


def transmission_probability(p: float, window: int, doublings: int, retries: int) -> float:
    """Return the share of slots in which a station transmits if it collides with chance `p`.

    `window` is CWmin + 1; it doubles after each failure, at most `doublings` times.
    """
    # Mean slots per frame over mean transmissions per frame: stage i is reached with chance p^i.
    attempts = slots = 0.0
    for stage in range(retries + 1):
        reached = p**stage
        attempts += reached
        slots += reached * (window * 2 ** min(stage, doublings) + 1) / 2
    return attempts / slots


def busy_times(phy: Phy, rate: Rate, size: int, rts: bool) -> tuple[float, float]:
    """Return how long a success and a collision silence everybody, seconds, DIFS not included."""
    exchange = phy.duration(rate, phy.mpdu_bytes(size)) + phy.sifs + phy.ack_duration(rate)
    if not rts:
        return exchange, exchange
    request = phy.duration(phy.basic_rate, RTS_BYTES)
    request += phy.sifs + phy.duration(phy.basic_rate, CTS_BYTES)
    return request + phy.sifs + exchange, request


def saturation_throughput(
    phy: Phy, rate: Rate, size: int, stations: int, retries: int, rts: bool = False
) -> float:
    """Return the frames a second that `stations` deliver together.

    Frames of `size` bytes (as Ethernet frames) at `rate`, after RTS and CTS at the basic rate if
    `rts`.  Without them a collision is as long as a success: EIFS and the NAV keep the medium
    silent until the ACK would have ended.
    """
    window, doublings = phy.cw_min + 1, ((phy.cw_max + 1) // (phy.cw_min + 1)).bit_length() - 1
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        tau = transmission_probability(p, window, doublings, retries)
        if 1 - (1 - tau) ** (stations - 1) > p:
            low = p
        else:
            high = p
    busy = 1 - (1 - tau) ** stations
    success = stations * tau * (1 - tau) ** (stations - 1)
    exchange, collision = busy_times(phy, rate, size, rts)
    waits = (1 - busy) * phy.slot + busy * phy.ifs
    return success / (waits + success * exchange + (busy - success) * collision)


def counted_throughput(
    phy: Phy,
    rate: Rate,
    size: int,
    stations: int,
    retries: int,
    frames: int = 200_000,
    eifs: bool = True,
    seed: int = 1,
    rts: bool = False,
) -> float:
    """Return the frames a second of `stations` whose counters freeze, from `frames` transmissions.

    With `eifs`, a collision silences all stations until the ACK would have ended.  Without it,
    bystanders count on after DIFS, and those that collided after their ACK timeout (SIFS, a slot
    and the preamble) and DIFS.  RTS and CTS as for `saturation_throughput`.
    """
    rng = random.Random(seed)
    exchange, collision = busy_times(phy, rate, size, rts)
    if not eifs:
        first = (phy.basic_rate, RTS_BYTES) if rts else (rate, phy.mpdu_bytes(size))
        collision = phy.duration(*first)
    late = round((phy.sifs + phy.slot + rate.preamble) / phy.slot)
    failures = [0] * stations
    left = [rng.randint(0, phy.cw_min) for _ in range(stations)]
    time = 0.0
    delivered = 0
    for _ in range(frames):
        slots = min(left)
        senders = [station for station, count in enumerate(left) if count == slots]
        left = [count - slots for count in left]
        success = len(senders) == 1
        delivered += success
        time += phy.ifs + slots * phy.slot + (exchange if success else collision)
        for station in senders:
            failures[station] = 0 if success else (failures[station] + 1) % (retries + 1)
            window = min((phy.cw_min + 1) << failures[station], phy.cw_max + 1)
            left[station] = rng.randrange(window) + (0 if success or eifs else late)
    return delivered / time
