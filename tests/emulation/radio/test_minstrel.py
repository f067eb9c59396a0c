"""Rate control that learns from losses, against the best fixed rate of each link."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.radio.medium import Medium
from emulation.radio.spec import RadioSpec
from tests.emulation.radio.channels import SIZE, channel

HT = {"standard": "n", "frequency_mhz": 5180, "range": 250, "queue_frames": 300}


def arrivals(medium: Medium, begin: float, end: float) -> int:
    """Keep station 0 busy with frames for station 1 from one time to another; count arrivals."""
    count, now = 0, begin
    while now <= end:
        while medium.backlog(0) < 150:
            medium.transmit(now, 0, 1, SIZE, None)
        now = medium.next_event()
        count += len(medium.advance(now))
    return count


def learned(metres: float, begin: float, end: float, **settings: Any) -> float:
    """Return the frames a second between two times, after a second of learning."""
    radio = RadioSpec.model_validate(HT | {"rate_control": "minstrel"} | settings)
    medium = channel([(0, 0), (metres, 0)], radio)
    arrivals(medium, 0.0, begin)
    return arrivals(medium, begin, end) / (end - begin)


@pytest.mark.parametrize("metres", [5.0, 75.0, 110.0, 160.0, 200.0])
def test_it_comes_close_to_the_best_fixed_rate(metres: float) -> None:
    fixed = [
        arrivals(
            channel([(0, 0), (metres, 0)], RadioSpec.model_validate(HT | {"mcs": mcs})), 0.0, 1.0
        )
        for mcs in range(8)
    ]
    assert learned(metres, 2.0, 4.0) > 0.85 * max(fixed)


def test_it_finds_the_fastest_of_many_rates() -> None:
    settings = {"streams": 4, "width_mhz": 40, "guard_interval": "short"}
    best = RadioSpec.model_validate(HT | settings | {"mcs": 31})
    fixed = arrivals(channel([(0, 0), (5, 0)], best), 0.0, 1.0)
    assert learned(5.0, 2.0, 3.0, **settings) > 0.85 * fixed


def test_it_follows_a_station_that_goes_away_and_returns() -> None:
    radio = RadioSpec.model_validate(HT | {"rate_control": "minstrel"})
    medium = channel([(0, 0), (5, 0)], radio)
    arrivals(medium, 0.0, 1.0)
    near = arrivals(medium, 1.0, 2.0)
    medium.set_positions([(0, 0), (190, 0)])
    arrivals(medium, 2.0, 3.0)
    far = arrivals(medium, 3.0, 4.0)
    medium.set_positions([(0, 0), (5, 0)])
    arrivals(medium, 4.0, 5.0)
    assert arrivals(medium, 5.0, 6.0) == pytest.approx(near, rel=0.1)
    assert 0 < far < near / 2
    slow = channel([(0, 0), (190, 0)], RadioSpec.model_validate(HT | {"mcs": 7}))
    assert far > 10 * arrivals(slow, 0.0, 1.0), "the rate that was best nearby"


def test_a_link_that_loses_all_is_given_up_by_the_rule() -> None:
    radio = RadioSpec.model_validate(HT | {"rate_control": "minstrel", "retry_limit": 3})
    medium = channel([(0, 0), (5000, 0)], radio)
    for number in range(5):
        medium.transmit(0.0, 0, 1, SIZE, number)
    assert medium.advance(10.0) == []
    assert medium.backlog(0) == 0
    assert medium.counters.retry_drops[0] == 5
    assert medium.counters.sent[0] == 5 * 4
