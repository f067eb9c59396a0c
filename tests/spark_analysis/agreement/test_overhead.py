"""What the time that nodes take explains, delivery by delivery, and what it must not excuse."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from random import Random

import pytest

from spark_analysis.agreement.agreement import Agreement, Answer, compare
from spark_analysis.agreement.measures import DeliveryWay, Measures, Side, StageMeasure
from spark_analysis.agreement.overhead import Overhead, half_width
from spark_analysis.measures.stages import DelayStage

REPEATS = 6
DELIVERIES = 300
CHANNEL = 0.0009
"""s, mean of waiting for the channel and airtime of a hop."""
LATE = 0.0003
"""s, p99 of how late the medium in real time is."""

Draw = Callable[[Random], float]
"""A time at a node, or on the medium, s."""


def none(_: Random) -> float:
    return 0.0


def always(seconds: float) -> Draw:
    return lambda _: seconds


def skewed(mean: float) -> Draw:
    """Times whose mean is 1.65 times their median, as those of a process on a busy machine."""
    return lambda rng: mean * rng.lognormvariate(-0.5, 1.0)


def of_deliveries(
    run: str,
    seed: int,
    hops: Sequence[int],
    originate: Draw = none,
    forward: Draw = none,
    notify: Draw = none,
    channel: Draw = none,
    kept: bool | None = None,
) -> tuple[Measures, list[dict[DelayStage, float]]]:
    """Return a run of deliveries over so many hops each, and what each spent in the stages, mean.

    What the channel takes is the same in all runs of a seed, but for `channel` more a hop.
    """
    air, nodes = Random(seed), Random(f"{run} {seed}")
    ways, spent = [], []
    steps: dict[DelayStage, list[float]] = {stage: [] for stage in DelayStage}
    for each in hops:
        radio = [air.expovariate(1 / CHANNEL) + channel(nodes) for _ in range(each)]
        ends = originate(nodes), notify(nodes)
        forwards = tuple(forward(nodes) for _ in range(each - 1))
        ways.append(DeliveryWay(each, sum((*radio, *ends, *forwards)), ends[0], forwards, ends[1]))
        of = {
            DelayStage.ORIGINATE: [ends[0]],
            DelayStage.MEDIUM: radio[:1],
            DelayStage.FORWARD: list(forwards),
            DelayStage.RELAY: radio[1:],
            DelayStage.NOTIFY: [ends[1]],
        }
        spent.append({stage: statistics.fmean(of[stage]) for stage in of if of[stage]})
        for stage, found in of.items():
            steps[stage] += found
    measured = Measures(
        run=run,
        seed=seed,
        delivery=1.0,
        delay=statistics.median(way.delay for way in ways),
        hops=statistics.fmean(hops),
        frames={"EVENT": 1000.0},
        stages={
            stage: StageMeasure(statistics.median(found), sum(found) / len(ways))
            for stage, found in steps.items()
            if found
        },
        ways=tuple(ways),
        traced=1.0,
        kept_real_time=kept,
        late_median=LATE / 3 if kept else math.nan,
        late_p99=LATE if kept else math.nan,
    )
    return measured, spent


def hops_of(seed: int, longer: int = 0) -> list[int]:
    """Return the hops of a run's deliveries: 4 to 9, as in a tree of brokers."""
    rng = Random(f"hops {seed}")
    return [rng.randint(4, 9) + longer for _ in range(DELIVERIES)]


def tap_and_virtual(
    originate: Draw = none,
    forward: Draw = none,
    notify: Draw = none,
    channel: Draw = none,
    wait: Draw = none,
    longer_ways: int = 0,
) -> Agreement:
    """Compare repeats in real time, with these times, with an ideal backend.

    `wait` is what forwarders wait on purpose, drawn by each node of both sides.
    """
    matched, runs = [], []
    for seed in range(REPEATS):
        tap, took = of_deliveries(
            f"tap{seed}", seed, hops_of(seed, longer_ways), kept=True,
            originate=originate,
            forward=lambda rng: forward(rng) + wait(rng), notify=notify, channel=channel,
        )  # fmt: skip
        virtual, would = of_deliveries(f"virtual{seed}", seed, hops_of(seed), forward=wait)
        runs.append((tap, virtual))
        matched.append(
            {
                stage: statistics.median(
                    a[stage] - b[stage] for a, b in zip(took, would, strict=True)
                )
                for stage in DelayStage
            }
        )
    first, second = zip(*runs, strict=True)
    return compare(Side("tap", first), Side("virtual", second), matched)


def busy(channel: Draw = none, wait: Draw = none) -> Agreement:
    """Compare a backend whose nodes take as long as those of a busy machine with an ideal one."""
    return tap_and_virtual(skewed(0.0006), skewed(0.0005), skewed(0.0006), channel, wait)


def part(found: Agreement, stage: DelayStage) -> Overhead:
    (one,) = (each for each in found.overhead if each.stage == stage)
    return one


def by_medians(found: Agreement) -> float:
    """Return what the medians of the stages would explain, a delivery's many times theirs, s."""
    shifts = []
    for run in found.second.runs:
        longer = [
            way.delay
            + sum(
                each.median.difference.mean
                * (way.hops - 1 if each.stage in (DelayStage.FORWARD, DelayStage.RELAY) else 1)
                for each in found.overhead
            )
            for way in run.ways
        ]
        shifts.append(statistics.median(longer) - run.delay)
    return statistics.fmean(shifts)


def test_node_time_alone_agrees() -> None:
    found = tap_and_virtual(originate=always(0.0004), forward=always(0.0005), notify=always(0.0003))
    off = found.delay.quantity.difference.mean
    assert off == pytest.approx(0.0007 + 5.5 * 0.0005, rel=0.1)
    assert found.explained.mean == pytest.approx(off)
    assert found.delay.answer is Answer.AGREES


def test_skewed_node_times_over_many_hops_agree_though_their_medians_explain_less() -> None:
    found = busy()
    off = found.delay.quantity.difference.mean
    assert off > by_medians(found) + half_width(found.delay.quantity.difference)
    assert found.explained.mean == pytest.approx(off, rel=0.05)
    assert found.delay.answer is Answer.AGREES


def test_what_explains_has_an_interval_of_the_repeats() -> None:
    found = busy()
    assert found.explained.count == REPEATS
    assert 0 < half_width(found.explained) < found.explained.mean
    assert found.delay.chance_explained == half_width(found.explained)


@pytest.mark.parametrize("more", [0.001, -0.0004])
def test_the_channel_alone_differs(more: float) -> None:
    found = tap_and_virtual(channel=always(more))
    assert found.delay.answer is Answer.DIFFERS
    # By its own account the medium may be late, and no hop counts for more: 7 in the median.
    assert found.explained.mean < 7.1 * LATE
    if more < 0:
        assert found.explained.mean == 0


def test_node_time_does_not_excuse_the_channel() -> None:
    found = busy(channel=always(0.001))
    assert found.delay.answer is Answer.DIFFERS
    assert part(found, DelayStage.RELAY).counts == pytest.approx(LATE)


def test_node_time_in_place_of_waiting_for_the_channel_agrees() -> None:
    found = busy(channel=always(-0.0003))
    assert part(found, DelayStage.RELAY).excess < 0
    assert part(found, DelayStage.RELAY).counts == 0
    alone = busy()
    # It takes nothing off what nodes took, and adds nothing.
    assert found.explained.mean == pytest.approx(alone.explained.mean, rel=0.01)
    assert found.delay.answer is Answer.AGREES


@pytest.mark.parametrize("timer", [0.0015, 0.005, 0.05])
def test_a_timer_of_every_forwarder_is_not_excused_beyond_what_nodes_take(timer: float) -> None:
    def forward(rng: Random) -> float:
        return skewed(0.0005)(rng) + timer

    found = tap_and_virtual(originate=skewed(0.0006), forward=forward, notify=skewed(0.0006))
    assert found.delay.answer is Answer.DIFFERS
    forwards = part(found, DelayStage.FORWARD)
    others = sum(part(found, stage).counts for stage in (DelayStage.ORIGINATE, DelayStage.NOTIFY))
    assert forwards.counts == forwards.limit == pytest.approx(others)
    assert found.explained.mean < (1 + 5.7) * others + 2 * LATE


def test_a_wait_of_some_publishers_is_not_excused() -> None:
    def sometimes(rng: Random) -> float:
        return skewed(0.0006)(rng) + (0.03 if rng.random() < 0.6 else 0.0)

    found = tap_and_virtual(originate=sometimes, forward=skewed(0.0005), notify=skewed(0.0006))
    assert found.delay.answer is Answer.DIFFERS
    assert found.explained.mean < 0.01


def test_waits_that_both_sides_have_now_and_then_are_no_node_time() -> None:
    def route(rng: Random) -> float:
        return 0.03 if rng.random() < 0.2 else 0.0

    found = busy(wait=route)
    assert 0.0003 < part(found, DelayStage.FORWARD).counts <= 0.0005


@pytest.mark.parametrize("wait", [none, always(0.01)])
def test_longer_ways_are_not_excused_by_the_nodes_on_them(wait: Draw) -> None:
    node = always(0.0004)
    found, alone = (
        tap_and_virtual(node, node, node, wait=wait, longer_ways=longer) for longer in (2, 0)
    )
    assert found.delay.answer is Answer.DIFFERS
    assert found.explained.mean == pytest.approx(alone.explained.mean, rel=0.1)


def test_waits_that_are_drawn_otherwise_leave_open_what_they_hide() -> None:
    def drawn(rng: Random) -> float:
        return rng.uniform(0.0, 0.01)

    found = busy(wait=drawn)
    forward = part(found, DelayStage.FORWARD)
    assert forward.most > forward.excess
    assert found.delay.unknown > half_width(found.explained)


def test_a_side_compared_with_itself_is_explained_by_nothing() -> None:
    runs = [
        of_deliveries(
            f"tap{seed}", seed, hops_of(seed), skewed(0.0006), skewed(0.0005), skewed(0.0006),
            kept=True,
        )[0]
        for seed in range(REPEATS)
    ]  # fmt: skip
    side = Side("tap", tuple(runs))
    found = compare(side, side, [dict.fromkeys(DelayStage, 0.0) for _ in runs])
    assert found.explained.mean == pytest.approx(0, abs=1e-9)
    assert found.delay.answer is Answer.AGREES
