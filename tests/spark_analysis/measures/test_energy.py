"""Energy in the report of a run and in sweeps, from the states that the run kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.radio.spec import RadioSpec
from spark_analysis.analysis import analyse
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.measures.energy import JOULES_PER_DELIVERY
from spark_analysis.report.metric import tiles
from spark_analysis.reports import write_report
from spark_analysis.sweeps.page import quantities
from spark_analysis.sweeps.sweep import run_sweep
from tests.spark_analysis.runs import RunBuilder
from tests.spark_analysis.sweeps.helpers import spec

pytestmark = pytest.mark.spark

NONE = dict.fromkeys(("transmit", "receive", "overhear", "idle", "sleep", "off"), 0.0)


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Analysis]:
    """Return that of a run with two deliveries to a station whose battery lasts for 30 s.

    And that of one that counts no energy.
    """
    root = tmp_path_factory.mktemp("runs")
    run = RunBuilder(root / "x", nodes=2)
    run.subscribe(2, 1.0, ["a"])
    for sequence in range(1, 5):
        time = 5.0 + 10.0 * sequence
        run.publish(1, time, sequence, ["a"])
        if time < 30.0:
            run.notify(2, time + 0.1, (1, sequence), hops=1)
    folder = run.write()
    radio = RadioSpec(energy="intel-5300", battery=25.0)
    run.scenario().model_copy(update={"radio": radio}).save(folder / "scenario.json")
    stations = [
        NONE | {"node": "sta1", "transmit": 10.0, "receive": 5.0, "idle": 43.0, "sleep": 2.0},
        NONE | {"node": "sta2", "overhear": 10.0, "idle": 20.0, "off": 30.0, "empty": 30.0},
    ]
    (folder / "energy.json").write_text(json.dumps({"format": 1, "stations": stations}))
    plain = RunBuilder(root / "plain", nodes=2)
    plain.subscribe(2, 1.0, ["a"])
    plain.publish(1, 5.0, 1, ["a"])
    both = analyse(spark, [folder, plain.write()])
    return [both.of(each) for each in both.runs]


@pytest.fixture
def analysis(analysed: list[Analysis]) -> Analysis:
    return analysed[0]


@pytest.fixture
def tables(analysis: Analysis) -> RunTables:
    return RunTables(analysis, analysis.runs[0])


def test_the_profile_multiplies_the_seconds(tables: RunTables) -> None:
    first = 10 * 1.14 + 5 * 0.94 + 43 * 0.82 + 2 * 0.10
    second = 10 * 0.94 + 20 * 0.82
    energy = tables.table("energy")
    assert energy["node"].tolist() == ["sta1", "sta2"]
    assert energy["joules"].tolist() == pytest.approx([first, second])
    assert energy["empty"].isna().tolist() == [True, False]
    assert tables.value("joules_per_delivery") == pytest.approx((first + second) / 2)
    assert tables.value("delivery_ratio_all") == 1.0  # nothing is due to who has no power


def test_the_report_has_a_tile_a_table_and_the_empty_battery(
    analysis: Analysis, tables: RunTables
) -> None:
    (tile,) = tiles(tables, [JOULES_PER_DELIVERY])
    assert (tile.label, tile.value) == ("Energy per delivered event", "38.7\u202fJ")
    assert tile.detail == "77.4\u202fJ of all radios (intel-5300), deliveries: 2"
    page = write_report(analysis, tables.run).read_text()
    assert "Energy by station" in page
    assert "HotPower 2010" in page
    assert "the states of radios (Energy by station) are the medium's" in page
    assert "sta2: battery empty" in page


def test_runs_that_count_no_energy_have_none(analysed: list[Analysis]) -> None:
    analysis = analysed[1]
    tables = RunTables(analysis, analysis.runs[0])
    assert tables.table("energy").empty
    assert tiles(tables, [JOULES_PER_DELIVERY]) == []
    assert "Energy" not in write_report(analysis, tables.run).read_text()


def test_a_sweep_compares_profiles(tmp_path: Path) -> None:
    swept = spec(
        protocols=("flooding",), vary={"energy": ("none", "esp32-s2", "intel-5300")}, seeds=1
    )
    outcome = run_sweep(swept, tmp_path / "s")
    costs = outcome.results.set_index("energy")["joules_per_delivery"]
    assert costs.isna()["none"]
    # Listening is nearly all of it: 0.82 W and 3.3 V times 63 mA.
    ratio = costs["intel-5300"] / costs["esp32-s2"]
    assert ratio == pytest.approx(0.82 / (3.3 * 0.063), rel=0.02)
    assert JOULES_PER_DELIVERY.title in [shown.title for shown in quantities(outcome.results)]
