"""The slice of a paper: real processes beside the virtual clock."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from emulation.scenario.runfolder import read_run
from spark_analysis.papers import registry
from testbed.app import app
from tests.spark_analysis.papers import made_up


@pytest.mark.root
@pytest.mark.spark
def test_a_slice_runs_every_protocol_on_both_backends(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    papers = MappingProxyType({"made-up": made_up.__name__})
    monkeypatch.setattr(registry, "PAPERS", papers)
    captures: dict[Path, int] = {}  # that were there when the command gave up root

    def drop(*writes: Path) -> bool:
        captures.update({path: len(list(path.glob("*/captures/*.pcap"))) for path in writes})
        return False

    monkeypatch.setattr("testbed.reproduce.drop", drop)
    words = ["reproduce", "made-up", "--backend", "tap", "--duration", "14", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "slice")], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    runs = {
        name: tmp_path / "slice" / f"roaming_field-flooding-{name}" for name in ("tap", "virtual")
    }
    for name, folder in runs.items():
        run = read_run(folder)
        assert run.record is not None
        assert run.record.backend == name
        assert len(run.scenario.nodes) == 6
        assert list(folder.glob("captures/*.pcap"))
    written = len(list(tmp_path.glob("slice/*/captures/*.pcap")))
    assert captures == {tmp_path / "slice": written}
    page = (tmp_path / "slice" / "reproduction.html").read_text(encoding="utf-8")
    assert made_up.PAPER.citation in page
    assert "delivery, tap" in page
    assert "delivery, virtual" in page
    assert "Flood" in page
    assert "Flood" in done.output
