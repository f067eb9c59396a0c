"""A terminal that is closed, as by a lost connection, while a run goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.testbed.terminal import Terminal

RUN = "run roaming_field flooding --duration 3600 --no-analyze --backend"
WAYS = {"virtual": "virtual --no-captures --nodes 300", "tap": "tap --nodes 6"}
"""Both take many minutes."""


@pytest.mark.parametrize("backend", ["virtual", pytest.param("tap", marks=[pytest.mark.root])])
def test_a_run_whose_terminal_is_closed_is_interrupted_and_says_so(
    backend: str, tmp_path: Path
) -> None:
    words = f"{RUN} {WAYS[backend]} --runs".split()
    terminal = Terminal([sys.executable, "-m", "testbed", *words, str(tmp_path)])
    try:
        terminal.until(r"[1-9]\d* of 3600 s", 120.0)
        terminal.hang_up()
        assert terminal.ended() == 130
    finally:
        if terminal.process.is_running():
            terminal.process.kill()
    (folder,) = tmp_path.iterdir()
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["ended"] == "interrupted"
    assert record["lasted"] > 0
    assert record["problems"] == []
    assert (folder / "fidelity.json").exists() == (backend == "tap")
