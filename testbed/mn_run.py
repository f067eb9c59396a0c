"""A run of a script for Mininet-WiFi: its folder, and its processes from start to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, end
from emulation.scripts import isolation
from testbed.options import fail


def make_folder(runs: Path, script: Path) -> Path:
    """Make a run folder named after time and script, with a copy of the script."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-mn-{script.stem}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        number = 1
        while (folder := runs / (stem if number == 1 else f"{stem}-{number}")).exists():
            number += 1
        folder.mkdir()
        (folder / "nodes").mkdir()
        (folder / "script.py").write_bytes(script.read_bytes())
    except OSError as error:
        fail(f"cannot write to {runs}: {error.strerror}; give another folder with --runs")
    return folder.resolve()


def run_script(spec: dict[str, Any], **options: Any) -> int:
    """Run a script in namespaces of its own; return its exit code.

    `spec` is a `SessionSpec` without its state folder; `options` are those of `subprocess.Popen`.
    """
    with Interrupts() as interrupts:
        state = StateFolder()
        try:
            config = state.path / "session.json"
            config.write_text(json.dumps(spec | {"state": state.path}, default=str))
            # The terminal gives Ctrl-C to the script as well, which ends by itself.
            process = isolation.start(config, state.environment(), **options)
            while process.poll() is None:
                try:
                    process.wait(0.1)
                except subprocess.TimeoutExpired:
                    if interrupts.requested and not sys.stdin.isatty():
                        interrupts.requested = False
                        _pass_on(process.pid)
            return process.returncode
        finally:
            if "process" in locals():
                end(process)
            state.remove()


def _pass_on(unshare: int) -> None:
    """Let the script end as after Ctrl-C: `unshare` itself ignores signals."""
    children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)
