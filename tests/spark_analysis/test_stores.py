"""Runs and captures in a store, read from an S3 server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from pyarrow.fs import FileInfo, FileType
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo
from typer.testing import CliRunner, Result

from nodeapp.installation import PROJECT
from spark_analysis import stores
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.captures.source import PcapReader
from spark_analysis.errors import AnalysisError
from testbed import stored
from testbed.app import app
from testbed.display import Terminal
from testbed.interruption import INTERRUPTED
from testbed.stored import copied
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


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process copy files itself, as the one does that is started for each copy."""
    copies = {"run": stores.fetch_run, "pages": stores.fetch_pages, "put": stores.put}

    def ask(_: Terminal, what: str, command: str, uri: str, folder: Path) -> None:
        copies[command](uri, folder, lambda share: None)

    monkeypatch.setattr(stored, "_ask", ask)


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
    (bucket / "runs" / "comparison.html").write_text("of other runs")
    told = json.loads(analyze(*uris, uris[0] + "/", "s3://bucket/runs/none", "--json").stdout)
    (refused,) = told["refused"]
    assert refused.startswith("s3://bucket/runs/none is not a run folder")
    assert [facts["report"] for facts in told["runs"]] == [
        "s3://bucket/runs/one/report.html",
        "s3://bucket/runs/an%20other/report.html",
    ]
    assert told["pages"][-1] == "s3://bucket/runs/comparison-2.html"
    assert (bucket / "runs" / "comparison.html").read_text() == "of other runs"
    assert [facts["summary"]["delivery_ratio_all"] for facts in told["runs"]] == [0.5, 0.5]
    added = everything_in(one) - before
    assert {Path("report.html"), Path("summary.json"), Path("metrics/delivery.parquet")} <= added
    assert 'href="captures/sta1-wlan0.pcap"' in (one / "report.html").read_text()
    assert 'href="one/report.html"' in (bucket / "runs" / "comparison-2.html").read_text()

    out = tmp_path / "out"
    told = json.loads(analyze(uris[0], "--out", out, "--json").stdout)
    assert told["pages"] == [f"{out}/one/report.html"]
    assert before < everything_in(out / "one")
    assert not (out / "one" / "metrics" / "old.parquet").exists()
    delivery = pq.read_table(out / "one" / "metrics" / "delivery.parquet")
    assert delivery == pq.read_table(one / "metrics" / "delivery.parquet")
    assert (out / "one" / "metrics" / "frames.parquet").is_dir()
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
    assert frames(f"{uri},{uri}/captures") == expected, "each once"
    capture = "captures/sta1-wlan0.pcap"
    assert frames(f"{uri}/{capture}") == frames(run / capture)
    (run / "captures" / "sta1-lo.pcap").unlink()
    of_node = EqualTo(("node",), "sta1")
    assert frames(uri, of_node) == frames(run, of_node) == frames(run / capture)
    listed = PcapReader(FRAMES, {"path": uri}).partitions()
    (run / capture).unlink()
    with pytest.raises(AnalysisError, match=r"^cannot copy s3://bucket/one to /.*pcap"):
        list(PcapReader(FRAMES, {"path": uri}).read(listed[0]))


@pytest.mark.usefixtures("_here")
def test_what_a_store_does_not_have_or_take_is_said_in_a_line(bucket: Path, tmp_path: Path) -> None:
    run = write_run(bucket / "runs" / "one")
    (bucket / "empty").write_bytes(b"")
    for uri, message in (
        ("s3://bucket/two", "s3://bucket/two is not a run folder"),
        ("s3://bucket/empty", "s3://bucket/empty is not a run folder"),
        ("s3://bucket/runs", "is not a run folder; name one, like s3://bucket/runs/NAME"),
        ("s3://bucket", "s3://bucket is not a run folder"),
        ("s3://nowhere/run", "s3://nowhere/run is not a run folder"),
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
    there = analyze(run, "--out", "s3://bucket/out")
    assert there.exit_code == 2
    assert "give the path of a folder" in there.stderr


def test_a_command_ends_at_once_though_the_store_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        keys = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        words = ("-m", "testbed", "analyze", "s3://bucket/one", "--out", str(tmp_path))
        with subprocess.Popen(
            [sys.executable, *words],
            cwd=PROJECT,
            env=os.environ | keys,
            stderr=subprocess.PIPE,
        ) as command:
            connection, _ = server.accept()
            with connection:
                command.send_signal(signal.SIGINT)
                assert command.wait(timeout=60) == INTERRUPTED
                connection.settimeout(60)
                while connection.recv(1024):  # until the copying process is gone
                    pass
    assert not list(tmp_path.iterdir())


def test_keys_stay_in_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [FileInfo("bucket/one", FileType.Directory)]
    entries += [FileInfo(f"bucket/one/{key}", FileType.File) for key in ("a", "b/../../c")]
    system = SimpleNamespace(
        get_file_info=lambda what: entries[0] if isinstance(what, str) else entries[1:]
    )
    monkeypatch.setattr(stores, "_opened", lambda uri: (system, "bucket/one"))
    with pytest.raises(AnalysisError, match=r"bucket/one/b/../../c is no path within it"):
        stores.files("s3://bucket/one")


@pytest.mark.usefixtures("_here")
def test_results_that_cannot_be_copied_back_are_kept(
    bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(bucket / "runs" / "one")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    console = Terminal(quiet=True)
    page = bucket / "runs" / "one" / "report.html"
    uris = ["s3://bucket/runs/one"]
    with pytest.raises(AnalysisError, match=r"report.html.* ACCESS_DENIED") as raised:
        write_report(uris, console, page.mkdir)
    kept = Path(str(raised.value).rpartition(" ")[2])
    assert everything_in(kept) == {Path("one"), Path("one/report.html"), Path("one/captures")}
    page.rmdir()
    with pytest.raises(KeyboardInterrupt):
        write_report(uris, console, interrupt)
    assert not page.exists()
    with pytest.raises(typer.Exit):
        write_report(uris, console, fail)
    assert page.read_text() == "done"
    (bucket / "page").write_bytes(b"no folder")
    with pytest.raises(AnalysisError, match=r"page: .*ACCESS_DENIED"):
        stores.fetch_pages("s3://bucket/page", tmp_path, lambda share: None)


def write_report(uris: list[str], console: Terminal, meanwhile: Callable[[], object]) -> None:
    with copied(uris, None, console) as copies:
        (copies.runs[0] / "report.html").write_text("done")
        meanwhile()


def interrupt() -> None:
    raise KeyboardInterrupt


def fail() -> None:
    raise typer.Exit(1)


def test_uris_have_neither_secrets_nor_fragments() -> None:
    for uri, reason in (
        ("s3://a:b@c/d", "secrets do not belong"),
        ("s3://a/b#c", "is written %23"),
    ):
        with pytest.raises(AnalysisError, match=reason) as raised:
            stores.files(uri)
        assert "a:b" not in str(raised.value)
