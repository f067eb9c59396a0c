"""The workload driver of more nodes than it may open sockets for."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from topologies.catalog import make_scenario


@pytest.mark.root
def test_the_limit_on_open_files_is_named(tmp_path: Path) -> None:
    settings = {"nodes": 40, "topics": 1, "subscribers": 30}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=30.0, settings=settings)
    scenario.save(tmp_path / "scenario.json")
    names = ("status", "start", "control")
    config = {name: str(tmp_path / name) for name in names} | {
        "scenario": str(tmp_path / "scenario.json"),
        "pids": {node.name: os.getpid() for node in scenario.nodes},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "emulation.network.driver", str(tmp_path / "config.json")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "driver: Too many open files: a process may have 20 (raise the limit: ulimit -n 80)\n"
    )
