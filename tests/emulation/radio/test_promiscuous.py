"""Radios that hear unicasts for others, and queues that give frames back."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from emulation.radio.delivery import Delivery, Overheard
from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import RadioSpec, UnitDisk
from tests.emulation.radio.channels import SIZE, channel, drain


def overheard(deliveries: list[Delivery]) -> list[list[int]]:
    return [each.receivers for each in deliveries if isinstance(each, Overheard)]


def test_listeners_that_decode_a_unicast_get_it_after_its_receiver() -> None:
    medium = channel([(0, 0), (5, 0), (5, 5), (6, 6), (9000, 0)])
    for station in (0, 1, 2, 4):
        medium.listen(station)
    medium.transmit(1.0, 0, 1, SIZE, "frame")
    received, heard = drain(medium)
    assert (type(received), received.receivers) == (Delivery, [1])
    assert (type(heard), heard.receivers) == (Overheard, [2])
    assert heard[:3] == received[:3]
    assert medium.counters.received == [0, 1, 0, 0, 0]


def test_broadcasts_and_acknowledgements_are_not_overheard() -> None:
    medium = channel([(0, 0), (5, 0), (5, 5)])
    medium.listen(2)
    medium.transmit(1.0, 0, BROADCAST, SIZE, "all")
    medium.transmit(1.0, 0, 1, SIZE, "one")
    assert overheard(drain(medium)) == [[2]]


def test_every_try_is_overheard_even_if_the_receiver_is_gone() -> None:
    medium = channel([(0, 0), (9000, 0), (5, 5)])
    medium.listen(2)
    medium.transmit(1.0, 0, 1, SIZE, "frame")
    assert overheard(drain(medium)) == [[2]] * (medium.radio.retry_limit + 1)


def test_a_rate_that_is_too_fast_for_a_listener_is_not_overheard() -> None:
    # The next station is reached at 54 Mb/s; the far one decodes a broadcast, at 6 Mb/s.
    medium = channel([(0, 0), (5, 0), (240, 0)])
    medium.listen(2)
    for number in range(20):
        medium.transmit(1.0, 0, 1, SIZE, number)
    assert overheard(drain(medium)) == []
    medium.transmit(9.0, 0, BROADCAST, SIZE, "all")
    assert [each.receivers for each in drain(medium)] == [[1, 2]]


def test_listeners_hear_nothing_over_links_that_failed_or_of_frames_that_collide() -> None:
    medium = channel([(0, 0), (5, 0), (5, 5)])
    medium.listen(2)
    medium.fail(0, 2)
    medium.transmit(1.0, 0, 1, SIZE, "frame")
    assert overheard(drain(medium)) == []
    disk = RadioSpec(range=100, propagation=UnitDisk())
    hidden = Medium(disk, 4, random.Random(1))
    # 1 and 3 do not sense each other; 2 hears both, 0 hears 1 alone.
    hidden.set_positions([(-90, 0), (0, 0), (90, 0), (180, 0)])
    hidden.listen(2)
    hidden.transmit(1.0, 1, 0, SIZE, "one")
    hidden.transmit(1.0, 3, BROADCAST, SIZE, "other")
    assert overheard(drain(hidden)) == []
    hidden.transmit(9.0, 1, 0, SIZE, "alone")
    assert overheard(drain(hidden)) == [[2]]


def received(listening: bool, seed: int) -> list[Delivery]:
    """Return what stations get that is for them, in a disk in which nothing is left to chance."""
    rng = random.Random(seed)
    disk = RadioSpec(range=100, propagation=UnitDisk(collisions=False))
    medium = Medium(disk, 6, random.Random(seed))
    medium.set_positions([(rng.uniform(0, 200), rng.uniform(0, 200)) for _ in range(6)])
    if listening:
        for station in range(6):
            medium.listen(station)
    for number in range(40):
        source, to = rng.sample(range(6), 2)
        medium.transmit(0.001 * number, source, rng.choice((to, BROADCAST)), SIZE, number)
    deliveries = drain(medium)
    assert listening or not overheard(deliveries)
    return [each for each in deliveries if not isinstance(each, Overheard)]


@given(st.integers(0, 2**32))
def test_listening_changes_nothing_of_what_is_received(seed: int) -> None:
    assert received(True, seed) == received(False, seed)


def test_what_waits_for_a_station_is_given_back_and_the_rest_goes_on() -> None:
    medium = channel([(0, 0), (5, 0), (0, 5)])
    for number, to in enumerate((1, 1, 2, 1, BROADCAST, 2)):
        medium.transmit(1.0, 0, to, SIZE, number)
    assert medium.withdraw(0, 1) == [1, 3]  # 0 is on the air
    assert medium.backlog(0) == 4
    assert [each.frame for each in drain(medium)] == [0, 2, 4, 5]
    assert medium.withdraw(0, 1) == []


def test_a_frame_between_two_tries_is_not_given_back() -> None:
    medium = channel([(0, 0), (9000, 0)])
    medium.transmit(1.0, 0, 1, SIZE, "tried")
    medium.transmit(1.0, 0, 1, SIZE, "waits")
    medium.advance(1.003)
    assert medium.counters.retries[0] > 0
    assert medium.withdraw(0, 1) == ["waits"]
    assert medium.backlog(0) == 1
    drain(medium)
    assert medium.counters.retry_drops == [1, 0]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 4), max_size=4))
def test_a_queue_that_was_emptied_is_used_again(seed: int, later: list[int]) -> None:
    medium = channel([(0, 0), (5, 0), (0, 5)], seed=seed)
    medium.transmit(1.0, 1, BROADCAST, SIZE, "busy")
    medium.transmit(1.0001, 0, 2, SIZE, "contends")
    assert medium.withdraw(0, 2) == ["contends"]
    assert medium.backlog(0) == 0
    now = 1.0001
    for number, slots in enumerate(later):
        now += 0.0004 * slots
        medium.transmit(now, 0, 2, SIZE, number)
    assert [each.frame for each in drain(medium)] == ["busy", *range(len(later))]
    assert medium.backlog(0) == 0
