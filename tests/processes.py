"""What tests ask about processes."""

from __future__ import annotations

import psutil


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs; one whose end nobody has asked for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
