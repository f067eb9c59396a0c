"""What was done at the prompt, in the report: marked, listed, and on the map."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from matplotlib.collections import LineCollection

from emulation.scenario.faults import Fault
from emulation.scenario.prompt import Effect, PromptCommand
from emulation.scenario.records import CodeRecord
from spark_analysis.engine.results import RunTables
from spark_analysis.measures import delivery, links
from spark_analysis.measures.delivery import marks
from spark_analysis.report import scenario_text
from tests.spark_analysis.synthetic import RECORD, make_analysis, make_run, make_scenario

CRASH = Fault(text="crash sta2 at 28", kind="crash", start=28.0, nodes=("sta2",))
PROMPT = (
    PromptCommand(time=5.0, command="stats"),
    PromptCommand(
        time=10.0, command="fail sta1 sta2", effect=Effect(kind="fail", nodes=("sta1", "sta2"))
    ),
    PromptCommand(time=12.0, command="fail sta3", effect=Effect(kind="fail", nodes=("sta3",))),
    PromptCommand(
        time=20.0, command="heal sta1 sta2", effect=Effect(kind="heal", nodes=("sta1", "sta2"))
    ),
    PromptCommand(
        time=25.0,
        command="move sta1 9000 1",
        effect=Effect(kind="move", nodes=("sta1",), position=(9000.0, 1.0)),
    ),
    PromptCommand(time=27.0, command="move sta1", effect=Effect(kind="release", nodes=("sta1",))),
    PromptCommand(
        time=28.0, command="crash sta2", effect=Effect(kind="crash", nodes=("sta2",), fault=CRASH)
    ),
    PromptCommand(
        time=29.0,
        command="iperf sta2 sta3",
        effect=Effect(kind="traffic", nodes=("sta2", "sta3")),
    ),
    PromptCommand(time=30.0, command="fail sta99", error="no such station: sta99"),
)


def test_what_was_done_is_marked_listed_and_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_scenario())
    record = RECORD.model_copy(update={"lasted": 34.0})
    read = dataclasses.replace(run.read, prompt=PROMPT, record=record)
    tables = RunTables(make_analysis(dataclasses.replace(run, read=read)), read)
    found = marks(tables)
    assert found == [
        (10.0, "fail sta1 sta2"), (12.0, "fail sta3"), (20.0, "heal sta1 sta2"),
        (25.0, "move sta1 9000 1"), (27.0, "move sta1"), (28.0, "crash sta2"),
        (29.0, "iperf sta2 sta3"),
    ]  # fmt: skip
    drawing = delivery.over_time(tables)
    assert "1: fail sta1 sta2 at 10 s; 2: fail sta3 at 12 s" in drawing.caption
    top = drawing.figure.axes[0]
    assert {text.get_text() for text in top.texts} == set("1234567")
    assert "6: crash sta2 at 28 s; 7: iperf sta2 sta3 at 29 s" in drawing.caption
    (table,) = scenario_text.prompt_table(tables)
    assert [row[1:] for row in table.rows][-1] == ["fail sta99", "no such station: sta99"]
    assert dict(scenario_text.facts(tables))["Duration"] == "34\u202fs of 60\u202fs"
    axes = links.map_drawing(tables).figure.axes[0]
    assert axes.get_xlim()[1] > 9000
    (ways,) = (each for each in axes.collections if each.get_label() == "trajectory")
    assert isinstance(ways, LineCollection)
    drawn = ways.get_segments()[0].tolist()
    by_hand = drawn.index([9000.0, 1.0])
    trace = read.scenario.trace()
    left, back = (trace.position(0, time) for time in (25.0, 27.0))
    assert drawn[by_hand - 1 : by_hand + 3] == [
        pytest.approx(left), [9000.0, 1.0], [9000.0, 1.0], pytest.approx(back),
    ]  # fmt: skip
    first, *_ = read.scenario.nodes
    assert drawn[0] == list(first.waypoints[0][1:])
    # What was to come after its release, up to the end of the captures.
    to_come = [list(each[1:]) for each in first.waypoints if 27.0 < each.time <= tables.observed]
    assert drawn[by_hand + 3 :][: len(to_come)] == to_come


@pytest.mark.parametrize(("start", "came"), [(20.0, True), (300.0, False)])
def test_a_fault_that_never_came_is_not_shaded(tmp_path: Path, start: float, came: bool) -> None:
    fault = Fault(kind="crash", start=start, nodes=("sta1",))
    scenario = make_scenario().model_copy(update={"faults": (fault,)})
    run = make_run(tmp_path / "run", scenario)
    drawing = delivery.over_time(RunTables(make_analysis(run), run.read))
    assert ("Faults of the scenario are shaded" in drawing.caption) == came


def test_a_report_shows_the_commit_as_all_pages_do(tmp_path: Path) -> None:
    record = RECORD.model_copy(update={"code": CodeRecord(commit="a" * 40, changed=True)})
    run = make_run(tmp_path / "run", make_scenario(), record=record)
    *_, versions = scenario_text.scenario_tables(RunTables(make_analysis(run), run.read))
    assert ["testbed", "aaaaaaaaaaaa with changes"] in versions.rows


def test_without_a_prompt_nothing_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_scenario())
    tables = RunTables(make_analysis(run), run.read)
    assert marks(tables) == []
    assert scenario_text.prompt_table(tables) == []
    assert "Numbers at the top" not in delivery.over_time(tables).caption
