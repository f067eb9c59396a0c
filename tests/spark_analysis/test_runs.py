"""Runs for programs: tables as pandas, without Spark once they are there; the page of schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.network.processes import PROJECT
from spark_analysis import reports, runs
from spark_analysis.data_page import page
from spark_analysis.errors import AnalysisError
from tests.notebooks import NOTEBOOK, executed
from tests.spark_analysis.replay.test_replay import chain, tables_of


@pytest.fixture
def analysed(tmp_path: Path) -> Path:
    """A run whose tables are there as an analysis leaves them."""
    builder = chain(tmp_path / "run")
    folder = builder.write()
    found = tables_of(builder, folder)
    for name in ("summary", "delivery"):
        found.table(name).to_parquet(folder / "metrics" / f"{name}.parquet")
    return folder


def test_tables_are_read_when_they_are_asked_for(
    analysed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "analyse_and_report", None)  # no Spark
    run = runs.load(analysed)
    assert run.tables == ["delivery", "summary"]
    assert run.delivery["delay"].median() == pytest.approx(0.0045)
    assert "run" not in run.delivery.columns
    assert run.delivery is run.delivery
    assert run.summary["captured"] == 20.0
    assert run.scenario.topology == "bench"
    assert "delivery" in dir(run)
    with pytest.raises(AttributeError, match="no table 'speed'; there are: delivery, summary"):
        _ = run.speed
    with pytest.raises(AnalysisError, match="not a folder"):
        runs.load("/nowhere")


@pytest.mark.spark
def test_a_run_that_has_no_tables_yet_is_analysed_first(tmp_path: Path) -> None:
    from emulation.backends.virtual import run_virtual
    from topologies.catalog import make_scenario

    settings = {"nodes": 6, "side": 200, "subscribers": 2, "interval": 1}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=14, settings=settings)
    run = runs.load(run_virtual(scenario, tmp_path))
    assert run.summary["delivery_ratio"] == 1.0
    assert run.units("delay")["delay"].startswith("s ")
    assert len(run.delay) == run.summary["received_all"]


def test_the_page_of_all_tables_is_that_of_the_schemas() -> None:
    """Write it again by `python -m spark_analysis.data_page > docs/data.md`."""
    assert (PROJECT / "docs" / "data.md").read_text(encoding="utf-8") == page()


@pytest.mark.spark
def test_the_notebook_shows_what_its_cells_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write it again by `python -m tests.notebooks`."""
    monkeypatch.chdir(tmp_path)
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert executed(stored) == stored
    assert any(cell.get("outputs") for cell in stored["cells"])
