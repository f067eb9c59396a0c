"""RTS and CTS: the exchange, its retries, virtual carrier sense, and hidden terminals."""

from __future__ import annotations

import math
import random

import pytest

from emulation.radio.airtime import CTS_BYTES, OFDM_RATES, RTS_BYTES, phy_for
from emulation.radio.delivery import Status
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import NEVER, LogDistance, RadioSpec, UnitDisk
from tests.benchmarks.ns3 import scenes
from tests.benchmarks.ns3.bianchi import counted_throughput, saturation_throughput
from tests.emulation.radio.channels import SIZE, channel, drain, into, on_air, poisson

PHY = phy_for("g")
MPDU = PHY.mpdu_bytes(SIZE)
RTS = PHY.duration(PHY.basic_rate, RTS_BYTES)
CTS = PHY.duration(PHY.basic_rate, CTS_BYTES)
FASTEST = PHY.duration(OFDM_RATES[-1], MPDU)
ALWAYS = RadioSpec(range=250, rts_threshold=0)


def test_a_unicast_follows_rts_and_cts_at_the_basic_rate() -> None:
    medium = channel([(0, 0), (5, 0)], ALWAYS)
    medium.transmit(1.0, 0, 1, SIZE, "frame")
    (delivery,) = drain(medium)
    # 802.11-2016, 17.4.3: 20 us, and 20 or 14 bytes in symbols of 24 bits, here with 6 us more.
    assert pytest.approx(58e-6) == RTS
    assert pytest.approx(50e-6) == CTS
    assert delivery.time == pytest.approx(1.0 + RTS + PHY.sifs + CTS + PHY.sifs + FASTEST)
    assert delivery[1:] == ("frame", 0, [1])
    counters = medium.counters
    assert (counters.rts, counters.cts) == ([1, 0], [0, 1])
    assert (counters.sent, counters.acks) == ([1, 0], [0, 1])
    ack = PHY.ack_duration(OFDM_RATES[-1])
    assert counters.airtime == [pytest.approx(RTS + FASTEST), pytest.approx(CTS + ack)]


@pytest.mark.parametrize(
    ("threshold", "destination", "requests"),
    [(MPDU - 1, 1, 1), (MPDU, 1, 0), (0, BROADCAST, 0), (NEVER, 1, 0)],
)
def test_only_unicasts_above_the_threshold_are_announced(
    threshold: int, destination: int, requests: int
) -> None:
    medium = channel([(0, 0), (5, 0)], RadioSpec(range=250, rts_threshold=threshold))
    medium.transmit(0.0, 0, destination, SIZE, "frame")
    assert len(drain(medium)) == 1
    assert sum(medium.counters.rts) == sum(medium.counters.cts) == requests


@pytest.mark.parametrize("destination", [1, NOBODY])
def test_an_rts_that_nobody_answers_is_tried_as_often_as_a_short_frame(destination: int) -> None:
    told: list[Status] = []
    radio = RadioSpec(range=250, rts_threshold=0, retry_limit=6, long_retry_limit=3)
    medium = Medium(radio, 2, random.Random(1), into(told))
    medium.set_positions([(0, 0), (5000, 0)])
    for frame in ("first", "second"):
        medium.transmit(0.0, 0, destination, SIZE, frame)
    assert drain(medium) == []
    assert medium.counters.rts[0] == 2 * 7, "dot11ShortRetryLimit 7, for each frame"
    assert medium.counters.sent[0] == 0
    assert medium.counters.retry_drops[0] == 2
    assert [(status.acknowledged, status.attempts) for status in told] == [(False, 0)] * 2
    assert medium.backlog(0) == 0


def test_a_frame_given_up_without_a_cts_is_not_taken_back_with_those_behind_it() -> None:
    taken: list[str] = []

    def told(status: Status) -> bool:
        taken.extend(medium.withdraw(status.source, status.destination))
        return False

    radio = RadioSpec(range=250, rts_threshold=0)
    medium = Medium(radio, 3, random.Random(1), told)
    medium.set_positions([(0, 0), (5000, 0), (5, 0)])
    for frame, destination in (("lost", 1), ("behind", 1), ("other", 2), ("last", 1)):
        medium.transmit(0.0, 0, destination, SIZE, frame)
    assert [delivery.frame for delivery in drain(medium)] == ["other"]
    assert taken == ["behind", "last"]
    assert medium.counters.retry_drops[0] == 1
    assert medium.backlog(0) == 0


def test_data_that_is_lost_after_its_cts_is_tried_as_often_as_a_long_frame() -> None:
    # RTS and CTS at 6 Mb/s arrive at 200 m, the data at 54 Mb/s never does.
    radio = RadioSpec(range=250, rts_threshold=0, data_rate_mbps=54)
    medium = channel([(0, 0), (200, 0)], radio)
    medium.transmit(0.0, 0, 1, SIZE, "frame")
    assert drain(medium) == []
    counters = medium.counters
    assert (counters.rts[0], counters.cts[1], counters.sent[0]) == (4, 4, 4)
    assert (counters.retries[0], counters.retry_drops[0]) == (3, 1)


def test_a_lost_cts_counts_as_a_lost_rts_and_the_window_doubles() -> None:
    medium = channel([(0, 0), (5, 0)], ALWAYS)
    medium.transmit(0.0, 0, 1, SIZE, "frame")
    medium.advance(RTS + 1e-6)
    medium.fail(0, 1)  # the CTS finds no link
    assert drain(medium, RTS + PHY.sifs + CTS + 1e-6) == []
    assert medium._stations[0].window == 2 * PHY.cw_min + 1
    medium.heal(0, 1)
    (delivery,) = drain(medium)
    assert delivery.frame == "frame"
    assert medium.counters.rts[0] >= 2
    assert medium.counters.sent[0] == 1


def test_a_sender_may_fail_between_rts_and_data() -> None:
    for moment in (RTS / 2, RTS + PHY.sifs / 2, RTS + PHY.sifs + CTS + PHY.sifs / 2):
        medium = channel([(0, 0), (5, 0)], ALWAYS)
        medium.transmit(0.0, 0, 1, SIZE, "lost")
        medium.advance(moment)
        medium.fail(0)
        medium.heal(0)
        medium.transmit(0.001, 0, 1, SIZE, "sent")
        assert [delivery.frame for delivery in drain(medium)] == ["sent"]


def test_a_lost_rts_costs_one_of_the_tries_that_the_host_has_chosen() -> None:
    told: list[Status] = []
    medium = Medium(ALWAYS, 2, random.Random(1), into(told))
    medium.set_positions([(0, 0), (5000, 0)])
    medium.transmit(0.0, 0, 1, SIZE, "frame", (OFDM_RATES[7], OFDM_RATES[7], OFDM_RATES[0]))
    drain(medium)
    assert medium.counters.rts[0] == 3
    assert [status.attempts for status in told] == [3]


@pytest.mark.parametrize(
    ("bystander", "hears"), [((380.0, 0.0), "CTS"), ((-200.0, 0.0), "RTS")], ids=["CTS", "RTS"]
)
def test_who_hears_only_one_of_both_waits_for_the_acknowledgement(
    bystander: tuple[float, float], hears: str
) -> None:
    medium = channel([(0, 0), (180, 0), bystander], ALWAYS)
    assert (2 in medium.table.row(0).sense) is (hears == "RTS")
    assert (2 in medium.table.row(1).sense) is (hears == "CTS")
    phy = medium.table.phy
    rate = phy.rates[medium.table.unicast_rate(medium.table.row(0), 1)]
    data = phy.duration(rate, MPDU) + phy.sifs + phy.ack_duration(rate)
    ack_ends = RTS + PHY.sifs + CTS + PHY.sifs + data
    medium.transmit(0.0, 0, 1, SIZE, "data")
    # In the middle of the frame that it cannot sense, if it is hidden from its sender.
    medium.transmit(RTS + PHY.sifs + CTS + 300e-6, 2, BROADCAST, SIZE, "later")
    drain(medium)
    assert medium.counters.received[1] >= 1
    assert medium.counters.retries[0] == 0
    medium = channel([(0, 0), (180, 0), bystander], ALWAYS)
    medium.transmit(0.0, 0, 1, SIZE, "data")
    medium.advance(RTS + PHY.sifs + CTS + 1e-6)
    assert medium._sensing.nav[2] == pytest.approx(ack_ends)
    medium.transmit(RTS + PHY.sifs + CTS + 300e-6, 2, BROADCAST, SIZE, "later")
    frames = on_air(medium)
    drain(medium)
    later = [frame.start for frame in frames if frame.source == 2]
    assert later[0] >= ack_ends + PHY.ifs - 1e-9


def test_a_post_backoff_stands_still_during_the_nav() -> None:
    # 2, hidden from 0, has just transmitted when the CTS of 1 comes, and has a frame again soon.
    for seed in range(20):
        medium = channel([(0, 0), (180, 0), (380, 0)], ALWAYS, seed)
        medium.transmit(0.0, 2, BROADCAST, SIZE, "before")
        (before,) = drain(medium, 0.0015)
        frames = on_air(medium)
        medium.transmit(before.time + 1e-6, 0, 1, 1500, "data")
        medium.transmit(before.time + RTS + PHY.sifs + CTS + 20e-6, 2, BROADCAST, 100, "after")
        drain(medium)
        after = next(frame for frame in frames if frame.source == 2)
        assert after.start >= medium._sensing.nav[2] + PHY.ifs - 1e-9
        assert medium.counters.retries[0] == 0


def test_a_station_whose_nav_is_set_does_not_answer_an_rts() -> None:
    # 2 decodes the CTS of 1 and is then asked by 3, which knows nothing of that exchange.
    medium = channel([(0, 0), (180, 0), (380, 0), (580, 0)], ALWAYS)
    assert 1 not in medium.table.row(3).sense
    medium.transmit(0.0, 0, 1, 1500, "first")
    medium.transmit(RTS + PHY.sifs + CTS + 5e-6, 3, 2, SIZE, "second")
    medium.advance(RTS + PHY.sifs + CTS + RTS + 20e-6)
    assert medium.counters.rts == [1, 0, 0, 1]
    assert medium.counters.cts == [0, 1, 0, 0]
    assert {delivery.frame for delivery in drain(medium)} == {"first", "second"}


@pytest.mark.parametrize("load", [60, 100])
def test_hidden_terminals_lose_their_rts_and_hardly_any_data(load: int) -> None:
    """A and C cannot sense each other; both send 1,000 bytes at 6 Mb/s to B."""
    seconds = 20.0
    lost, requests = {}, 0.0
    for threshold in (NEVER, 0):
        radio = RadioSpec(range=250, data_rate_mbps=6, rts_threshold=threshold)
        medium = channel([(0, 0), (-200, 0), (200, 0)], radio)
        assert 2 not in medium.table.row(1).sense
        poisson(medium, {1: 0, 2: 0}, load, seconds)
        counters = medium.counters
        lost[threshold] = sum(counters.retries) / sum(counters.sent)
        if threshold == 0:
            requests = 1 - sum(counters.cts) / sum(counters.rts)
    airtime = PHY.duration(PHY.basic_rate, MPDU)
    # Without RTS a first try meets a frame of the other in two airtimes; tries after it more often.
    assert lost[NEVER] > 1 - math.exp(-2 * load * airtime)
    # With RTS the other one is silent once it has heard the CTS.
    assert lost[0] < 0.02 * lost[NEVER]
    # What is left are RTS that meet an RTS, in two of its airtimes and SIFS until the CTS: more
    # often than by chance, as both may have waited for the same end, and tries again follow soon.
    assert 1 - math.exp(-load * (2 * RTS + PHY.sifs)) < requests < lost[NEVER] / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mbps", "senders"), [(54.0, 2), (54.0, 10), (6.0, 1), (6.0, 5), (6.0, 10)]
)
def test_saturation_throughput_with_rts_is_that_of_bianchi(mbps: float, senders: int) -> None:
    phy = phy_for("g", scenes.FREQUENCY)
    rate = next(rate for rate in phy.rates if rate.mbps == mbps)
    radio = scenes.radio(LogDistance()).model_copy(update={"rts_threshold": 0})
    seconds = {54.0: 4.0, 6.0: 12.0}[mbps]
    retries = radio.retry_limit
    bianchi = saturation_throughput(phy, rate, scenes.SIZE, senders, retries, rts=True)
    frames = scenes.saturating(senders, 2 * bianchi, seconds)
    played = scenes.play(radio, scenes.circle(senders), frames, seconds, mbps)
    ours = sum(played.received.values()) / seconds
    assert ours == pytest.approx(bianchi, rel=0.02)
    counted = counted_throughput(phy, rate, scenes.SIZE, senders, retries, 40_000, rts=True)
    assert ours == pytest.approx(counted, rel=0.015)


def test_a_station_that_acknowledges_when_its_turn_comes_sends_then() -> None:
    # Where frames do not meet, a short unicast arrives in the middle of one's own exchange.
    radio = RadioSpec(range=250, propagation=UnitDisk(collisions=False), rts_threshold=800)
    medium = channel([(-200, 0), (0, 0), (200, 0)], radio, seed=0)
    rng, time = random.Random(100), 0.0
    sent = [0, 0, 0]
    for _ in range(2500):
        time += rng.expovariate(200)
        source, destination, size = (1, 2, 1200) if rng.random() < 0.5 else (0, 1, 500)
        sent[destination] += medium.transmit(time, source, destination, size, None)
        medium.advance(time)
    drain(medium)
    assert [medium.backlog(station) for station in range(3)] == [0, 0, 0]
    assert medium.counters.received == sent
    assert min(sent[1:]) > 1000


@pytest.mark.parametrize("threshold", [0, NEVER])
def test_a_post_backoff_stands_still_while_an_rts_is_on_the_air(threshold: int) -> None:
    medium = channel([(0, 0), (50, 0), (100, 0)], RadioSpec(range=250, rts_threshold=threshold))
    waits = medium._stations[2]
    medium.transmit(1.0, 2, BROADCAST, 100, None)
    while not waits.slots:  # of the backoff that it counts with nothing more to send
        medium.advance(medium.next_event())
        if not medium.backlog(2) and not waits.slots:
            medium.transmit(medium._now + 1.0, 2, BROADCAST, 100, None)
    slots, slot = waits.slots, medium._phy.slot
    medium.transmit(waits.count_from + 2.5 * slot, 0, 1, SIZE, None)
    if threshold == 0:
        medium.advance(waits.count_from + 2.5 * slot + RTS + 1e-6)
    medium._sensing.still_counting(waits, medium._now)
    assert waits.slots == slots - 2


def test_the_first_transmission_after_a_lost_rts_is_no_retry() -> None:
    medium = channel([(0, 0), (5, 0)], ALWAYS)
    medium.fail(1)
    medium.transmit(0.0, 0, 1, MPDU, None, (OFDM_RATES[0],) * 4)
    medium.advance(0.0001)
    medium.heal(1)
    drain(medium)
    counters = medium.counters
    assert (counters.rts[0], counters.cts[1]) == (2, 1)
    assert (counters.sent[0], counters.retries[0]) == (1, 0)
