from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spark_analysis.engine.results import RunTables
from spark_analysis.measures.delay import DELAY_MEAN
from spark_analysis.report.metric import tiles
from tests.spark_analysis.synthetic import make_analysis, make_run, make_scenario


def test_a_metric_whose_text_raises_says_so_in_its_place(tmp_path: Path) -> None:
    def fail(value: object) -> str:
        raise KeyError("nothing")

    run = make_run(tmp_path / "run", make_scenario())
    tables = RunTables(make_analysis(run), run.read)
    broken = replace(DELAY_MEAN, tile="Mean", text=fail, detail=fail, terminal="{value} {rows}")
    (tile,) = tiles(tables, [broken])
    assert tile.value == "text of delay_mean raises KeyError: 'nothing'"
    assert tile.detail == "detail of delay_mean raises KeyError: 'nothing'"
    assert broken.cell(tables) == tile.value
    words = broken.words({"delay_mean": 0.5})
    assert words == "terminal text of delay_mean raises KeyError: 'rows'"
