"""Which code made a run: the commit of the testbed, and whether files differ from it."""

from __future__ import annotations

import functools
import subprocess
import tomllib
from pathlib import Path
from typing import Final

from emulation.scenario.records import CodeRecord
from nodeapp.installation import IS_CHECKOUT

PROJECT: Final = Path(__file__).resolve().parents[2]
DISTRIBUTION: Final = "pubsub-testbed"
"""Name of the package in pip."""
PATIENCE: Final = 10.0
"""Seconds that git may take to answer."""


@functools.cache
def code() -> CodeRecord | None:
    """Return the commit; None if there is no repository here, or no git.

    Determined once a process: it is the code that the process has loaded.
    """
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    if not commit or changes is None:
        return None
    return CodeRecord(commit=commit, changed=bool(changes))


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
