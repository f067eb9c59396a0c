"""Carrier sense beyond reception, reception by threshold, and fixed rates."""

from __future__ import annotations

import math

import pytest

from emulation.radio.airtime import DSSS_RATES, phy_for
from emulation.radio.links import DENSE, Links
from emulation.radio.medium import BROADCAST
from emulation.radio.spec import (
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    TwoRayGround,
    UnitDisk,
)
from tests.emulation.radio.channels import SIZE, channel, drain, poisson, saturate

PHY = phy_for("b")
BROADCAST_TIME = PHY.duration(PHY.basic_rate, PHY.mpdu_bytes(SIZE))
EIFS = PHY.sifs + PHY.ack_duration(PHY.basic_rate) + PHY.ifs


def wavelan(**changes: object) -> RadioSpec:
    """Return ns-2's radio without RTS: received to 250 m, sensed to 550 m."""
    radio = RadioSpec(
        standard="b",
        frequency_mhz=914,
        range=250,
        sense_range=550,
        propagation=TwoRayGround(),
        reception="threshold",
        data_rate_mbps=1,
        basic_rate_mbps=1,
    )
    return radio.model_copy(update=changes)


@pytest.mark.parametrize("count", [4, DENSE + 1])
@pytest.mark.parametrize(
    "propagation", [Friis(), LogDistance(), TwoRayGround(), UnitDisk()], ids=lambda each: each.model
)
def test_frames_are_sensed_up_to_the_range_of_carrier_sense(
    propagation: Propagation, count: int
) -> None:
    radio = RadioSpec(range=250, sense_range=550, propagation=propagation)
    table = Links(radio, count, seed=1)
    table.set_positions([(0, 0), (240, 0), (549.9, 0), (550.1, 0)] + [(9999, 0)] * (count - 4))
    row = table.row(0)
    assert row.sense == {0, 1, 2}
    assert 2 not in row.snr_db
    assert 1 in row.snr_db


def test_the_thresholds_are_those_of_ns2() -> None:
    # CSThresh_ 1.559e-11 W, RXThresh_ 3.652e-10 W, by two-ray ground at 1.5 m and 914 MHz.
    budget = Links(wavelan(), 1, seed=1).budget
    ratio_db = budget.sensitivity_dbm - budget.sense_dbm
    assert ratio_db == pytest.approx(10 * math.log10(3.652e-10 / 1.559e-11), abs=0.01)


def test_the_range_of_carrier_sense_makes_hidden_stations_defer() -> None:
    lost = {}
    for sense_range in (250.0, 550.0):
        radio = wavelan(sense_range=sense_range)
        medium = channel([(-200, 0), (200, 0), (0, 0)], radio)
        assert (1 in medium.table.row(0).sense) is (sense_range > 400)
        heard = poisson(medium, {0: BROADCAST, 1: BROADCAST}, rate=10, seconds=60.0)
        lost[sense_range] = 1 - sum(2 in delivery.receivers for delivery in heard) / 1200
    # Hidden frames are vulnerable for two airtimes of 8.3 ms.
    assert lost[250.0] == pytest.approx(1 - math.exp(-2 * 10 * BROADCAST_TIME), abs=0.04)
    # What remains are equal backoffs after a frame for which both have waited.
    assert lost[550.0] < 0.02


@pytest.mark.parametrize(("bystander", "waits"), [(240.0, PHY.ifs), (400.0, EIFS)])
def test_who_senses_without_decoding_waits_eifs(bystander: float, waits: float) -> None:
    medium = channel([(0, 0), (-100, 0), (bystander, 0)], wavelan())
    seen = set()
    for number in range(60):
        now = float(number)
        medium.transmit(now, 0, BROADCAST, SIZE, "first")
        medium.transmit(now + 0.001, 2, BROADCAST, 100, "second")
        end = now + BROADCAST_TIME
        drain(medium, end + 1e-6)
        gap = medium._stations[2].count_from - end
        assert gap == pytest.approx(waits, abs=1e-8)
        drain(medium)
        seen.add(round((medium._stations[2].access_at - end) / PHY.slot))
    assert len(seen) > 8
    # The same for a station that has a frame only after the one that it sensed.
    medium = channel([(0, 0), (-100, 0), (bystander, 0)], wavelan())
    medium.transmit(0.0, 0, BROADCAST, SIZE, "first")
    drain(medium, BROADCAST_TIME + 1e-6)
    assert medium._sensing.silent_until(2, 1.0) == pytest.approx(BROADCAST_TIME + waits - PHY.ifs)


def test_by_threshold_frames_arrive_up_to_the_range_and_no_farther() -> None:
    medium = channel([(0, 0), (250, 0), (250.1, 0), (-1, 0)], wavelan())
    for number in range(50):
        medium.transmit(number * 0.1, 0, BROADCAST, SIZE, number)
    assert {tuple(sorted(delivery.receivers)) for delivery in drain(medium)} == {(1, 3)}
    assert sum(medium.counters.noise_losses) == 0


@pytest.mark.parametrize(
    ("distance", "first_arrives"), [(170.0, False), (185.0, True), (300.0, True), (560.0, True)]
)
def test_by_threshold_a_frame_survives_a_later_one_that_is_ten_db_weaker(
    distance: float, first_arrives: bool
) -> None:
    # The receiver is at 0, the sender at 100 m: (177.8 / 100)^4 is 10 dB.
    medium = channel([(0, 0), (100, 0), (-distance, 0)], wavelan(sense_range=550.0))
    medium.transmit(0.0, 1, BROADCAST, SIZE, "first")
    medium.transmit(1e-6, 2, BROADCAST, SIZE, "second")  # neither has sensed the other yet
    heard = [delivery.frame for delivery in drain(medium) if 0 in delivery.receivers]
    assert heard == (["first"] if first_arrives else [])


def test_by_threshold_a_stronger_frame_captures_nobody() -> None:
    # Even one that the receiver only senses, from 400 m, spoils a near one that comes later.
    medium = channel([(0, 0), (10, 0), (-400, 0)], wavelan())
    medium.transmit(0.0, 2, BROADCAST, SIZE, "far")
    medium.transmit(1e-6, 1, BROADCAST, SIZE, "near")
    assert not [delivery for delivery in drain(medium) if 0 in delivery.receivers]


def test_beyond_a_unit_disk_frames_are_sensed_and_disturb_nothing() -> None:
    radio = RadioSpec(range=100, sense_range=300, propagation=UnitDisk(), standard="b")
    medium = channel([(0, 0), (90, 0), (-150, 0)], radio)
    assert medium.table.row(2).sense == {0, 1, 2}
    medium.transmit(0.0, 1, BROADCAST, SIZE, "near")
    medium.transmit(1e-6, 2, BROADCAST, SIZE, "sensed")
    assert [(d.frame, d.receivers) for d in drain(medium)] == [("near", [0])]


def test_fixed_rates_hold_for_data_and_for_control() -> None:
    radio = RadioSpec(standard="b", range=250, data_rate_mbps=2, basic_rate_mbps=1)
    medium = channel([(0, 0), (5, 0)], radio)
    deliveries = saturate(medium, {0: 1}, seconds=5.0)
    one, two = DSSS_RATES[:2]
    exchange = PHY.duration(two, PHY.mpdu_bytes(SIZE)) + PHY.sifs + PHY.duration(one, 14)
    mean = exchange + PHY.ifs + 15.5 * PHY.slot
    assert len(deliveries) == pytest.approx(5.0 / mean, rel=0.02)
    assert medium.counters.airtime[1] == pytest.approx(len(deliveries) * PHY.duration(one, 14))
