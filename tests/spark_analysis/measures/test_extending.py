"""A measure is a file: that of docs/extending/, in a copy of the project that has its protocol."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nodeapp.compiled import FOLDER
from nodeapp.installation import PROJECT
from spark_analysis.report.quantities import number
from tests.pages import example
from tests.spark_analysis.report.pages import Page

PACKAGES = ("testbed", "spark_analysis", "topologies", "emulation", "capture", "nodeapp")
FILE = "spark_analysis/measures/spread.py"
PROTOCOL = "nodeapp/pubsub/gossip.py"
REGISTRY = "nodeapp/pubsub/registry.py"
ENTRY = '        "flooding": Protocol('
LINE = '        "gossip": Protocol("gossip:Gossip", "with a probability"),\n'


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project to which both were added."""
    project = tmp_path_factory.mktemp("extended") / "project"
    for package in PACKAGES:
        # With its bytecode, which fits: every process of the command would compile it.
        shutil.copytree(PROJECT / package, project / package)
    if (PROJECT / FOLDER).exists():  # compiled modules whose source is the same, class data
        (project / FOLDER).symlink_to(PROJECT / FOLDER)
    (project / FILE).write_text(example("measure"), encoding="utf-8")
    (project / PROTOCOL).write_text(example("protocol"), encoding="utf-8")
    registry = (project / REGISTRY).read_text(encoding="utf-8")
    assert ENTRY in registry
    (project / REGISTRY).write_text(registry.replace(ENTRY, LINE + ENTRY), encoding="utf-8")
    return project


COMMANDS = """
import sys
from pathlib import Path
from spark_analysis.engine.session import spark_session
from spark_analysis.measures.__main__ import main
from spark_analysis.sweeps.page import drawings, write_page
from spark_analysis.sweeps.spec import SweepSpec
from spark_analysis.sweeps.sweep import run_sweep
from testbed.app import app

sweep, sys.argv = Path(sys.argv[1]), ["", "--renew"]
assert main() == 0
settings = {"nodes": "7", "interval": "1"}
spec = SweepSpec("roaming_field", ("gossip",), {"speed": ("0", "5")}, 1, 21.0, settings)
with spark_session("local[2]"):  # one for both: a cold start costs seconds
    outcome = run_sweep(spec, sweep, keep_frames=True)
    write_page(outcome, [], drawings(outcome, []))  # without the figures for print
    app(["analyze", *map(str, sorted((sweep / "points").iterdir()))], standalone_mode=False)
"""


@pytest.mark.spark
def test_a_measure_is_a_file(extended: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, sweep],
        cwd=extended,
        env={**os.environ, "PYTHONPATH": str(extended)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r", \d\.\d nodes hear a frame\n", done.stderr)) == 2
    page = Page((sweep / "sweep.html").read_text(encoding="utf-8"))
    assert [each["class"] for each in page.elements("figure")].count("audience") == 1
    assert "Audience, nodes" in page.tables["means"][0]
    rows = pq.read_table(sweep / "results.parquet").to_pylist()
    assert all(1 < row["audience"] < 7 for row in rows)

    one, other = (path.parent for path in sorted((sweep / "points").glob("*/report.html")))
    comparison = Page((sweep / "points" / "comparison.html").read_text(encoding="utf-8"))
    head, *lines = filter(None, comparison.tables[""])
    column = head.index("audience")
    assert {line[column] for line in lines} == {number(row["audience"]) for row in rows}
    for run in (one, other):
        table = pq.read_table(run / "metrics" / "spread.parquet")
        assert table.schema.names == ["run", "publisher", "sequence", "nodes"]
        assert table.schema.field("nodes").metadata == {
            b"comment": b"nodes that received a frame of it"
        }
        heard = table["nodes"].to_pylist()
        assert heard
        assert set(heard) <= set(range(1, 8))
        report = Page((run / "report.html").read_text(encoding="utf-8"))
        shown = {int(nodes): int(events) for nodes, events in report.tables["spread-of-events"][1:]}
        assert shown == {nodes: heard.count(nodes) for nodes in set(heard)}
        assert [each["class"] for each in report.elements("figure")][-1] == "spread"
        assert "Audience of a frame" in report.text
        assert "metrics/spread.parquet" in {each["href"] for each in report.elements("a")}
