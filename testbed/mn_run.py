"""A run of a script for Mininet-WiFi: its folder, and its processes from start to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from emulation.mn import isolation
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, end
from testbed.options import fail, print_error

POLL: Final = 0.1
"""Seconds between two looks at what has come."""
AGAIN: Final = 1.0
"""Seconds after which a signal is sent again: before it has a handler, a script loses it."""
LEAVING: Final = 60.0
"""Seconds in which a script that is asked to end stops its network and ends."""


def make_folder(runs: Path, script: Path) -> Path:
    """Make a run folder named after time and script, with a copy of the script."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-mn-{script.stem}"
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


def run_script(spec: dict[str, Any], **options: Any) -> int | None:
    """Run a script in namespaces of its own; return its exit code, None if a signal ended it.

    `spec` is a `SessionSpec` without its state folder; `options` are those of `subprocess.Popen`.
    """
    with Interrupts() as interrupts:
        state = StateFolder()
        process: subprocess.Popen[bytes] | None = None
        try:
            config = state.path / "session.json"
            config.write_text(json.dumps(spec | {"state": state.path}, default=str))
            # The terminal gives Ctrl-C to the script as well, whose prompt may make use of it.
            typed = signal.SIGINT if "stdin" not in options and _is_terminal() else None
            process = isolation.start(config, state.environment(), **options)
            asked = again = float("inf")
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL)
                now = time.monotonic()
                if interrupts.last not in (None, typed) and now < asked:
                    asked = again = now
                if now > asked + LEAVING:
                    print_error(f"the script was killed: it has not ended within {LEAVING:g} s")
                    break
                if now >= again:
                    again = now + AGAIN
                    _pass_on(process.pid)
            return None if asked < float("inf") else process.returncode
        finally:
            if process is not None:
                end(process)
            state.remove()


def _pass_on(unshare: int) -> None:
    """Let the script end: `unshare` itself ignores signals.

    It has no child yet if it is about to fork, and none any more if the script has just ended.
    """
    with suppress(OSError):
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGTERM)
            os.kill(int(child), signal.SIGCONT)  # a stopped process would not see it


def _is_terminal() -> bool:
    """Return whether somebody types at standard input; it may be closed."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
