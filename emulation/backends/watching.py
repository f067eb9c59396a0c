"""What a backend asks of the processes of a run, and how it words their ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from emulation.realtime.control import ControlError
from emulation.realtime.control import request as control_request


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def ended(code: int | None) -> str:
    """Say how a process ended, from its exit code."""
    if code is not None and code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def answers(control: Path) -> bool:
    """Say whether a control process answers."""
    try:
        control_request(control, {"op": "ping"}, timeout=1.0)
    except ControlError:
        return False
    return True


def ask(control: Path, question: dict[str, Any]) -> dict[str, Any]:
    """Return a control process's answer, empty where it cannot give one any more."""
    try:
        answer: dict[str, Any] = control_request(control, question)
    except ControlError:
        return {}
    return answer


def read_json(path: Path) -> dict[str, Any]:
    """Return what a status file says, empty where it is not there or not whole."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value
