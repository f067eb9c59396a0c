"""Many stations: fairness and collisions by theory, hidden terminals, interference in pieces."""

from __future__ import annotations

import math

import pytest

from emulation.radio.errors import log_survival
from emulation.radio.medium import BROADCAST
from emulation.radio.spec import RadioSpec
from tests.emulation.radio.channels import SIZE, bianchi, channel, drain, poisson, saturate


def _ring(senders: int) -> list[tuple[float, float]]:
    """Return positions of senders around a receiver, which comes last and is as far from each."""
    angles = [2 * math.pi * i / senders for i in range(senders)]
    return [*((20 * math.cos(a), 20 * math.sin(a)) for a in angles), (0.0, 0.0)]


@pytest.mark.parametrize("senders", [2, 10])
def test_saturated_stations_collide_as_bianchi_says_and_share_fairly(senders: int) -> None:
    medium = channel(_ring(senders), RadioSpec(range=250, retry_limit=255))
    saturate(medium, dict.fromkeys(range(senders), senders), seconds=10.0)
    counters = medium.counters
    collided = sum(counters.retries) / sum(counters.sent)
    # Bianchi has every station count down in every slot, and each transmission collide with the
    # same chance.  In the standard a station that has just transmitted may draw zero and be alone
    # in the first slot, which the others have counted already: some per cent fewer collisions.
    assert collided == pytest.approx(bianchi(senders, 16, 6), rel=0.1)
    sent = counters.sent[:senders]
    fairness = sum(sent) ** 2 / (senders * sum(n * n for n in sent))  # Jain
    assert fairness > 0.98


def test_one_saturated_station_has_the_throughput_of_the_timing() -> None:
    medium = channel([(0, 0), (5, 0)])
    deliveries = saturate(medium, {0: 1}, seconds=2.0)
    phy = medium.table.phy
    frame = phy.duration(phy.rates[-1], phy.mpdu_bytes(1000))
    mean = frame + phy.sifs + phy.ack_duration(phy.rates[-1]) + phy.ifs + 7.5 * phy.slot
    assert len(deliveries) == pytest.approx(2.0 / mean, rel=0.02)


def test_hidden_terminals_lose_frames_and_stations_that_sense_each_other_do_not() -> None:
    lost = {}
    for name, distance in (("hidden", 200.0), ("exposed", 140.0)):
        medium = channel([(-distance, 0), (distance, 0), (0, 0)])
        assert (1 in medium.table.row(0).sense) is (name == "exposed")
        heard = poisson(medium, {0: BROADCAST, 1: BROADCAST}, rate=150, seconds=4.0)
        lost[name] = 1 - sum(2 in delivery.receivers for delivery in heard) / 1200
    # Hidden frames are vulnerable for two airtimes: 1 - exp(-2 x 150/s x 1.394 ms) = 34 %.
    assert lost["hidden"] == pytest.approx(0.34, abs=0.06)
    assert lost["exposed"] < 0.04


def test_senders_out_of_each_others_way_use_the_channel_at_the_same_time() -> None:
    apart = channel([(0, 0), (10, 0), (3000, 0), (3010, 0)])
    saturate(apart, {0: BROADCAST, 2: BROADCAST}, seconds=0.5)
    alone = channel([(0, 0), (10, 0)])
    saturate(alone, {0: BROADCAST}, seconds=0.5)
    assert sum(apart.counters.sent) == pytest.approx(2 * sum(alone.counters.sent), rel=0.05)


def test_the_air_around_a_receiver_is_reserved_for_its_ack() -> None:
    # 2 senses the receiver but not the sender, 3 the sender but not the receiver.
    medium = channel([(0, 0), (150, 0), (350, 0), (-200, 0)])
    assert [sorted(medium.table.row(i).sense) for i in (0, 1)] == [[0, 1, 3], [0, 1, 2]]
    medium.transmit(0.0, 0, 1, SIZE, "data")
    (data,) = medium.advance(medium.next_event())
    phy = medium.table.phy
    rate = phy.rates[medium.table.unicast_rate(medium.table.row(0), 1)]
    ack_end = data.time + phy.sifs + phy.ack_duration(rate)
    medium.transmit(data.time + phy.sifs / 2, 3, BROADCAST, SIZE, "3")  # knows it by the NAV
    medium.transmit(ack_end - 20e-6, 2, BROADCAST, SIZE, "2")  # senses the ACK
    later = drain(medium)
    airtime = phy.duration(phy.basic_rate, phy.mpdu_bytes(SIZE))
    assert {delivery.frame for delivery in later} == {"2", "3"}
    assert min(delivery.time for delivery in later) >= ack_end + phy.ifs + airtime - 1e-9
    assert medium.counters.retries[0] == 0


def test_interference_counts_for_the_part_of_the_frame_that_it_covers() -> None:
    # Receiver at the origin, locked on to a sender at 180 m; two interferers hidden from it.
    phy = channel([(0, 0)]).table.phy
    long, short = 1500, 300
    duration = phy.duration(phy.basic_rate, phy.mpdu_bytes(long))
    brief = phy.duration(phy.basic_rate, phy.mpdu_bytes(short))
    positions = [(0.0, 0.0), (180.0, 0.0), (-280.0, 0.0), (0.0, 420.0)]
    got = 0
    trials = 300
    medium = channel(positions, seed=4)
    for number in range(trials):
        now = 0.1 * number
        medium.transmit(now, 1, BROADCAST, long, "wanted")
        medium.transmit(now + 0.0003, 2, BROADCAST, short, "noise")
        medium.transmit(now + 0.0005, 3, BROADCAST, short, "noise")
        got += sum(d.frame == "wanted" and 0 in d.receivers for d in drain(medium))
    power = medium.table.row(0).power
    noise = medium.table.noise_mw
    bits = 8 * phy.mpdu_bytes(long)
    payload = duration - 20e-6
    overlap = 0.0002  # 2 alone, both, 3 alone, neither
    pieces = [
        (overlap, power[2]),
        (brief - overlap, power[2] + power[3]),
        (overlap, power[3]),
        (payload - brief - overlap, 0.0),
    ]
    exponent = sum(
        time / payload * bits * float(log_survival(phy.basic_rate, power[1] / (noise + other)))
        for time, other in pieces
    )
    expected = math.exp(exponent)
    assert 0.2 < expected < 0.8
    assert abs(got - trials * expected) < 4 * math.sqrt(trials * expected * (1 - expected))


@pytest.mark.parametrize("first", [True, False])
def test_a_station_locks_on_to_one_frame_at_a_time(first: bool) -> None:
    # 1 and 3 are near the receiver 0; 2 is far, hidden from both, and sends for a long time.
    radio = RadioSpec(range=250, capture_threshold_db=60)
    medium = channel([(0, 0), (100, 0), (-250, 0), (100, 20)], radio)
    assert 2 not in medium.table.row(1).sense | medium.table.row(3).sense
    if first:
        # 0 is locked on to this when the long frame starts, so never locks on to the long one.
        medium.transmit(0.0, 1, BROADCAST, 300, "early")
    medium.transmit(0.0002, 2, BROADCAST, 1500, "long")
    medium.transmit(0.0010, 3, BROADCAST, 300, "late")
    heard = [delivery.frame for delivery in drain(medium) if 0 in delivery.receivers]
    assert heard == (["early", "late"] if first else [])
