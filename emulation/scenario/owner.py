"""Which process makes a run: if it lives, the run is under way, else it was killed.

A process id may be reused, and is valid only in its own namespace; so the identity includes the
process's start time, the machine's boot and the namespace (proc(5), pid_namespaces(7)).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from emulation.scenario.records import Owner

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_BEGAN: Final = 19
"""Index of the start time, in clock ticks since boot, among the fields after the name in `stat`."""


def this_process() -> Owner:
    pid = os.getpid()
    boot, namespace = _here()
    return Owner(pid=pid, began=_began(pid) or 0, boot=boot, namespace=namespace)


def has_ended(owner: Owner) -> bool:
    """Return whether a process has ended; False if that cannot be determined from here."""
    if (owner.boot, owner.namespace) != _here():
        return False
    return _began(owner.pid) != owner.began


def cause_of_death(owner: Owner | None) -> str | None:
    """Return that a run was killed, for its record, if its process has ended; else None."""
    if owner is None or not has_ended(owner):
        return None
    return f"the run was killed: its process {owner.pid} is gone"


def _here() -> tuple[str, str]:
    return BOOT.read_text(encoding="ascii").strip(), str(Path("/proc/self/ns/pid").readlink())


def _began(pid: int) -> int | None:
    """Return when a process began; None if it has ended, even if it has not been reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *others = fields.rpartition(")")[2].split()
    return None if state in "ZX" else int(others[_BEGAN - 1])
