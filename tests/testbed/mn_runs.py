"""Runs of scripts for Mininet-WiFi, as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nodeapp.installation import PROJECT

SCRIPTS: Final = Path(__file__).parent / "mn_scripts"
LIMIT: Final = 100
"""Seconds that a run may take."""


def mn(
    tmp_path: Path, script: Path, *words: str, errors: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with `mn` and these words; `errors` is where standard error goes."""
    command = [sys.executable, "-m", "testbed", "mn", "--runs", str(tmp_path / "my runs"), *words]
    return subprocess.run(
        [*command[:4], str(script), *command[4:]],
        cwd=PROJECT, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=LIMIT, check=False,
        stdin=subprocess.DEVNULL, env=os.environ | environment,
    )  # fmt: skip


def typed(tmp_path: Path, *commands: str) -> Path:
    """Return a file of commands for the prompt."""
    path = tmp_path / "commands"
    path.write_text("\n".join(commands) + "\n")
    return path


def run_folder(tmp_path: Path) -> Path:
    """Return the folder of the only run."""
    (folder,) = (tmp_path / "my runs").iterdir()
    return folder


def answers(
    tmp_path: Path, name: str, *commands: str, arguments: Sequence[str] = ()
) -> tuple[dict[str, str], str]:
    """Run a script; return what each command at its prompt prints, and all that is printed."""
    words = ("--commands", str(typed(tmp_path, *commands)), "--no-captures", "--no-analyze")
    # Mininet writes to standard error, and `sh` to standard output.
    done = mn(tmp_path, SCRIPTS / name, *words, *arguments, errors=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    parts = done.stdout.partition("\nrun folder: ")[0].split("mininet-wifi> ")[1:]
    found = [part.partition("\n") for part in parts]
    return {command: said for command, _, said in found}, done.stdout
