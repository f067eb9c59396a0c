"""The medium against references from outside: Bianchi's formula, counted slots, and ns-3.

The numbers of ns-3 were made by `python -m tests.benchmarks.medium_against_ns3` with ns-3 3.37
(Debian 12, ns3 3.37-2) on the scenes of `tests.benchmarks.ns3.scenes`: 802.11a at 5,180 MHz (our
"g" above 4.9 GHz), NIST error model, noise figure 7 dB, YANS channel with log-distance loss
(exponent 3), transmit power for 250 m, ConstantRateWifiManager with ACKs at 6/12/24 Mb/s,
preamble detection at our carrier sense (-93.1 dBm, 0.85 dB SINR), capture 10 dB, 8 transmissions
a unicast, 128 frames a queue; 1,000 bytes of payload; 20 s of saturation, 100 s of hidden
terminals, 4,000 broadcasts a distance.  docs/model.md explains the differences.
"""

from __future__ import annotations

import math
from typing import Final

import pytest

from emulation.radio.airtime import phy_for
from emulation.radio.spec import LogDistance
from tests.benchmarks.ns3 import scenes
from tests.benchmarks.ns3.bianchi import counted_throughput, saturation_throughput

PHY: Final = phy_for("g", scenes.FREQUENCY)
RATES: Final = {rate.mbps: rate for rate in PHY.rates}
RADIO: Final = scenes.radio(LogDistance())
SECONDS: Final = {54.0: 3.0, 6.0: 12.0}
"""Seconds of saturation by Mb/s: 6,000 to 9,000 frames, a standard error of about 0.4 %."""

NS3_SATURATION: Final[dict[tuple[float, int], float]] = {
    # (Mb/s, senders): Mb/s of payload
    (54.0, 1): 24.880,
    (54.0, 2): 25.491,
    (54.0, 5): 24.796,
    (54.0, 10): 23.301,
    (6.0, 1): 5.096,
    (6.0, 2): 4.870,
    (6.0, 5): 4.499,
    (6.0, 10): 4.178,
}
NS3_LOSS: Final[dict[float, float]] = {
    # metres: share of broadcasts at 6 Mb/s that is lost
    199.9: 0.000,
    231.1: 0.003,
    243.6: 0.029,
    249.9: 0.106,
    256.1: 0.267,
    262.3: 0.611,
    268.6: 0.933,
    281.1: 1.000,
}
NS3_HIDDEN: Final[dict[tuple[bool, int], float]] = {
    # (broadcast, frames/s a sender): delivered
    (True, 60): 0.844,
    (True, 150): 0.640,
    (True, 300): 0.372,
    (False, 60): 0.978,
    (False, 100): 0.931,
    (False, 200): 0.516,
    (False, 300): 0.337,
}


def saturated(mbps: float, senders: int) -> float:
    """Return the frames a second that arrive from stations that always have one."""
    total = 2 * saturation_throughput(PHY, RATES[mbps], scenes.SIZE, senders, RADIO.retry_limit)
    seconds = SECONDS[mbps]
    frames = scenes.saturating(senders, total, seconds)
    played = scenes.play(RADIO, scenes.circle(senders), frames, seconds, mbps)
    return sum(played.received.values()) / seconds


@pytest.mark.slow
@pytest.mark.parametrize(("mbps", "senders"), NS3_SATURATION)
def test_saturation_throughput_is_that_of_the_references(mbps: float, senders: int) -> None:
    ours = saturated(mbps, senders)
    retries = RADIO.retry_limit
    # 3 %: Bianchi's chain does not freeze counters; ns-3 has EIFS after some collisions only.
    bianchi = saturation_throughput(PHY, RATES[mbps], scenes.SIZE, senders, retries)
    assert ours == pytest.approx(bianchi, rel=0.03)
    assert 8e-3 * ours == pytest.approx(NS3_SATURATION[mbps, senders], rel=0.03)
    # With freezing and with EIFS there is no difference but chance.
    counted = counted_throughput(PHY, RATES[mbps], scenes.SIZE, senders, retries, frames=40_000)
    assert ours == pytest.approx(counted, rel=0.015)


@pytest.mark.parametrize(("metres", "lost"), NS3_LOSS.items())
def test_loss_over_distance_is_that_of_ns3(metres: float, lost: float) -> None:
    count = 1000
    frames = scenes.apart(count, [-1])
    positions = [(0.0, 0.0), (metres, 0.0)]
    played = scenes.play(RADIO, positions, frames, frames[-1].time + 1, 6.0)
    ours = 1 - played.received.get((0, 1), 0) / count
    deviation = math.sqrt(lost * (1 - lost) * (1 / count + 1 / 4000))
    assert abs(ours - lost) <= 4 * deviation + 0.003


@pytest.mark.parametrize(("broadcast", "load"), NS3_HIDDEN)
def test_delivery_of_hidden_terminals_is_that_of_ns3(broadcast: bool, load: int) -> None:
    seconds = 40.0
    frames = scenes.poisson(load, seconds, scenes.SIZE, broadcast)
    played = scenes.play(RADIO, scenes.HIDDEN, frames, seconds + 1, 6.0)
    delivered = sum(played.received.get((source, 0), 0) for source in (1, 2)) / len(frames)
    # Chance, and the queues that are full at the end: more of a shorter run's frames.
    assert delivered == pytest.approx(NS3_HIDDEN[broadcast, load], abs=0.03)
    if broadcast:
        airtime = PHY.duration(PHY.basic_rate, PHY.mpdu_bytes(scenes.SIZE))
        poisson = scenes.hidden_broadcast_delivery(load, airtime)
        assert delivered == pytest.approx(poisson, abs=0.02)
