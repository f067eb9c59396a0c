"""Where the testbed's code is, and what its command is called there: in a checkout or a package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCRIPT: Final = "run_testbed.sh"
INSTALLED: Final = "testbed"
"""The command that a package brings; pyproject.toml declares it."""


def program_of(root: Path) -> str:
    """Return what the command is called if the code is in the folder `root`."""
    return SCRIPT if (root / SCRIPT).is_file() else INSTALLED


PROJECT: Final = Path(__file__).resolve().parents[1]
"""Folder that the project's packages are imported from."""
PROGRAM: Final = program_of(PROJECT)
"""Name of the command."""
IS_CHECKOUT: Final = PROGRAM == SCRIPT
BUILD: Final = f"sudo ./{SCRIPT} vm build"
"""The command that builds the virtual machine's image; only a checkout can."""
GUEST: Final = Path("/usr/lib/testbed/agent.py")
"""A file that only the virtual machine has."""
COMMAND: Final = f"./{PROGRAM}" if IS_CHECKOUT else PROGRAM
"""The command as it is typed: in a checkout in its own folder."""


def setup_with(name: str) -> str:
    """Return the command that sets up a third-party system: here, or in the machine's image."""
    command = BUILD if GUEST.exists() else f"{COMMAND} setup"
    return f"{command} --with {name}"
