from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.radio.spec import RadioSpec
from emulation.scenario.runfolder import read_run
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame
from spark_analysis.analysis import analyse
from spark_analysis.measures.lateness import AD_HOC, airtimes
from spark_analysis.reports import write_report
from tests.spark_analysis.runs import RunBuilder


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


@pytest.mark.parametrize(
    ("settings", "mbps"),
    [({}, 65), ({"streams": 4, "width_mhz": 40}, 540), ({"streams": 2, "mcs": 9}, 26)],
)
def test_the_fastest_rate_is_that_of_the_radio(settings: dict[str, int], mbps: float) -> None:
    short, long = (
        airtimes(RadioSpec(standard="n", **settings), fastest=True)[n] for n in (0, 1350)
    )
    assert 8 * 1350 / (long - short) == pytest.approx(mbps * 1e6, rel=0.2)
