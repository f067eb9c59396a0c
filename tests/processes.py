"""What tests ask about processes, and programs that hang."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs; one whose end nobody has asked for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def hang(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name, which hangs, before all others."""
    folder.mkdir(exist_ok=True)
    script = folder / program
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
