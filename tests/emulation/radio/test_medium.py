"""One or two frames at a time: loss, timing, acknowledgement, queues, failures."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from emulation.radio.airtime import OFDM_RATES, phy_for
from emulation.radio.delivery import Status
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import RadioSpec, UnitDisk
from tests.emulation.radio.channels import SIZE, channel, drain
from tests.emulation.radio.formulas import frame_error_rate

PHY = phy_for("g")
BASIC = PHY.duration(OFDM_RATES[0], PHY.mpdu_bytes(SIZE))
"""Airtime of a broadcast: 1,394 us."""
FASTEST = PHY.duration(OFDM_RATES[-1], PHY.mpdu_bytes(SIZE))
TRIALS = 400
"""Broadcasts of one measurement."""


@pytest.mark.parametrize("distance", [150.0, 230, 240, 250, 255, 260, 265])
def test_loss_over_distance_is_that_of_the_formula(distance: float) -> None:
    medium = channel([(0, 0), (distance, 0)])
    got = 0
    for number in range(TRIALS):
        medium.transmit(number * 0.01, 0, BROADCAST, SIZE, number)
        got += len(drain(medium))
    snr_db = medium.table.row(0).power[1] / medium.table.noise_mw
    expected = float(frame_error_rate(OFDM_RATES[0], 10 * math.log10(snr_db), PHY.mpdu_bytes(SIZE)))
    deviation = math.sqrt(TRIALS * expected * (1 - expected))
    assert abs(TRIALS - got - TRIALS * expected) <= 4 * deviation + 1e-6
    assert medium.counters.noise_losses == [0, TRIALS - got]


def test_an_idle_medium_is_accessed_at_once_and_the_frame_arrives_at_its_end() -> None:
    medium = channel([(0, 0), (10, 0)])
    assert medium.next_event() == math.inf
    medium.transmit(5.0, 0, BROADCAST, SIZE, "frame")
    assert medium.next_event() == pytest.approx(5.0 + BASIC)
    assert medium.advance(5.0 + BASIC - 1e-6) == []
    (delivery,) = drain(medium)
    assert delivery.time == pytest.approx(5.0 + BASIC)
    assert delivery[1:] == ("frame", 0, [1])
    assert medium.counters.airtime == [pytest.approx(BASIC), 0]
    assert medium.next_event() == math.inf


def test_a_unicast_is_fast_and_acknowledged() -> None:
    medium = channel([(0, 0), (5, 0), (5, 5)])
    medium.transmit(1.0, 0, 1, SIZE, "frame")
    (delivery,) = drain(medium)
    assert delivery.time == pytest.approx(1.0 + FASTEST)
    assert delivery[1:] == ("frame", 0, [1])
    assert medium.counters.acks == [0, 1, 0]
    assert medium.counters.airtime == [pytest.approx(FASTEST), pytest.approx(34e-6), 0]
    assert medium.counters.sent == [1, 0, 0]


def test_frames_in_a_row_are_separated_by_ifs_and_backoff() -> None:
    medium = channel([(0, 0), (10, 0)])
    gaps: list[float] = []
    for batch in range(4):
        for number in range(100):
            medium.transmit(float(batch), 0, BROADCAST, 100, number)
        times = [delivery.time for delivery in drain(medium)]
        gaps += [later - earlier for earlier, later in itertools.pairwise(times)]
    airtime = PHY.duration(OFDM_RATES[0], PHY.mpdu_bytes(100))
    slots = [(gap - airtime - PHY.ifs) / PHY.slot for gap in gaps]
    assert all(abs(slot - round(slot)) < 1e-3 for slot in slots)
    assert {round(slot) for slot in slots} == set(range(16))


def test_post_backoff_delays_a_frame_that_comes_right_after_another() -> None:
    waits = set()
    for seed in range(60):
        medium = channel([(0, 0), (10, 0)], seed=seed)
        medium.transmit(0.0, 0, BROADCAST, SIZE, 1)
        (first,) = drain(medium, BASIC + 1e-6)
        medium.transmit(first.time + 1e-6, 0, BROADCAST, SIZE, 2)
        (second,) = drain(medium)
        waits.add(round((second.time - first.time - BASIC - PHY.ifs) / PHY.slot))
    assert len(waits) > 8
    assert waits <= set(range(16))


def test_a_busy_medium_is_waited_for() -> None:
    medium = channel([(0, 0), (10, 0), (20, 0)])
    medium.transmit(0.0, 0, BROADCAST, SIZE, "first")
    medium.transmit(0.0005, 1, BROADCAST, SIZE, "second")
    first, second = drain(medium)
    assert (first.receivers, second.receivers) == ([1, 2], [0, 2])
    assert second.time - first.time >= BASIC + PHY.ifs - 1e-9
    assert sum(medium.counters.collisions) == 0


def test_frames_within_the_cca_time_collide_and_senders_are_deaf() -> None:
    medium = channel([(-100, 0), (100, 0), (0, 0)])
    medium.transmit(0.0, 0, BROADCAST, SIZE, 1)
    medium.transmit(3e-6, 1, BROADCAST, SIZE, 2)
    assert drain(medium) == []
    assert medium.counters.collisions == [1, 1, 2]


def test_half_duplex() -> None:
    # Next to each other, far from interference in strength: still neither hears the other.
    medium = channel([(0, 0), (1, 0)])
    medium.transmit(0.0, 0, BROADCAST, SIZE, 1)
    medium.transmit(0.0, 1, BROADCAST, 100, 2)
    assert drain(medium) == []


@pytest.mark.parametrize("first", ["strong", "weak"])
def test_capture_of_the_stronger_frame(first: str) -> None:
    # The receiver is at 0, a strong sender at 10 m, a weak one at 200 m: 39 dB apart.
    senders = {"strong": 1, "weak": 2}
    second = "weak" if first == "strong" else "strong"
    for threshold, heard in ((10.0, "strong"), (60.0, "strong" if first == "strong" else None)):
        radio = RadioSpec(range=250, capture_threshold_db=threshold)
        medium = channel([(0, 0), (10, 0), (-200, 0)], radio)
        medium.transmit(0.0, senders[first], BROADCAST, SIZE, first)
        medium.transmit(2e-6, senders[second], BROADCAST, SIZE, second)
        frames = [delivery.frame for delivery in drain(medium) if 0 in delivery.receivers]
        assert frames == ([heard] if heard else [])


def test_retries_lift_the_delivery_of_unicasts() -> None:
    outcomes = {}
    for limit in (0, 7):
        medium = channel([(0, 0), (256, 0)], RadioSpec(range=250, retry_limit=limit))
        for number in range(100):
            medium.transmit(number * 0.1, 0, 1, SIZE, number)
        outcomes[limit] = len(drain(medium)) / 100
        totals = medium.counters.totals()
        assert totals["sent"] == 100 + totals["retries"]
    assert outcomes[0] < 0.7
    assert outcomes[7] > 0.98


@pytest.mark.parametrize("destination", [1, NOBODY])
def test_a_unicast_that_nobody_answers_is_given_up(destination: int) -> None:
    medium = channel([(0, 0), (5000, 0)], RadioSpec(range=250, retry_limit=4))
    medium.transmit(0.0, 0, destination, SIZE, "frame")
    assert drain(medium) == []
    assert (medium.counters.sent[0], medium.counters.retries[0]) == (5, 4)
    assert medium.counters.retry_drops == [1, 0]
    assert medium.backlog(0) == 0


def test_a_lost_ack_leads_to_a_retry_and_no_duplicate() -> None:
    medium = channel([(0, 0), (10, 0)])
    medium.transmit(0.0, 0, 1, SIZE, "frame")
    (delivery,) = medium.advance(FASTEST + 1e-6)
    medium.fail(0, 1)  # the ACK, due 10 us after the frame, finds no link
    assert drain(medium, 300e-6) == []
    medium.heal(1, 0)
    assert drain(medium) == []
    assert delivery.receivers == [1]
    assert medium.counters.retries[0] >= 1
    assert medium.counters.acks[1] >= 2
    assert medium.counters.retry_drops == [0, 0]


def test_the_queue_is_bounded_and_drops_are_counted() -> None:
    medium = channel([(0, 0), (10, 0)], RadioSpec(range=250, queue_frames=5))
    accepted = [medium.transmit(0.0, 0, BROADCAST, SIZE, number) for number in range(9)]
    assert accepted == [True] * 5 + [False] * 4
    assert [delivery.frame for delivery in drain(medium)] == [0, 1, 2, 3, 4]
    assert medium.counters.queue_drops == [4, 0]
    assert medium.counters.queued == [5, 0]


def test_a_frame_that_goes_first_overtakes_all_but_the_one_whose_turn_it_is() -> None:
    medium = channel([(0, 0), (10, 0)], RadioSpec(range=250, queue_frames=4))
    for number in range(4):
        assert medium.transmit(0.0, 0, BROADCAST, SIZE, number)
    # The queue is full: the last frame makes room, as in ns-2's PriQueue.
    assert medium.transmit(0.0, 0, BROADCAST, SIZE, "first", first=True)
    assert medium.transmit(0.0, 0, BROADCAST, SIZE, "later", first=True)
    assert not medium.transmit(0.0, 0, BROADCAST, SIZE, "refused")
    assert [delivery.frame for delivery in drain(medium)] == [0, "later", "first", 1]
    assert medium.counters.queue_drops == [3, 0]
    single = channel([(0, 0), (10, 0)], RadioSpec(range=250, queue_frames=1))
    assert single.transmit(0.0, 0, BROADCAST, SIZE, "on the air", first=True)
    assert not single.transmit(0.0, 0, BROADCAST, SIZE, "refused", first=True)
    assert [delivery.frame for delivery in drain(single)] == ["on the air"]


def test_a_station_that_is_down_neither_sends_nor_receives_and_comes_back() -> None:
    medium = channel([(0, 0), (10, 0), (20, 0)])
    for number in range(3):
        medium.transmit(0.0, 0, BROADCAST, SIZE, number)
        medium.transmit(0.0, 1, BROADCAST, SIZE, number)
    medium.advance(BASIC / 2)
    medium.fail(0)
    assert not medium.transmit(BASIC / 2, 0, BROADCAST, SIZE, "refused")
    heard = drain(medium)
    assert {delivery.source for delivery in heard} == {1}
    assert all(delivery.receivers == [2] for delivery in heard)
    assert medium.counters.queue_drops[0] == 4
    medium.heal(0)
    medium.transmit(1.0, 0, BROADCAST, SIZE, "back")
    assert [delivery.receivers for delivery in drain(medium)] == [[1, 2]]


def test_a_station_may_fail_and_heal_while_its_frame_is_on_the_air() -> None:
    medium = channel([(0, 0), (10, 0)])
    medium.transmit(0.0, 0, 1, SIZE, "lost")
    medium.advance(50e-6)
    medium.fail(0)
    medium.heal(0)
    medium.transmit(60e-6, 0, 1, SIZE, "sent")
    assert [delivery.frame for delivery in drain(medium)] == ["sent"]


def test_unit_disks_lose_nothing_inside_but_all_that_overlaps() -> None:
    radio = RadioSpec(range=100, propagation=UnitDisk(), standard="b")
    medium = channel([(0, 0), (100, 0), (180, 0), (300, 0)], radio)
    medium.transmit(0.0, 0, BROADCAST, SIZE, 1)
    medium.transmit(0.001, 2, BROADCAST, SIZE, 2)  # hidden from 0, both reach 1
    medium.transmit(0.001, 3, BROADCAST, SIZE, 3)  # out of everyone's range
    assert drain(medium) == []
    assert medium.counters.collisions == [0, 2, 0, 0]
    medium.transmit(1.0, 0, BROADCAST, SIZE, 4)
    assert [delivery.receivers for delivery in drain(medium)] == [[1]]


def test_unit_disks_without_collisions_lose_nothing_at_all() -> None:
    radio = RadioSpec(range=100, propagation=UnitDisk(collisions=False))
    medium = channel([(0, 0), (100, 0), (180, 0)], radio)
    medium.transmit(0.0, 0, BROADCAST, SIZE, 1)
    medium.transmit(0.0, 2, BROADCAST, SIZE, 2)
    assert [delivery.receivers for delivery in drain(medium)] == [[1], [1]]


def test_positions_decide_at_the_start_of_a_frame() -> None:
    medium = channel([(0, 0), (10, 0)])
    medium.transmit(0.0, 0, BROADCAST, SIZE, "near")
    medium.set_positions([(0, 0), (5000, 0)])
    assert len(drain(medium)) == 1
    medium.transmit(1.0, 0, BROADCAST, SIZE, "far")
    assert drain(medium) == []


def test_a_sender_learns_whether_its_unicasts_were_acknowledged() -> None:
    told: list[Status] = []

    def on_status(status: Status) -> bool:
        told.append(status)
        return not status.acknowledged

    medium = Medium(RadioSpec(range=250), 3, random.Random(1), on_status)
    medium.set_positions([(0, 0), (10, 0), (2000, 0)])
    medium.transmit(0.0, 0, BROADCAST, SIZE, "to all")
    medium.transmit(0.0, 0, 1, SIZE, "near")
    medium.transmit(0.0, 0, 2, SIZE, "far")
    medium.transmit(0.0, 0, 1, SIZE, "after")
    arrived = []
    while (delivery := medium.next_delivery(1.0)) is not None:
        arrived.append(delivery.frame)
    assert arrived == ["to all", "near"]
    near, far = told
    assert near[1:] == ("near", 0, 1, True, 1)
    assert far[1:] == ("far", 0, 2, False, 1 + RadioSpec().retry_limit)
    stopped = medium.next_delivery(1.0)
    assert stopped is not None, "it stopped at the instant of the status"
    assert stopped.frame == "after"
    assert near.time < far.time < stopped.time
