"""Which process makes a run: whether that lives tells a killed run from one that is under way.

A process id is used again, and counts in its own namespace only; so the moment at which the process
began, the start of the machine and the namespace belong to it (proc(5), pid_namespaces(7)).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from emulation.scenario.records import Owner

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_BEGAN: Final = 19
"""Index of the start, in ticks of the clock since the machine's, after the name in `stat`."""


def this_process() -> Owner:
    """Return what this process is."""
    pid = os.getpid()
    boot, namespace = _here()
    return Owner(pid=pid, began=_began(pid) or 0, boot=boot, namespace=namespace)


def has_ended(owner: Owner) -> bool:
    """Return whether a process has ended; False if that cannot be known from here."""
    if (owner.boot, owner.namespace) != _here():
        return False
    return _began(owner.pid) != owner.began


def _here() -> tuple[str, str]:
    return BOOT.read_text(encoding="ascii").strip(), str(Path("/proc/self/ns/pid").readlink())


def _began(pid: int) -> int | None:
    """Return when a process began; None if it has ended, even if nobody has asked for its end."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *others = fields.rpartition(")")[2].split()
    return None if state in "ZX" else int(others[_BEGAN - 1])
