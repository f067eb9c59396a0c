"""Runs and captures in a store, read from an S3 server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo
from typer.testing import CliRunner, Result

from spark_analysis import stores
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.captures.source import PcapReader
from spark_analysis.errors import AnalysisError
from testbed.app import app
from tests.s3_server import s3_server
from tests.spark_analysis.test_analyze_command import everything_in, write_run


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the bucket `bucket` in a store."""
    folder = tmp_path / "store" / "bucket"
    folder.mkdir(parents=True)
    with s3_server(folder.parent) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield folder


def analyze(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)])


@pytest.mark.spark
def test_a_run_in_a_store_is_analysed_there_or_copied(
    spark: SparkSession, bucket: Path, tmp_path: Path
) -> None:
    one = write_run(bucket / "runs" / "one")
    write_run(bucket / "runs" / "an other")
    before = everything_in(one)
    (one / "metrics").mkdir()
    (one / "metrics" / "old.parquet").write_bytes(b"of an earlier analysis")
    uris = ["s3://bucket/runs/one", "s3://bucket/runs/an%20other/"]
    told = json.loads(analyze(*uris, "--json").stdout)
    assert [facts["report"] for facts in told["runs"]] == [
        "s3://bucket/runs/one/report.html",
        "s3://bucket/runs/an%20other/report.html",
    ]
    assert told["pages"][-1] == "s3://bucket/runs/comparison.html"
    assert [facts["summary"]["delivery_ratio_all"] for facts in told["runs"]] == [0.5, 0.5]
    added = everything_in(one) - before
    assert {Path("report.html"), Path("summary.json"), Path("metrics/delivery.parquet")} <= added
    assert Path("metrics/frames.parquet") not in added
    assert 'href="captures/sta1-wlan0.pcap"' in (one / "report.html").read_text()
    assert 'href="one/report.html"' in (bucket / "runs" / "comparison.html").read_text()

    out = tmp_path / "out"
    told = json.loads(analyze(uris[0], "--out", out, "--json").stdout)
    assert told["pages"] == [f"{out}/one/report.html"]
    assert before < everything_in(out / "one")
    assert not (out / "one" / "metrics" / "old.parquet").exists()
    delivery = pq.read_table(out / "one" / "metrics" / "delivery.parquet")
    assert delivery == pq.read_table(one / "metrics" / "delivery.parquet")
    again = analyze(uris[0], "--out", out)
    assert again.exit_code == 1
    assert f"{out}/one is there: analyze it" in again.stderr.replace("\n", "")


def frames(path: str | Path, *filters: Any) -> list[Any]:
    reader = PcapReader(FRAMES, {"path": str(path)})
    list(reader.pushFilters(list(filters)))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


def test_tasks_read_captures_of_a_store(bucket: Path) -> None:
    run = write_run(bucket / "one")
    uri = "s3://bucket/one"
    expected = frames(run)
    assert len(expected) > 4
    assert frames(uri) == frames("s3a://bucket/one/captures/") == expected
    capture = "captures/sta1-wlan0.pcap"
    assert frames(f"{uri}/{capture}") == frames(run / capture)
    (run / "captures" / "sta1-lo.pcap").unlink()
    of_node = EqualTo(("node",), "sta1")
    assert frames(uri, of_node) == frames(run, of_node) == frames(run / capture)
    listed = PcapReader(FRAMES, {"path": uri}).partitions()
    (run / capture).unlink()
    with pytest.raises(AnalysisError, match=r"^cannot copy s3://bucket/one to /.*pcap"):
        list(PcapReader(FRAMES, {"path": uri}).read(listed[0]))


def test_what_a_store_does_not_have_or_take_is_said_in_a_line(bucket: Path, tmp_path: Path) -> None:
    run = write_run(bucket / "runs" / "one")
    (bucket / "empty").write_bytes(b"")
    for uri, message in (
        ("s3://bucket/two", "there is no run folder s3://bucket/two"),
        ("s3://bucket/empty", "there is no run folder s3://bucket/empty"),
        ("s3://nowhere/run", "there is no run folder s3://nowhere/run"),
        ("shop://bucket/run", "shop://bucket/run: Unrecognized filesystem type"),
    ):
        refused = analyze(uri)
        assert refused.exit_code == 1
        assert message in refused.stderr.replace("\n", " ")
    with pytest.raises(AnalysisError, match="there is no capture"):
        find_captures(["s3://bucket/runs"])
    elsewhere = write_run(tmp_path / "two")
    mixed = analyze("s3://bucket/runs/one", elsewhere)
    assert mixed.exit_code == 2
    assert "say with --out where results go" in mixed.stderr
    stored = analyze(run, "--out", "s3://bucket/out")
    assert stored.exit_code == 2
    assert "give a folder of this machine" in stored.stderr


def test_an_interrupted_copy_ends_at_once_and_leaves_nothing(bucket: Path, tmp_path: Path) -> None:
    run = write_run(bucket / "one")
    (run / "captures" / "sta9-lo.pcap").write_bytes(bytes(40 << 20))
    shares: list[float] = []

    def interrupt(share: float) -> None:
        shares.append(share)
        if 0.2 < share < 0.9:
            raise KeyboardInterrupt

    stored = stores.StoredRun("s3://bucket/one", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stored.fetch(interrupt)
    assert max(shares) < 0.9
    assert not stored.copy.exists()


def test_what_cannot_be_written_back_is_an_error(
    bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bucket / "runs" / "page").mkdir(parents=True)  # where a file will not be written
    (tmp_path / "old").write_bytes(b"0")
    with pytest.raises(AnalysisError, match=r"^s3://bucket/runs: When uploading .*'runs/page'"):
        write_back(tmp_path)
    assert not (bucket / "runs" / "old").exists()
    (bucket / "page").write_bytes(b"no folder")
    monkeypatch.setattr(sys.modules[__name__], "write", pytest.fail)
    with pytest.raises(AnalysisError, match="ACCESS_DENIED"):
        write_back(tmp_path, "s3://bucket/page")


def write_back(folder: Path, uri: str = "s3://bucket/runs") -> None:
    with stores.written_back(folder, uri):
        write(folder / "page")


def write(path: Path) -> None:
    path.write_text("of an analysis")
