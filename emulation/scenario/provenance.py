"""What made a run: the code (its commit, and whether files differ from it), and the process.

If the process is alive, the run is under way, else it was killed.  A process id may be reused, and
is valid only in its own namespace; so a process's identity includes its start time, the machine's
boot and the namespace (proc(5), pid_namespaces(7)).
"""

from __future__ import annotations

import functools
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Final

from capture.process import start_of
from emulation.scenario.records import CodeRecord, Owner
from nodeapp.installation import IS_CHECKOUT, PROJECT

DISTRIBUTION: Final = "pubsub-testbed"
"""Name of the package in pip."""
PATIENCE: Final = 10.0
"""Seconds that git may take to answer."""
PACKAGES: Final = ("testbed", "emulation", "nodeapp", "capture", "spark_analysis", "topologies")
"""Folders of what a run, or its analysis, executes."""
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def code() -> CodeRecord | None:
    """Return the commit; None if there is no repository here, or no git.

    Determined once per process: it is the code that the process has loaded.
    """
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    # Topologies, protocols, measures are there as soon as their files are.
    added = _git("status", "--porcelain", "--", *(f"{folder}/*.py" for folder in PACKAGES))
    if not commit or changes is None or added is None:
        return None
    return CodeRecord(commit=commit, changed=bool(changes or added))


def version() -> str:
    """Return the version in words: the package's, and the commit if known."""
    from importlib import metadata  # 20 ms, which every run would pay

    try:
        if IS_CHECKOUT:
            project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
            number = str(project["project"]["version"])
        else:
            number = metadata.version(DISTRIBUTION)
    except (OSError, ValueError, KeyError, metadata.PackageNotFoundError):
        number = "unknown"
    commit = code()
    if commit is None:
        return number
    return f"{number}, commit {commit.in_words()}"


def _git(*words: str) -> str | None:
    """Return what git prints; None if it fails."""
    # The caller of sudo owns the repository: git would refuse to read it as another user.
    command = ["git", "-c", f"safe.directory={PROJECT}", "-C", str(PROJECT), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    top = PROJECT / ".git"
    return done.stdout.strip() if done.returncode == 0 and top.exists() else None


def this_process() -> Owner:
    pid = os.getpid()
    boot, namespace = _here()
    return Owner(pid=pid, began=start_of(pid) or 0, boot=boot, namespace=namespace)


def has_ended(owner: Owner) -> bool:
    """Return whether a process has ended; False if that cannot be determined from here."""
    if (owner.boot, owner.namespace) != _here():
        return False
    return start_of(owner.pid) != owner.began


def cause_of_death(owner: Owner | None) -> str | None:
    """Return a line for a run's record if its process has ended, so was killed; else None."""
    if owner is None or not has_ended(owner):
        return None
    return f"the run was killed: its process {owner.pid} is gone"


def _here() -> tuple[str, str]:
    return BOOT.read_text(encoding="ascii").strip(), str(Path("/proc/self/ns/pid").readlink())
