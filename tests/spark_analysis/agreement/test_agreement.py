"""The comparison of two backends: what agrees, what does not, and what its page says."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_analysis.agreement import figures
from spark_analysis.agreement.agreement import (
    AIR_MARGIN,
    AIR_PER_HOP,
    DELIVERY_MARGIN,
    FRAMES_MARGIN,
    HOPS_MARGIN,
    Agreement,
    AgreementOutcome,
    Answer,
    compare,
)
from spark_analysis.agreement.measures import Measures, Side, StageMeasure
from spark_analysis.agreement.page import STEM, pairs, read_agreements, write_page, write_result
from spark_analysis.agreement.text import reasons, rows, verdict
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.stages import ON_THE_AIR, DelayStage
from tests.spark_analysis.report.pages import Page
from tests.spark_analysis.runs import RunBuilder
from tests.spark_analysis.synthetic import make_analysis, make_run, make_scenario

IN_NODES = {DelayStage.ORIGINATE: 0.0, DelayStage.FORWARD: 0.010, DelayStage.NOTIFY: 0.0}
"""Median steps of a backend whose nodes take no time, and wait on purpose."""
HOPS = 4
AIR = HOPS * 0.001


def measures(
    run: str, seed: int, air: float, of_nodes: float, kept: bool | None = None
) -> Measures:
    """Return a run whose nodes take so many seconds a step beyond what they wait on purpose."""
    on_air = {stage: StageMeasure(air / HOPS, air / HOPS) for stage in ON_THE_AIR}
    in_nodes = {
        stage: StageMeasure(step + of_nodes, step + of_nodes) for stage, step in IN_NODES.items()
    }
    nodes = (HOPS - 1) * (0.010 + of_nodes) + 2 * of_nodes
    return Measures(
        run=run,
        seed=seed,
        delivery=0.99,
        delay=air + nodes,
        hops=HOPS,
        frames={"HELLO": 400.0, "EVENT": 600.0},
        stages=on_air | in_nodes,
        air=air,
        in_nodes=nodes,
        traced=1.0,
        kept_real_time=kept,
        late_median=0.0001 if kept is not None else math.nan,
        late_p99=0.0003 if kept is not None else math.nan,
        failed_checks=("seconds with all cores busy",) if kept is False else (),
    )


def ideal(repeats: int = 3) -> Side:
    """A backend under a virtual clock; repeats differ a little, as by the seed."""
    runs = [measures(f"ideal{i}", i, AIR + 1e-4 * i, 0.0) for i in range(repeats)]
    return Side("ideal", tuple(runs))


def real(repeats: int = 3, of_nodes: float = 0.0005, beyond: float = 0.0) -> Side:
    """A backend in real time: its nodes take time, and its medium `beyond` seconds a delivery."""
    runs = [
        measures(f"real{i}", i, AIR + 1e-4 * i + beyond, of_nodes, kept=True)
        for i in range(repeats)
    ]
    return Side("real", tuple(runs))


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
    return changed(side, delivery=nan, delay=nan, hops=nan, stages={}, air=nan, in_nodes=nan)


def failed(agreement: Agreement) -> list[str]:
    return [criterion.name for criterion in agreement.criteria if not criterion.ok]


def test_a_backend_agrees_with_itself() -> None:
    for side in (ideal(), real()):
        found = compare(side, side)
        assert found.outcome == AgreementOutcome.AGREE
        assert all(c.quantity.difference.mean == 0 for c in found.criteria)


def test_time_in_nodes_is_shown_and_decides_nothing() -> None:
    found = compare(real(of_nodes=0.1), ideal())
    assert found.outcome == AgreementOutcome.AGREE
    assert found.in_nodes.difference.mean == pytest.approx((HOPS - 1 + 2) * 0.1)
    assert found.delay.difference.mean == pytest.approx(found.in_nodes.difference.mean)
    names = [row[0] for row in rows(found)]
    assert rows(found)[names.index("– time in nodes")][-2:] == ("", "")


@pytest.mark.parametrize("air", [0.004, 0.1])
def test_time_on_the_air_agrees_within_a_tenth_or_a_wake_up_a_hop(air: float) -> None:
    margin = max(AIR_MARGIN * air, AIR_PER_HOP * HOPS)
    for off, outcome in ((-1e-6, AgreementOutcome.AGREE), (1e-6, AgreementOutcome.DISAGREE)):
        for sign in (-1, 1):
            first, second = ideal(), changed(ideal(), air=air + sign * (margin + off))
            found = compare(changed(first, air=air), second)
            assert found.outcome == outcome
            assert failed(found) == ([] if outcome == "agree" else ["time on the air"])
    assert any(f"at most {1e3 * margin:.3f} ms are allowed" in line for line in reasons(found))


def spread_frames(side: Side, shares: Sequence[float]) -> Side:
    """Return a side whose runs sent so many more frames than 1,000, as shares."""
    frames = [{"EVENT": 1000.0 * (1 + share)} for share in shares]
    return Side(
        side.name,
        tuple(replace(run, frames=each) for run, each in zip(side.runs, frames, strict=True)),
    )


def test_what_chance_may_be_larger_than_is_not_decided_and_says_what_would() -> None:
    scattered = spread_frames(ideal(4), (0.08, -0.09, 0.05, -0.07))
    found = compare(spread_frames(ideal(4), (0.0,) * 4), scattered)
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert found.frames.answer is Answer.NOT_DECIDED
    assert abs(found.frames.quantity.relative) < FRAMES_MARGIN
    needed = found.needed
    assert needed is not None
    assert verdict(found).headline == (
        "Not decided whether ideal and ideal agree: frames on the air"
    )
    assert f"About {needed} repeats would decide" in verdict(found).detail
    assert any(f"about {needed} repeats would decide" in line for line in reasons(found))
    more = (0.08, -0.09, 0.05, -0.07) * (1 + needed // 4)
    decided = compare(
        spread_frames(ideal(len(more)), (0.0,) * len(more)), spread_frames(ideal(len(more)), more)
    )
    assert decided.outcome == AgreementOutcome.AGREE
    assert decided.needed is None


def test_a_difference_that_chance_does_not_explain_is_one() -> None:
    off = spread_frames(ideal(4), (0.08, 0.09, 0.07, 0.08))
    found = compare(spread_frames(ideal(4), (0.0,) * 4), off)
    assert found.outcome == AgreementOutcome.DISAGREE
    assert found.needed is None
    assert failed(found) == ["frames on the air"]


@given(st.floats(-0.2, 0.2))
def test_hops_agree_within_five_percent_of_the_first(off: float) -> None:
    found = compare(ideal(), changed(ideal(), hops=HOPS * (1 - off)))
    if abs(abs(off) - HOPS_MARGIN) > 1e-9:
        assert found.hops.ok == (abs(off) < HOPS_MARGIN)


@given(st.floats(0, 0.2), st.floats(0.8, 1.0))
def test_delivery_agrees_within_two_percentage_points(off: float, ratio: float) -> None:
    first = changed(ideal(), delivery=ratio)
    second = changed(ideal(), delivery=ratio - off)
    for pair in ((first, second), (second, first)):
        assert compare(*pair).delivery.ok == (abs(ratio - (ratio - off)) <= DELIVERY_MARGIN)


@given(st.integers(1, 100_000), st.floats(-0.2, 0.2))
def test_frames_agree_within_five_percent_of_the_first(number: int, off: float) -> None:
    first = changed(ideal(), frames={"EVENT": float(number)})
    second = changed(ideal(), frames={"EVENT": number * (1 - off)})
    found = compare(first, second)
    if abs(abs(off) - FRAMES_MARGIN) > 1e-9:
        assert found.frames.ok == (abs(off) < FRAMES_MARGIN)
    assert found.kinds["EVENT"].relative == pytest.approx(off, abs=1e-9)


def test_kinds_that_one_side_never_sends_are_listed() -> None:
    other = changed(ideal(), frames={"EVENT": 600.0, "HELLO": 390.0, "other": 10.0})
    found = compare(ideal(), other)
    assert found.outcome == AgreementOutcome.AGREE
    assert found.kinds["other"].first.mean == 0
    assert any(row[0] == "– other" and row[3].startswith("−") for row in rows(found))


def test_a_protocol_s_own_metrics_are_criteria_of_its_runs() -> None:
    def with_depth(side: Side, *depths: float) -> Side:
        runs = zip(side.runs, depths, strict=True)
        return Side(side.name, tuple(replace(run, own={"overlay_depth": d}) for run, d in runs))

    one = with_depth(real(), 3.0, 3.1, 2.9)
    found = compare(one, with_depth(ideal(), 3.05, 3.0, 2.95))
    assert found.outcome == AgreementOutcome.AGREE
    assert "time on the air and overlay hops, over 3 repeats" in verdict(found).detail
    assert rows(found)[-1][0] == "overlay hops"
    assert rows(found)[-1][-2:] == ("10\u202f%", "agrees")
    found = compare(one, with_depth(ideal(), 3.9, 4.0, 3.8))
    assert failed(found) == ["overlay hops"]
    assert any("the means differ by 30.00 %, at most 10 %" in line for line in reasons(found))
    found = compare(one, with_depth(ideal(), 2.0, 3.0, 4.0))
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert found.needed is not None
    assert len(compare(one, ideal()).criteria) == 4  # the other side knows no depth


def test_repeats_that_lost_real_time_do_not_count() -> None:
    slow = changed(real(), [1], kept_real_time=False, delivery=0.2, failed_checks=("late",))
    found = compare(slow, ideal())
    assert found.outcome == AgreementOutcome.AGREE
    assert found.counted == (0, 2)
    assert verdict(found).level == "warning"
    assert "2 of 3 repeats" in verdict(found).detail
    assert any("real1 lost real time (late): its repeat is left out" in r for r in reasons(found))


def test_a_machine_that_is_too_slow_is_no_disagreement() -> None:
    slow = changed(real(), [0, 1], kept_real_time=False, delivery=0.2)
    found = compare(slow, ideal())
    assert found.outcome == AgreementOutcome.TOO_SLOW
    assert "too slow" in verdict(found).headline
    assert "differ" not in verdict(found).headline


def test_nothing_to_measure_is_no_agreement() -> None:
    nothing = without_deliveries(ideal())
    found = compare(nothing, nothing)
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert failed(found) == ["delivery", "hops", "time on the air"]
    assert found.needed is None
    assert verdict(found).detail == "There is nothing to measure."
    assert any("there is nothing to measure" in line for line in reasons(found))


def test_what_one_repeat_alone_has_on_both_sides_is_not_decided() -> None:
    found = compare(changed(ideal(), [0, 1], delivery=math.nan), ideal())
    assert found.outcome == AgreementOutcome.NOT_DECIDED
    assert "About 4 repeats would decide" in verdict(found).detail
    assert any("only one repeat has it on both sides" in line for line in reasons(found))


def test_the_verdict_names_what_differs() -> None:
    found = compare(changed(ideal(), delivery=0.5, frames={"EVENT": 10.0}), ideal())
    assert verdict(found).headline == "ideal and ideal differ: delivery and frames on the air"
    verdicts = {row[0]: row[-1] for row in rows(found)}
    assert verdicts["delivery"] == verdicts["frames on the air"] == "differs"
    assert verdicts["hops, mean"] == verdicts["– time on the air"] == "agrees"


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
    agreement = compare(first, second)
    path = write_page(
        agreement, make_analysis(*runs, problems=problems), tmp_path / f"{STEM}-real-ideal.html"
    )
    return Page(path.read_text(encoding="utf-8")), agreement


def test_the_numbers_of_the_frames_say_which_backend_sent_them() -> None:
    agreement = compare(real(), ideal())
    drawing = figures.frames(("real", "ideal"), agreement.kinds)
    head, *lines = csv.reader(io.StringIO(drawing.csv()))
    assert head == ["series", "frames sent in a run", "y"]
    sent = Counter((side, kind) for side, _, kind in lines)
    sides, kinds = ("real", "ideal"), ("HELLO", "EVENT")
    assert sent == {(side, kind): 2 for side in sides for kind in kinds}, "bar and interval"
    (legend,) = drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(sides)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return written(tmp_path_factory.mktemp("agreement"), real(), ideal())[0]


@pytest.mark.slow
def test_the_page_shows_verdict_figures_and_decomposition(page: Page) -> None:
    assert page.banners() == ["good"]
    assert "real and ideal agree" in page.text
    assert len(page.elements("figure")) == len(page.elements("svg")) == 6
    table = page.tables["side-by-side"]
    assert [row[0] for row in table[1:7]] == [
        "delivery", "median delay", "– time on the air", "– time in nodes", "hops, mean",
        "frames on the air",
    ]  # fmt: skip
    decomposition = page.tables["stages-of-a-delivery"]
    assert [row[1] for row in decomposition[1:]] == [
        "once", "once", "every further hop", "every further hop", "once",
    ]  # fmt: skip
    assert len(page.tables["single-runs"]) == 1 + 6
    assert page.open == []


def test_the_page_is_self_contained_and_escapes_what_it_is_given(page: Page) -> None:
    assert "<b>flooding" not in page.html
    assert "<i>problem" not in page.html
    links = {address for address in page.loads() if not address.startswith(("#", "data:"))}
    reports = {f"{name}{i}/report.html" for name in ("real", "ideal") for i in range(3)}
    assert links == reports | {"agreement-real-ideal.json"}


@pytest.mark.slow
def test_a_page_without_deliveries_says_so(tmp_path: Path) -> None:
    nothing = without_deliveries(ideal())
    other = Side("other", tuple(replace(run, run=f"other{run.seed}") for run in nothing.runs))
    page, _ = written(tmp_path, nothing, other)
    assert page.banners() == ["warning"]
    assert "No delivery could be followed" in page.text


@pytest.mark.slow
def test_the_page_says_what_is_left_out(tmp_path: Path) -> None:
    page, _ = written(tmp_path, changed(real(), [1], kept_real_time=False), ideal())
    assert page.banners() == ["warning"]
    assert "LOST, repeat left out" in page.text


def test_all_numbers_are_in_a_file_without_nan(tmp_path: Path) -> None:
    nothing = changed(ideal(), delay=math.nan, air=math.nan)
    write_result(compare(real(), nothing), tmp_path / "agreement.json")

    def refuse(word: str) -> float:
        raise AssertionError(word)

    text = (tmp_path / "agreement.json").read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=refuse)
    assert found["outcome"] == "not decided"
    assert found["backends"] == ["real", "ideal"]
    assert [criterion["ok"] for criterion in found["criteria"]] == [True, True, True, False]
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


@pytest.mark.long
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
    for run in first.runs:
        assert run.air == pytest.approx(0.002)
        assert run.in_nodes == pytest.approx(0.0015)
    same = pairs(found, analysis)
    assert len(same) == 2 * 9
    assert same["difference"].to_list() == pytest.approx([0.0015] * len(same))
    assert set(same["hops"]) == {2}


@pytest.mark.spark
def test_one_repeat_is_too_few(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="at least 2 repeats are needed, not 1"):
        read_agreements(spark, [(tmp_path, tmp_path)], ("a", "b"))
