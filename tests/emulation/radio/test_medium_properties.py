"""What holds for the medium with any stations and any traffic."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from emulation.radio.air import Aggregate, ControlFrame, Transmission, jobs_of
from emulation.radio.delivery import Delivery, Status
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import NEVER, LogDistance, RadioSpec, Shadowing, UnitDisk
from tests.emulation.radio.channels import drain, into, on_air

COUNT = 6
_positions = st.lists(
    st.tuples(st.floats(0, 600), st.floats(0, 600)), min_size=COUNT, max_size=COUNT
)
_radios = st.builds(
    RadioSpec,
    standard=st.sampled_from(["b", "g", "n"]),
    range=st.just(250.0),
    propagation=st.sampled_from([LogDistance(), Shadowing(), UnitDisk()]),
    retry_limit=st.integers(0, 4),
    queue_frames=st.integers(1, 4),
    capture_threshold_db=st.sampled_from([0.0, 10.0]),
    sense_range=st.sampled_from([None, 400.0]),
    reception=st.sampled_from(["bit-errors", "threshold"]),
    rts_threshold=st.sampled_from([NEVER, NEVER, 0, 500]),
    long_retry_limit=st.integers(0, 4),
)
_ht = st.builds(
    RadioSpec,
    standard=st.just("n"),
    range=st.just(250.0),
    streams=st.integers(1, 4),
    width_mhz=st.sampled_from([20, 40]),
    guard_interval=st.sampled_from(["long", "short"]),
    ampdu=st.sampled_from([0, 4000, 65_535]),
    rate_control=st.sampled_from(["ideal", "minstrel"]),
    retry_limit=st.integers(0, 4),
    long_retry_limit=st.integers(0, 4),
    queue_frames=st.integers(1, 40),
    rts_threshold=st.sampled_from([NEVER, NEVER, 0, 500]),
)
_sends = st.lists(
    st.tuples(
        st.integers(0, 3000),  # tens of microseconds, so that instants often coincide
        st.integers(0, COUNT - 1),
        st.sampled_from([BROADCAST, NOBODY, *range(COUNT)]),
        st.integers(14, 1514),
    ).filter(lambda send: send[1] != send[2]),
    max_size=40,
)
Send = tuple[int, int, int, int]
Position = tuple[float, float]


def _transmit(medium: Medium, source: int, destination: int, size: int, now: float) -> None:
    medium.transmit(now, source, destination, size, None)


def _change(medium: Medium, station: int, other: int | None, up: bool, _now: float) -> None:
    (medium.heal if up else medium.fail)(station, other)


def _play(medium: Medium, sends: list[Send], step: float | None) -> list[Delivery]:
    """Send all, advancing by events or, if given, by steps of `step` seconds too."""
    result: list[Delivery] = []
    now = 0.0
    for number, (tens, source, destination, size) in enumerate(sorted(sends)):
        while step is not None and now + step < tens * 1e-5:
            now += step
            result += medium.advance(now)
        medium.transmit(tens * 1e-5, source, destination, size, number)
    return result + drain(medium)


def _check_exchanges(medium: Medium, frames: list[Transmission]) -> None:
    """Check that data above the threshold follows its CTS, and that nobody breaks its NAV."""
    phy, limit = medium.table.phy, medium.radio.rts_threshold
    cleared = Counter(
        (frame.destination, frame.end + phy.sifs)
        for frame in frames
        if isinstance(frame, ControlFrame) and frame.answers
    )
    begun: list[tuple[float, int]] = []
    for frame in frames:
        if isinstance(frame, ControlFrame):
            begun += [] if frame.answers else [(frame.start, frame.source)]
        elif frame.acknowledges is None:
            announced = frame.destination != BROADCAST and phy.mpdu_bytes(frame.job.size) > limit
            if isinstance(frame, Aggregate) and len(frame.jobs) > 1:
                announced = frame.announced
            if announced:
                assert cleared[frame.source, frame.start] == 1
            else:
                begun.append((frame.start, frame.source))
    for frame in frames:
        assert not [
            (start, source)
            for start, source in begun
            if source in frame.deferring and frame.end + 1e-9 < start < frame.nav - 1e-9
        ]


@settings(max_examples=75, deadline=None)
@given(st.one_of(_radios, _ht), _positions, _sends, st.integers(0, 2**32))
def test_conservation(
    radio: RadioSpec, positions: list[Position], sends: list[Send], seed: int
) -> None:
    told: list[Status] = []
    medium = Medium(radio, COUNT, random.Random(seed), into(told))
    medium.set_positions(positions)
    frames = on_air(medium)
    deliveries = _play(medium, sends, None)
    ordered = sorted(sends)

    times = [delivery.time for delivery in deliveries]
    assert times == sorted(times)
    got = Counter((d.frame, receiver) for d in deliveries for receiver in d.receivers)
    assert all(number == 1 for number in got.values())
    phy = medium.table.phy
    for delivery in deliveries:
        tens, source, destination, size = ordered[delivery.frame]
        assert delivery.source == source
        assert delivery.receivers
        shortest = phy.duration(phy.rates[-1], phy.mpdu_bytes(size))
        assert delivery.time >= tens * 1e-5 + shortest - 1e-9
        if destination != BROADCAST:
            assert delivery.receivers == [destination]
        for receiver in delivery.receivers:
            assert receiver != source
            assert receiver in medium.table.row(source).snr_db
            if isinstance(radio.propagation, UnitDisk):
                assert math.dist(positions[source], positions[receiver]) <= 250.0

    totals = medium.counters.totals()
    assert totals["queued"] + totals["queue_drops"] == len(sends)
    # An RTS that nobody answers to the end leaves its frame unsent.
    unsent = sum(status.attempts == 0 for status in told)
    assert unsent == 0 or radio.rts_threshold < NEVER
    assert totals["sent"] == totals["queued"] + totals["retries"] - unsent
    assert totals["cts"] <= totals["rts"]
    assert totals["rts"] == 0 or radio.rts_threshold < NEVER
    together = sum(len(jobs_of(frame)) - 1 for frame in frames if frame.acknowledges is None)
    ours = sum(totals[kind] for kind in ("rts", "cts", "sent", "acks"))
    assert len(frames) == ours - together
    assert math.isclose(totals["airtime"], sum(frame.end - frame.start for frame in frames))
    _check_exchanges(medium, frames)
    assert totals["received"] == len(got.keys())
    unicasts = sum(destination != BROADCAST for _, _, destination, _ in sends)
    assert totals["retry_drops"] <= unicasts
    assert [medium.backlog(i) for i in range(COUNT)] == [0] * COUNT


@settings(max_examples=60, deadline=None)
@given(st.one_of(_radios, _ht), _positions, _sends, st.integers(0, 2**32), st.floats(1e-4, 1e-2))
def test_the_outcome_depends_on_the_calls_alone_and_not_on_when_time_is_told(
    radio: RadioSpec,
    positions: list[tuple[float, float]],
    sends: list[Send],
    seed: int,
    step: float,
) -> None:
    outcomes = []
    for steps in (None, None, step):
        medium = Medium(radio, COUNT, random.Random(seed))
        medium.set_positions(positions)
        outcomes.append((_play(medium, sends, steps), medium.counters.as_dict()))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@settings(max_examples=60, deadline=None)
@given(
    _sends,
    st.lists(
        st.tuples(
            st.integers(0, 3000),
            st.integers(0, COUNT - 1),
            st.one_of(st.none(), st.integers(0, COUNT - 1)),
            st.booleans(),
        ),
        max_size=20,
    ),
    st.integers(0, 2**32),
    st.sampled_from([NEVER, 0]),
    st.sampled_from(["g", "n"]),
)
def test_failures_at_any_instant_leave_no_frame_stuck(
    sends: list[Send],
    failures: list[tuple[int, int, int | None, bool]],
    seed: int,
    threshold: int,
    standard: Literal["g", "n"],
) -> None:
    radio = RadioSpec(range=250, rts_threshold=threshold, standard=standard)
    medium = Medium(radio, COUNT, random.Random(seed))
    medium.set_positions([(100 * i, 0) for i in range(COUNT)])
    calls: list[tuple[int, Callable[[float], object]]] = []
    for tens, source, destination, size in sends:
        calls.append((tens, partial(_transmit, medium, source, destination, size)))
    for tens, station, other, up in failures:
        calls.append((tens, partial(_change, medium, station, other, up)))
    for tens, call in sorted(calls, key=lambda call: call[0]):
        medium.advance(tens * 1e-5)
        call(tens * 1e-5)
    drain(medium)
    assert [medium.backlog(i) for i in range(COUNT)] == [0] * COUNT
    for station in range(COUNT):
        medium.heal(station)
        for other in range(COUNT):
            medium.heal(station, other)
    medium.transmit(10.0, 0, 1, 100, "last")
    assert [delivery.frame for delivery in drain(medium)] == ["last"]
