"""Frames whose rates the host chose: the medium follows them, and reports every frame."""

from __future__ import annotations

import random

import pytest

from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES, Rate, phy_for
from emulation.radio.delivery import Status
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import RadioSpec

PHY = phy_for("g")
SLOWEST, FASTEST = OFDM_RATES[0], OFDM_RATES[-1]
MPDU = 300


def watched(*positions: tuple[float, float]) -> tuple[Medium, list[Status]]:
    seen: list[Status] = []

    def on_status(status: Status) -> bool:
        seen.append(status)
        return False

    medium = Medium(RadioSpec(range=250), len(positions), random.Random(1), on_status)
    medium.set_positions(positions)
    return medium, seen


@pytest.mark.parametrize("rate", [SLOWEST, FASTEST, DSSS_RATES[0], HT_RATES[3]])
def test_a_frame_lasts_as_long_as_its_rate_says(rate: Rate) -> None:
    medium, _ = watched((0, 0), (5, 0))
    medium.transmit(1.0, 0, BROADCAST, MPDU, "frame", (rate,))
    (delivery,) = medium.advance(2.0)
    assert delivery.time == pytest.approx(1.0 + PHY.duration(rate, MPDU))
    assert delivery.receivers == [1]


def test_each_try_has_its_own_rate_and_the_last_one_is_the_last() -> None:
    tries = (FASTEST, FASTEST, SLOWEST)
    medium, seen = watched((0, 0), (5, 0))
    medium.transmit(1.0, 0, NOBODY, MPDU, "frame", tries)
    assert medium.advance(2.0) == []
    (status,) = seen
    assert (status.acknowledged, status.attempts) == (False, 3)
    assert medium.counters.airtime[0] == pytest.approx(
        sum(PHY.duration(rate, MPDU) for rate in tries)
    )
    assert (medium.counters.sent[0], medium.counters.retry_drops[0]) == (3, 1)


def test_a_fallback_rate_arrives_if_the_first_cannot() -> None:
    medium, seen = watched((0, 0), (230, 0))
    medium.transmit(1.0, 0, 1, MPDU, "frame", (FASTEST,) * 2 + (SLOWEST,) * 8)
    (delivery,) = medium.advance(2.0)
    assert delivery.receivers == [1]
    assert seen[0].acknowledged
    assert seen[0].attempts >= 3


def test_a_fast_broadcast_does_not_reach_as_far_as_a_slow_one() -> None:
    medium, _ = watched((0, 0), (5, 0), (230, 0))
    for number, rate in enumerate((SLOWEST, FASTEST)):
        medium.transmit(float(number), 0, BROADCAST, MPDU, rate.mbps, (rate,))
    reached = {delivery.frame: set(delivery.receivers) for delivery in medium.advance(3.0)}
    assert reached == {6: {1, 2}, 54: {1}}


def test_the_report_of_a_broadcast_comes_at_its_end() -> None:
    medium, seen = watched((0, 0), (5, 0))
    medium.transmit(1.0, 0, BROADCAST, MPDU, "frame", (SLOWEST,))
    medium.advance(2.0)
    assert seen == [
        Status(1.0 + PHY.duration(SLOWEST, MPDU), "frame", 0, BROADCAST, False, 1),
    ]


def test_frames_lost_with_their_station_are_reported() -> None:
    medium, seen = watched((0, 0), (5, 0))
    for number in range(3):
        medium.transmit(1.0, 0, 1, MPDU, number, (SLOWEST,))
    medium.fail(0)
    assert [(status.frame, status.acknowledged) for status in seen] == [
        (0, False),
        (1, False),
        (2, False),
    ]
    assert medium.advance(2.0) == []
    assert len(seen) == 3


def test_the_signal_of_a_link_is_its_received_power() -> None:
    medium, _ = watched((0, 0), (100, 0), (5000, 0))
    (link,) = medium.links(0)
    assert medium.table.signal_dbm(0, 1) == pytest.approx(link.received_dbm)
    assert medium.table.signal_dbm(0, 2) < medium.table.signal_dbm(0, 1)
