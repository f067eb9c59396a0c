"""Tables without a row say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_analysis.engine.results import RunTables
from spark_analysis.measures.delivery import topic_table
from spark_analysis.measures.lateness import check_table
from tests.spark_analysis.synthetic import RECORD, make_analysis, make_run, make_scenario


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (0, "No event was published."),
        (9, "No event was published early enough to be counted."),
    ],
)
def test_delivery_tells_no_events_from_none_that_count(
    tmp_path: Path, events: int, why: str
) -> None:
    run = make_run(tmp_path / "run", make_scenario(), events=events)
    run.tables["events"]["settled"] = False
    table = topic_table(RunTables(make_analysis(run), run.read))
    assert (table.rows, table.empty) == ([], why)


@pytest.mark.parametrize(
    ("backend", "why"),
    [
        ("virtual", "A virtual clock keeps its own time: there is nothing to check."),
        ("tap", "There is no readable fidelity.json."),
    ],
)
def test_fidelity_tells_what_needs_none_from_what_lacks_it(
    tmp_path: Path, backend: str, why: str
) -> None:
    record = RECORD.model_copy(update={"backend": backend})
    run = make_run(tmp_path / "run", make_scenario(), record=record, fidelity=None)
    table = check_table(run.read, run.tables["lateness"][:0])
    assert (table.rows, table.empty) == ([], why)
