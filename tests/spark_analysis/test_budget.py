from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from emulation.scenario.runfolder import read_run
from nodeapp.budget import FRAMES
from spark_analysis.analysis import _beyond_budget
from tests.spark_analysis.runs import RunBuilder


@pytest.mark.parametrize("backend", ["tap", "virtual"])
def test_frames_beyond_the_budget_of_node_apps_are_told(tmp_path: Path, backend: str) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"backend": backend}))
    load = pa.table(
        {
            "run": ["x", "x", "x", "y", "x", "x"],
            "node": ["sta1", "sta1", "sta2", "sta1", "br1", "br2"],
            "sent_frames": [FRAMES + 5, FRAMES + 2, FRAMES, 9 * FRAMES, 2 * FRAMES, 2 * FRAMES],
            "mesh_frames": [0, 0, 0, 0, FRAMES, FRAMES + 1],  # of broadcasts, each on both radios
        }
    )
    told = list(_beyond_budget(read_run(folder), load))
    if backend == "virtual":
        assert told == []
        return
    assert told == [
        "br2 sent more than the 1000 frames a second that node apps take from a neighbour: they "
        "drop the rest, 1 in all",
        "sta1 sent more than the 1000 frames a second that node apps take from a neighbour: they "
        "drop the rest, 7 in all",
    ]
