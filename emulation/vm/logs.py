"""Logs of machines: one file per boot, of which the last few are kept, and how machines ended."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from emulation.errors import VmError

KEPT: Final = 200
TAIL: Final = 1 << 16
TELLING: Final = (
    re.compile(r"Kernel panic - not syncing: .*"),
    re.compile(r"testbed: (?:cannot|no |the agent failed).*"),
    re.compile(r"Out of memory: .*"),
    re.compile(r"watchdog: BUG: .*"),
)


def new_log(folder: Path) -> Path:
    """Return the path of a new log and remove the oldest ones.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[: -(KEPT - 1)]:
        old.unlink(missing_ok=True)
        old.with_suffix(".qemu").unlink(missing_ok=True)
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:
        path = folder / (f"{stem}.log" if number == 1 else f"{stem}-{number}.log")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


def failure(what: str, log: Path) -> VmError:
    """Return the error that says what a guest did, why, and where its log is."""
    return VmError(f"the virtual machine {what}{explain(log)} (log: {log})")


def time_is_up(limit: float | None) -> str:
    """Return the words for `failure` about a machine that was ended after `limit` seconds."""
    return f"was ended: it exceeded its time limit of {limit:g} s"


def how_it_ended(code: int, errors: str) -> str:
    """Return how QEMU ended, for `failure`, from its exit code and its standard error."""
    last = errors.strip().rpartition("\n")[2]
    if code < 0:
        return f"was killed by signal {-code}" + (f": {last}" if last else "")
    return f"ended: {last or f'code {code}'}" if code else "ended by itself"


def exit_code(reply: Mapping[str, Any]) -> int:
    """Return the exit code of a command.  Raises `VmError` if it could not be started."""
    if "error" in reply:
        raise VmError(f"the guest cannot start the command: {reply['error']}")
    return int(reply["code"])


def explain(log: Path) -> str:
    """Return ": " and the line of a console log that explains the guest's end, if there is one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    for pattern in TELLING:
        match = pattern.search(text)
        if match:
            return f": {match.group().strip()}"
    return ""
