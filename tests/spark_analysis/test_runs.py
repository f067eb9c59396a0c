"""Runs for programs: tables as pandas, without Spark once they are there; the page of schemas."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from emulation.mn import record
from emulation.mn.record import NETWORK, ScriptRecord
from emulation.mn.recording import SAMPLES
from nodeapp.installation import PROJECT
from spark_analysis import reports, runs
from spark_analysis.analysis import rows_of
from spark_analysis.captures.schemas import DOUBLE, INT, column, run_schema
from spark_analysis.data_page import page
from spark_analysis.engine.tables import Inputs, SummaryColumn, Table, typed
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.script.traffic import TRAFFIC
from spark_analysis.script_reports import SCRIPT_TABLES
from tests import notebooks, pages
from tests.notebooks import NOTEBOOK
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
    with pytest.raises(AttributeError, match=r"'speed'; there are: delivery, summary; .* analyze"):
        _ = run.speed
    with pytest.raises(AnalysisError, match="not a folder"):
        runs.load("/nowhere")


def test_a_point_of_a_sweep_is_analysed_for_what_its_summary_does_not_tell(
    analysed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_sweep = (analysed / "metrics" / "delivery.parquet").rename(analysed / "delivery")

    def analyse(folders: list[Path]) -> None:
        assert folders == [analysed]
        of_sweep.rename(analysed / "metrics" / "delivery.parquet")

    monkeypatch.setattr(reports, "analyse_and_report", analyse)
    run = runs.load(analysed)
    assert run.summary["captured"] == 20.0
    assert of_sweep.exists()
    assert len(run.delivery)


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


def test_tables_of_a_run_that_goes_on_are_not_kept(
    analysed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.loads((analysed / "run.json").read_text(encoding="utf-8"))
    (analysed / "run.json").write_text(json.dumps(record | {"ended": "running"}), encoding="utf-8")
    tables = (analysed / "metrics").rename(tmp_path / "tables")
    into: list[Path] = []

    def analyse(folders: Sequence[Path], out: Path) -> None:
        into.append(out)
        shutil.copytree(tables, out / folders[0].name / "metrics")

    monkeypatch.setattr(reports, "analyse_and_report", analyse)
    run = runs.load(analysed)
    assert len(run.delivery)
    assert run.tables == ["delivery", "summary"]
    assert not (analysed / "metrics").exists()
    assert len(into) == 1
    del run
    assert not into[0].exists()


def test_the_page_of_all_tables_is_that_of_the_schemas() -> None:
    command = ".venv/bin/python -m spark_analysis.data_page > docs/data.md"
    assert command in pages.page("measure")
    text = (PROJECT / "docs" / "data.md").read_text(encoding="utf-8")
    assert text == page(), f"write it again by {command}"


@pytest.mark.spark
def test_the_notebook_runs_as_it_stands_and_leaves_nothing(tmp_path: Path) -> None:
    """Write it again by `python tests/notebooks.py`."""
    before = sorted(NOTEBOOK.parent.iterdir())
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, notebooks.__file__, str(tmp_path / "done.ipynb")]
    subprocess.run(words, check=True, cwd=tmp_path, env=bare)
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "done.ipynb").read_text(encoding="utf-8")) == stored
    assert any(cell.get("outputs") for cell in stored["cells"])
    assert stored["metadata"]["kernelspec"]["name"] == "python3"
    assert sorted(NOTEBOOK.parent.iterdir()) == before


def test_a_run_of_a_script_has_the_tables_of_its_record(tmp_path: Path) -> None:
    record.write(tmp_path, ScriptRecord(script="roaming.py", ended="completed"))
    script = runs.load(tmp_path)
    with pytest.raises(AnalysisError, match="ended without building a network"):
        _ = script.positions
    radio = {"interface": "sta1-wlan0", "node": "sta1", "mac": "02:00:00:00:00:00"}
    (tmp_path / NETWORK).write_text(json.dumps({"epoch_ns": 0, "radios": [radio]}))
    state = {**radio, "connected_to": "ap1-wlan1", "signal_dbm": -60.0, "channel": 6}
    lines = [
        {"time": 0.0, "positions": {"sta1": [1, 2, 0]}, "radios": [radio], "events": []},
        {"time": 1.0, "positions": {"sta1": [3, 2, 0]}, "radios": [state], "events": []},
    ]
    (tmp_path / SAMPLES).write_text("\n".join(map(json.dumps, lines)))
    record.write(tmp_path, ScriptRecord(script="roaming.py"))
    assert len(runs.load(tmp_path).positions) == 2
    assert not (tmp_path / "metrics").exists(), "the run has not ended"
    record.write(tmp_path, ScriptRecord(script="roaming.py", ended="completed"))
    (tmp_path / "metrics").touch()
    with pytest.raises(AnalysisError, match=r"cannot make the tables of .*: File exists: .*met"):
        _ = script.positions
    (tmp_path / "metrics").unlink()
    assert script.tables == sorted(each.name for each in SCRIPT_TABLES)
    assert script.positions["x"].tolist() == [1, 3]
    assert script.signals["access_point"].tolist() == [None, "ap1-wlan1"]
    for name, _, schema in SCRIPT_TABLES:
        assert script.table(name).columns.tolist() == schema.names
        assert script.units(name) == {field.name: field.metadata["comment"] for field in schema}
    (tmp_path / SAMPLES).unlink()
    again = runs.load(tmp_path)
    assert len(again.positions) == 2, "what is there is not made again"
    with pytest.raises(
        AttributeError, match="no table 'delivery'; there are: associations, flows, heard"
    ):
        _ = again.delivery
    (tmp_path / "metrics" / "heard.parquet").unlink()
    with pytest.raises(AnalysisError, match=r"the record of .* is damaged: .*No such file"):
        _ = again.links


def test_a_table_without_a_column_or_with_one_of_another_type_is_a_value_error() -> None:
    for wrong in ({"interface": [7]}, {"interface": ["sta1-wlan0"]}):
        with pytest.raises(ValueError, match=r"Expected a string|'second' present in the .* not"):
            typed(pd.DataFrame(wrong), TRAFFIC.schema)


NO_SPARK: Any = None
OF_RUN = ("run", pa.array(["y", "x"]))
NODES = ("nodes", pa.array([1, 2], pa.int32()))
DELAY = ("delay", pa.array([0.2, 0.5]))


def arrow(*columns: tuple[str, pa.Array[Any]]) -> pa.Table:
    return pa.Table.from_arrays([values for _, values in columns], [name for name, _ in columns])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([OF_RUN, DELAY], "makes nothing where nodes int is declared: make both the same"),
        ([NODES, DELAY], "makes nothing where run string is declared"),
        ([OF_RUN, NODES, ("mean", DELAY[1])], "makes mean double where delay double is declared"),
        ([OF_RUN, ("nodes", DELAY[1]), DELAY], "makes nodes double where nodes int is declared"),
        ([OF_RUN, NODES, DELAY, NODES], "makes nodes int where nothing is declared"),
    ],
)
def test_a_query_makes_the_columns_that_its_table_declares(
    columns: list[tuple[str, pa.Array[Any]]], message: str
) -> None:
    table = Table(
        name="spread",
        description="",
        schema=run_schema(column("nodes", INT, "how many"), column("delay", DOUBLE, "s")),
        order=("nodes",),
        make=lambda inputs: arrow(*columns),
    )
    with pytest.raises(AnalysisError, match=f"^table spread: its query {message}"):
        rows_of(Inputs(NO_SPARK, [], {}, NO_SPARK, NO_SPARK), table)
    in_any_order = replace(table, make=lambda inputs: arrow(DELAY, OF_RUN, NODES))
    rows = rows_of(Inputs(NO_SPARK, [], {}, NO_SPARK, NO_SPARK), in_any_order)
    assert rows.to_pylist()[0] == {"run": "x", "nodes": 2, "delay": 0.5}
    comments = {field.name: (field.metadata or {})[b"comment"] for field in rows.schema}
    assert comments == {"run": b"name of the run folder", "nodes": b"how many", "delay": b"s"}


def test_a_metric_has_one_number_a_run() -> None:
    def rows(*columns: tuple[str, pa.Array[Any]]) -> list[dict[str, Any]]:
        query = SummaryColumn(column=column("delay", DOUBLE, "s"), make=lambda _: arrow(*columns))
        return inputs.by_run(query).to_pylist()

    inputs = Inputs(NO_SPARK, [], {}, NO_SPARK, NO_SPARK)
    assert rows(OF_RUN, DELAY) == [{"run": "y", "delay": 0.2}, {"run": "x", "delay": 0.5}]
    with pytest.raises(AnalysisError, match="metric delay: its query makes nodes int where noth"):
        rows(OF_RUN, DELAY, NODES)
    with pytest.raises(AnalysisError, match="metric delay: its query makes several rows of a run"):
        rows(("run", pa.array(["x", "x"])), DELAY)
