from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.radio.spec import RadioSpec
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.virtual.recording import PcapRecorder
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame
from spark_analysis.analysis import analyse, tables_of
from spark_analysis.engine import tuning
from spark_analysis.measures.lateness import AD_HOC, BETWEEN, DOWN, LATENESS, UP, airtimes
from spark_analysis.reports import write_report
from tests.spark_analysis.runs import RunBuilder
from topologies.catalog import make_scenario


@pytest.mark.spark
def test_lateness_is_from_radio_to_radio_less_airtime(spark: SparkSession, tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "x", nodes=3)
    for second in range(10):  # received a millisecond later, whatever the length
        length = run.radio(1, 1.0 + second, Frame(CommonKind.HELLO, 1), heard_by=[2, 3])
        run.radio(
            2, 1.5 + second, Frame(CommonKind.EVENT, 2, publisher=2, sequence=1), heard_by=[1]
        )
    run.radio(3, 30.0, Frame(CommonKind.HELLO, 3), heard_by=[1], to=1)  # a unicast does not count
    late = Frame(CommonKind.EVENT, 3, publisher=3, sequence=9)
    run.radio(3, 40.0, late, heard_by=[1, 2], after=0.6)
    folder = run.write()
    analysis = analyse(spark, [folder])
    (found,) = analysis.table("lateness").to_dict("records")
    airtime = airtimes(read_run(folder).scenario.radio)[length]
    assert (found["way"], found["at_most"], found["receptions"]) == (AD_HOC, False, 30)
    assert found["later"] == 2
    assert found["p50"] == found["max"] == pytest.approx(0.001 - airtime, abs=1e-9)
    page = write_report(analysis, analysis.runs[0]).read_text()
    assert "broadcasts beyond their airtime, station to station, p99 (captures)" in page
    assert "broadcasts later than 0.5 s, station to station (captures)" in page
    assert "2 of 32" in page


@pytest.mark.spark
@pytest.mark.parametrize("few", [tuning.FEW, 0])
def test_ways_of_a_mesh_are_told_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """A run under the virtual clock that passes for one in real time: nothing waits long."""
    monkeypatch.setattr(tuning, "FEW", few)
    settings = {"side": 2, "nodes": 6, "speed": 5, "interval": 1}
    mesh = make_scenario("mesh_grid", "broker-gpsr", seed=2, duration=20, settings=settings)
    folder = RunFolder.create(tmp_path, mesh)
    simulate(mesh, folder, PcapRecorder(mesh, folder))
    (none,) = tables_of(spark, [folder.path], (LATENESS,))
    assert none.num_rows == 0
    record = folder.record.read_text(encoding="utf-8")
    folder.record.write_text(record.replace('"virtual"', '"tap"'), encoding="utf-8")
    (rows,) = tables_of(spark, [folder.path], (LATENESS,))
    found = rows.to_pandas()
    assert list(found["way"]) == [DOWN, BETWEEN, UP]
    assert found["p50"].between(-1e-6, 1e-3).all()
    assert (found["p50"] <= found["p99"]).all()
    assert (found["p99"] <= found["max"]).all()


@pytest.mark.parametrize(
    ("settings", "mbps"),
    [({}, 65), ({"streams": 4, "width_mhz": 40}, 540), ({"streams": 2, "mcs": 9}, 26)],
)
def test_the_fastest_rate_is_that_of_the_radio(settings: dict[str, int], mbps: float) -> None:
    short, long = (
        airtimes(RadioSpec(standard="n", **settings), fastest=True)[n] for n in (0, 1350)
    )
    assert 8 * 1350 / (long - short) == pytest.approx(mbps * 1e6, rel=0.2)
