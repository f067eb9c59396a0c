"""The comparison of two backends: what agrees, what does not, and what its page says."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_analysis.agreement.agreement import (
    DELIVERY_BOUND,
    FRAMES_BOUND,
    Agreement,
    AgreementOutcome,
    Answer,
    compare,
)
from spark_analysis.agreement.measures import DeliveryWay, Measures, Side, StageMeasure
from spark_analysis.agreement.overhead import TIMER, half_width, times
from spark_analysis.agreement.page import STEM, pairs, write_page, write_result
from spark_analysis.agreement.reading import read_agreements
from spark_analysis.agreement.text import reasons, rows, stage_table, verdict
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.stages import DelayStage
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.runs import RunBuilder
from tests.spark_analysis.synthetic import make_analysis, make_run, make_scenario

NO_TIME = {
    DelayStage.ORIGINATE: 0.0,
    DelayStage.MEDIUM: 0.001,
    DelayStage.FORWARD: 0.010,
    DelayStage.RELAY: 0.001,
    DelayStage.NOTIFY: 0.0,
}
"""Median steps of a backend whose nodes take no time, and wait on purpose."""
OVERHEAD = {
    DelayStage.ORIGINATE: 0.0002,
    DelayStage.MEDIUM: 0.0001,
    DelayStage.FORWARD: 0.0005,
    DelayStage.RELAY: 0.0001,
    DelayStage.NOTIFY: 0.0003,
}
HOPS = 4
DELAY = sum(times(stage, HOPS) * step for stage, step in NO_TIME.items())
"""Of every delivery of the ideal backend."""


def measures(
    run: str,
    seed: int,
    delay: float,
    stages: Mapping[DelayStage, float] = NO_TIME,
    late: float = math.nan,
    kept: bool | None = None,
) -> Measures:
    return Measures(
        run=run,
        seed=seed,
        delivery=0.99,
        delay=delay,
        hops=HOPS,
        frames={"HELLO": 400.0, "EVENT": 600.0},
        stages={stage: StageMeasure(step, step) for stage, step in stages.items()},
        ways=(way(delay, stages),) * 3,
        traced=1.0,
        kept_real_time=kept,
        late_median=late / 3,
        late_p99=late,
        failed_checks=("seconds with all cores busy",) if kept is False else (),
    )


def way(delay: float, stages: Mapping[DelayStage, float], hops: int = HOPS) -> DeliveryWay:
    """Return a delivery whose nodes each had it for as long as their stage."""
    return DeliveryWay(
        hops,
        delay,
        stages[DelayStage.ORIGINATE],
        (stages[DelayStage.FORWARD],) * (hops - 1),
        stages[DelayStage.NOTIFY],
    )


def ideal(repeats: int = 3) -> Side:
    """A backend under a virtual clock; repeats differ a little, as by the seed."""
    runs = [measures(f"ideal{i}", i, DELAY + 1e-4 * i) for i in range(repeats)]
    return Side("ideal", tuple(runs))


def real(
    repeats: int = 3,
    overhead: Mapping[DelayStage, float] = OVERHEAD,
    late: float = 0.0003,
    beyond: float = 0.0,
) -> Side:
    """A backend in real time: slower by its overhead, and by `beyond` seconds nobody explains."""
    stages = {stage: NO_TIME[stage] + overhead[stage] for stage in DelayStage}
    slower = _along_the_way(overhead) + beyond
    runs = [
        measures(f"real{i}", i, DELAY + 1e-4 * i + slower, stages=stages, late=late, kept=True)
        for i in range(repeats)
    ]
    return Side("real", tuple(runs))


def _along_the_way(overhead: Mapping[DelayStage, float], hops: float = HOPS) -> float:
    return sum(times(stage, hops) * overhead[stage] for stage in DelayStage)


def compared(first: Side, second: Side) -> Agreement:
    """Compare two sides whose same steps differ as their median steps do."""
    matched = [
        {stage: a.stages[stage].p50 - b.stages[stage].p50 for stage in a.stages if b.stages}
        for a, b in zip(first.runs, second.runs, strict=True)
    ]
    return compare(first, second, matched)


def changed(side: Side, which: Sequence[int] | None = None, **changes: object) -> Side:
    """Return a side with something else in all or some of its runs."""
    return Side(
        side.name,
        tuple(
            replace(run, **changes) if which is None or i in which else run  # type: ignore[arg-type]
            for i, run in enumerate(side.runs)
        ),
    )


def without_deliveries(side: Side) -> Side:
    """Return a side whose runs delivered nothing."""
    nan = math.nan
    return changed(side, delivery=nan, delay=nan, hops=nan, stages={}, ways=())


def failed(agreement: Agreement) -> list[str]:
    return [criterion.name for criterion in agreement.criteria if not criterion.ok]


def test_a_backend_agrees_with_itself() -> None:
    for side in (ideal(), real()):
        found = compared(side, side)
        assert found.outcome == AgreementOutcome.AGREE
        assert all(c.quantity.difference.mean == 0 for c in found.criteria)


def test_a_delay_that_overhead_explains_agrees_and_one_beyond_does_not() -> None:
    # The repeats differ alike on both sides, so chance explains nothing.
    found = compared(real(), ideal())
    assert found.outcome == AgreementOutcome.AGREE
    assert found.delay.bound == pytest.approx(_along_the_way(OVERHEAD))
    assert found.delay.quantity.difference.mean == pytest.approx(found.delay.bound)
    found = compared(real(beyond=2e-6), ideal())
    assert found.outcome == AgreementOutcome.DISAGREE
    assert failed(found) == ["median delay"]


def spread_frames(side: Side, shares: Sequence[float]) -> Side:
    """Return a side whose runs sent so many more frames than 1,000, as shares."""
    frames = [{"EVENT": 1000.0 * (1 + share)} for share in shares]
    return Side(
        side.name,
        tuple(replace(run, frames=each) for run, each in zip(side.runs, frames, strict=True)),
    )


def test_what_chance_may_be_larger_than_is_not_decided_and_says_what_would() -> None:
    scattered = spread_frames(ideal(4), (0.08, -0.09, 0.05, -0.07))
    found = compared(spread_frames(ideal(4), (0.0,) * 4), scattered)
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert found.frames.answer is Answer.NOT_DECIDED
    assert abs(found.frames.quantity.relative) < FRAMES_BOUND
    needed = found.needed
    assert needed is not None
    assert verdict(found).headline == (
        "Not decided whether ideal and ideal agree: frames on the air"
    )
    assert f"About {needed} repeats would decide" in verdict(found).detail
    assert any(f"about {needed} repeats would decide" in line for line in reasons(found))
    more = (0.08, -0.09, 0.05, -0.07) * (1 + needed // 4)
    decided = compared(
        spread_frames(ideal(len(more)), (0.0,) * len(more)), spread_frames(ideal(len(more)), more)
    )
    assert decided.outcome == AgreementOutcome.AGREE
    assert decided.needed is None


def test_a_difference_that_chance_does_not_explain_is_one() -> None:
    off = spread_frames(ideal(4), (0.08, 0.09, 0.07, 0.08))
    found = compared(spread_frames(ideal(4), (0.0,) * 4), off)
    assert found.outcome == AgreementOutcome.DISAGREE
    assert found.needed is None
    assert failed(found) == ["frames on the air"]


def test_the_order_of_the_backends_does_not_matter() -> None:
    for beyond, outcome in ((-1e-6, AgreementOutcome.AGREE), (2e-6, AgreementOutcome.DISAGREE)):
        found = compared(ideal(), real(beyond=beyond))
        assert found.outcome == outcome
        assert found.slower.name == "real"


def test_a_backend_that_does_not_run_in_real_time_has_no_overhead() -> None:
    untimed = changed(real(), kept_real_time=None)
    assert failed(compared(untimed, ideal())) == ["median delay"]
    assert failed(compared(real(beyond=-0.02), ideal())) == ["median delay"]


def test_the_medium_explains_no_more_than_its_own_lateness() -> None:
    overhead = {**OVERHEAD, DelayStage.RELAY: 0.002}
    found = compared(real(overhead=overhead, late=0.0003), ideal())
    assert failed(found) == ["median delay"]
    (relay,) = [part for part in found.overhead if part.stage == DelayStage.RELAY]
    assert relay.excess == pytest.approx(0.002)
    assert relay.counts == pytest.approx(0.0003)
    counts = {**OVERHEAD, DelayStage.RELAY: 0.0003}
    assert found.explained.mean == pytest.approx(_along_the_way(counts))
    assert compared(real(overhead=overhead, late=0.003), ideal()).outcome == AgreementOutcome.AGREE


def test_a_forward_explains_no_more_than_nodes_and_timers_take() -> None:
    most = OVERHEAD[DelayStage.ORIGINATE] + OVERHEAD[DelayStage.NOTIFY] + TIMER
    for off, outcome in ((-1e-6, AgreementOutcome.AGREE), (1e-5, AgreementOutcome.DISAGREE)):
        found = compared(real(overhead={**OVERHEAD, DelayStage.FORWARD: most + off}), ideal())
        assert found.outcome == outcome
    # Forwarders that do not wait have no timers to be late.
    hasty = {**NO_TIME, DelayStage.FORWARD: 0.0}
    side = changed(ideal(), stages={s: StageMeasure(step, step) for s, step in hasty.items()})
    parts = {part.stage: part for part in compared(real(), side).overhead}
    assert parts[DelayStage.FORWARD].limit == pytest.approx(most - TIMER)


def test_overhead_that_waits_hide_is_not_decided_up_to_its_limit() -> None:
    # Waits are drawn otherwise on the other backend: the same forward differs by that as well.
    drawn = (-0.004, 0.004, -0.0005)
    limit = OVERHEAD[DelayStage.ORIGINATE] + OVERHEAD[DelayStage.NOTIFY] + TIMER
    forwards = HOPS - 1
    without = _along_the_way({**OVERHEAD, DelayStage.FORWARD: sum(drawn) / 3})

    def found(beyond: float) -> Agreement:
        slower = changed(real(), delay=0.0)
        runs = [
            replace(run, delay=DELAY + 1e-4 * i + without + beyond)
            for i, run in enumerate(slower.runs)
        ]
        matched = [{**OVERHEAD, DelayStage.FORWARD: each} for each in drawn]
        return compare(Side("real", tuple(runs)), ideal(), matched)

    hidden = forwards * (limit - sum(drawn) / 3)
    assert found(-1e-6).delay.answer is Answer.AGREES
    assert found(hidden / 2).delay.answer is Answer.NOT_DECIDED
    assert "waits are drawn at random" in found(hidden / 2).delay.why
    assert any("random waits may hide" in row[0] for row in stage_table(found(hidden / 2)).rows)
    assert found(hidden - 1e-6).delay.answer is Answer.NOT_DECIDED
    assert found(hidden + 1e-6).delay.answer is Answer.DIFFERS
    # More repeats decide, as the overhead is known by then: more if less is left of it.
    needed = [found(share * hidden).needed or 0 for share in (0.9, 0.5, 0.1)]
    assert 3 < needed[0] < needed[1] < needed[2]


def test_a_side_that_is_quicker_on_the_whole_has_no_excuse() -> None:
    quicker = {**OVERHEAD, DelayStage.FORWARD: -0.004}
    found = compared(real(overhead=quicker), ideal())
    assert found.delay.quantity.difference.mean < 0
    assert failed(found) == ["median delay"]
    assert found.delay.bound == pytest.approx(half_width(found.delay.quantity.difference))


@given(st.floats(0, 0.2), st.floats(0.8, 1.0))
def test_delivery_agrees_within_two_percentage_points(off: float, ratio: float) -> None:
    first = changed(ideal(), delivery=ratio)
    second = changed(ideal(), delivery=ratio - off)
    for pair in ((first, second), (second, first)):
        assert compared(*pair).delivery.ok == (abs(ratio - (ratio - off)) <= DELIVERY_BOUND)


@given(st.integers(1, 100_000), st.floats(-0.2, 0.2))
def test_frames_agree_within_five_percent_of_the_first(number: int, off: float) -> None:
    first = changed(ideal(), frames={"EVENT": float(number)})
    second = changed(ideal(), frames={"EVENT": number * (1 - off)})
    found = compared(first, second)
    if abs(abs(off) - FRAMES_BOUND) > 1e-9:
        assert found.frames.ok == (abs(off) < FRAMES_BOUND)
    assert found.kinds["EVENT"].relative == pytest.approx(off, abs=1e-9)


def test_kinds_that_one_side_never_sends_are_listed() -> None:
    other = changed(ideal(), frames={"EVENT": 600.0, "HELLO": 390.0, "other": 10.0})
    found = compared(ideal(), other)
    assert found.outcome == AgreementOutcome.AGREE
    assert found.kinds["other"].first.mean == 0
    assert any(row[0] == "– other" and row[3].startswith("−") for row in rows(found))


def test_a_protocol_s_own_metrics_are_criteria_of_its_runs() -> None:
    def with_depth(side: Side, *depths: float) -> Side:
        runs = zip(side.runs, depths, strict=True)
        return Side(side.name, tuple(replace(run, own={"overlay_depth": d}) for run, d in runs))

    one = with_depth(real(), 3.0, 3.1, 2.9)
    found = compared(one, with_depth(ideal(), 3.05, 3.0, 2.95))
    assert found.outcome == AgreementOutcome.AGREE
    assert "median delay and overlay hops, over 3 repeats" in verdict(found).detail
    assert rows(found)[-1][0] == "overlay hops"
    assert rows(found)[-1][-2:] == ("10\u202f%", "agrees")
    found = compared(one, with_depth(ideal(), 3.9, 4.0, 3.8))
    assert failed(found) == ["overlay hops"]
    assert any("the means differ by 30.00 %, at most 10 %" in line for line in reasons(found))
    found = compared(one, with_depth(ideal(), 2.0, 3.0, 4.0))
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert found.needed is not None
    assert len(compared(one, ideal()).criteria) == 3  # the other side knows no depth


def test_repeats_that_lost_real_time_do_not_count() -> None:
    slow = changed(real(), [1], kept_real_time=False, delivery=0.2, failed_checks=("late",))
    found = compared(slow, ideal())
    assert found.outcome == AgreementOutcome.AGREE
    assert found.counted == (0, 2)
    assert verdict(found).level == "warning"
    assert "2 of 3 repeats" in verdict(found).detail
    assert any("real1 lost real time (late): its repeat is left out" in r for r in reasons(found))


def test_a_machine_that_is_too_slow_is_no_disagreement() -> None:
    slow = changed(real(), [0, 1], kept_real_time=False, delivery=0.2)
    found = compared(slow, ideal())
    assert found.outcome == AgreementOutcome.TOO_SLOW
    assert "too slow" in verdict(found).headline
    assert "differ" not in verdict(found).headline


def test_nothing_to_measure_is_no_agreement() -> None:
    nothing = without_deliveries(ideal())
    found = compared(nothing, nothing)
    assert found.outcome == AgreementOutcome.DISAGREE
    assert failed(found) == ["delivery", "median delay"]
    assert found.overhead == ()
    assert any("there is nothing to measure" in line for line in reasons(found))


def test_what_one_repeat_alone_has_on_both_sides_is_not_decided() -> None:
    found = compared(changed(ideal(), [0, 1], delivery=math.nan), ideal())
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert "About 4 repeats would decide" in verdict(found).detail
    assert any("only one repeat has it on both sides" in line for line in reasons(found))


def test_the_verdict_names_what_differs() -> None:
    found = compared(changed(ideal(), delivery=0.5, frames={"EVENT": 10.0}), ideal())
    assert verdict(found).headline == "ideal and ideal differ: delivery and frames on the air"
    assert [row[-1] for row in rows(found)][:3] == ["differs", "agrees", "differs"]


# Page and file.


def written(tmp_path: Path, first: Side, second: Side) -> tuple[Page, Agreement]:
    """Write the page of a comparison of made-up runs."""
    scenario = make_scenario(protocol="<b>flooding</b>")
    runs = [
        make_run(tmp_path / run.run, scenario.model_copy(update={"seed": run.seed}))
        for side in (first, second)
        for run in side.runs
    ]
    problems = {run.read.name: () for run in runs} | {runs[0].read.name: ("a <i>problem</i>",)}
    agreement = compared(first, second)
    path = write_page(agreement, make_analysis(*runs, problems=problems), tmp_path / f"{STEM}.html")
    return Page(path.read_text(encoding="utf-8")), agreement


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return written(tmp_path_factory.mktemp("agreement"), real(), ideal())[0]


@pytest.mark.slow
def test_the_page_shows_verdict_figures_and_decomposition(page: Page) -> None:
    assert page.banners() == ["good"]
    assert "real and ideal agree" in page.text
    assert len(page.elements("figure")) == len(page.elements("svg")) == 6
    table = page.tables["side-by-side"]
    assert [row[0] for row in table[1:4]] == ["delivery", "median delay", "frames on the air"]
    decomposition = page.tables["what-explains-the-difference-in-delay"]
    assert [row[1] for row in decomposition[1:6]] == [
        "once", "once", "every further hop", "every further hop", "once",
    ]  # fmt: skip
    assert decomposition[-1][0] == "allowed"
    assert len(page.tables["single-runs"]) == 1 + 6
    assert page.open == []


def test_the_page_is_self_contained_and_escapes_what_it_is_given(page: Page) -> None:
    assert "<b>flooding" not in page.html
    assert "<i>problem" not in page.html
    links = {address for address in page.loads() if not address.startswith(("#", "data:"))}
    reports = {f"{name}{i}/report.html" for name in ("real", "ideal") for i in range(3)}
    assert links == reports | {"agreement.json"}


@pytest.mark.slow
def test_a_page_without_deliveries_says_so(tmp_path: Path) -> None:
    nothing = without_deliveries(ideal())
    other = Side("other", tuple(replace(run, run=f"other{run.seed}") for run in nothing.runs))
    page, _ = written(tmp_path, nothing, other)
    assert page.banners() == ["bad"]
    assert "No delivery could be followed" in page.text


@pytest.mark.slow
def test_the_page_says_what_is_left_out(tmp_path: Path) -> None:
    page, _ = written(tmp_path, changed(real(), [1], kept_real_time=False), ideal())
    assert page.banners() == ["warning"]
    assert "LOST, repeat left out" in page.text


def test_all_numbers_are_in_a_file_without_nan(tmp_path: Path) -> None:
    nothing = changed(ideal(), delay=math.nan)
    write_result(compared(real(), nothing), tmp_path / "agreement.json")

    def refuse(word: str) -> float:
        raise AssertionError(word)

    text = (tmp_path / "agreement.json").read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=refuse)
    assert found["outcome"] == "disagree"
    assert found["backends"] == ["real", "ideal"]
    assert [criterion["ok"] for criterion in found["criteria"]] == [True, True, False]
    assert found["kinds"]["EVENT"]["first"]


# From run folders.


def recorded(folder: Path, processing: float, seed: int) -> Path:
    """Write a run whose nodes take `processing` seconds for everything."""
    run = RunBuilder(folder)
    run.subscribe(3, 1.0, ["traffic"])
    for sequence in range(1, 11):
        start = 2.0 * sequence + 1e-3 * seed
        run.publish(1, start, sequence, ["traffic"])
        one, two = run.event_frame((1, sequence)), run.event_frame((1, sequence), hops=2)
        run.radio(1, start + processing, one, heard_by=[2])
        run.radio(2, start + 0.001 + 2 * processing, two, heard_by=[3])
        if sequence > 1:  # the first is lost
            run.notify(3, start + 0.002 + 3 * processing, (1, sequence), hops=2)
    folder = run.write()
    if processing:
        check = {"name": "frames delivered late, p99", "value": 250.0, "limit": 1e4, "ok": True}
        fidelity = {"kept_real_time": True, "checks": [check]}
        (folder / "fidelity.json").write_text(json.dumps(fidelity), encoding="utf-8")
    return folder


@pytest.mark.spark
def test_run_folders_are_measured_by_their_captures(spark: SparkSession, tmp_path: Path) -> None:
    folders = [
        (recorded(tmp_path / f"real{i}", 0.0005, i), recorded(tmp_path / f"ideal{i}", 0.0, i))
        for i in range(2)
    ]
    (found,), analysis = read_agreements(spark, folders, ("real", "ideal"))
    first, second = found.first, found.second
    assert [run.run for run in first.runs] == ["real0", "real1"]
    assert len(analysis.runs) == 4
    for side, delay in ((first, 0.0035), (second, 0.002)):
        for run in side.runs:
            assert run.delivery == pytest.approx(8 / 9)  # the last event is not settled
            assert run.delay == pytest.approx(delay)
            assert run.hops == 2
            assert run.frames == {"EVENT": 20}
            assert run.traced == 1.0
    assert first.runs[0].stages[DelayStage.FORWARD].p50 == pytest.approx(0.0005)
    assert first.runs[0].late_p99 == pytest.approx(250e-6)
    assert second.runs[0].kept_real_time is None
    assert found.outcome == AgreementOutcome.AGREE
    assert found.explained.mean == pytest.approx(0.0015)
    ways = [way for run in first.runs for way in run.ways]
    assert len(ways) == 2 * 9
    for way in ways:
        assert way.hops == 2
        assert way.delay == pytest.approx(0.0035)
        assert (way.originate, *way.forwards, way.notify) == pytest.approx((0.0005,) * 3)
    same = pairs(found, analysis)
    assert len(same) == 2 * 9
    assert same["difference"].to_list() == pytest.approx([0.0015] * len(same))
    assert set(same["hops"]) == {2}


@pytest.mark.spark
def test_one_repeat_is_too_few(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="too few"):
        read_agreements(spark, [(tmp_path, tmp_path)], ("a", "b"))
