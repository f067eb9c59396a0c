"""Repeats of which some lose real time, or lack a value."""

from __future__ import annotations

from spark_analysis.agreement.agreement import AgreementOutcome, compare
from tests.spark_analysis.agreement.test_agreement import (
    changed,
    failed,
    ideal,
    spread_frames,
)


def test_as_many_more_repeats_are_lost_as_of_those_there_are() -> None:
    shares = (0.08, -0.09, 0.05, -0.07)
    whole = compare(spread_frames(ideal(4), (0.0,) * 4), spread_frames(ideal(4), shares))
    half = [spread_frames(ideal(8), 2 * each) for each in ((0.0,) * 4, shares)]
    lost = changed(half[0], [0, 1, 2, 3], kept_real_time=False, failed_checks=("late",))
    assert whole.needed is not None
    assert compare(lost, half[1]).needed == 2 * whole.needed
    slow = changed(half[0], [*range(7)], kept_real_time=False, failed_checks=("late",))
    found = compare(slow, half[1])
    assert (found.outcome, found.needed) == (AgreementOutcome.TOO_SLOW, None)


def test_a_single_run_may_lack_what_the_protocol_is_compared_by() -> None:
    one, other = (changed(ideal(4), own={"overlay_depth": depth}) for depth in (3.0, 6.0))
    lacking = changed(other, [3], own={})
    assert failed(compare(one, lacking)) == ["overlay hops"]
    assert len(compare(one, changed(other, own={})).criteria) == 4
