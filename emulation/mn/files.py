"""The folder in which a script runs: what it writes there stays in the run folder.

Theory of operation.  The folder `files` of the run stands in for the one in which the command was
given: a link for each entry, so that a script finds what lies there by the same relative names.
What it writes under a new name without a path is then in the run folder; the links go at the end.
A script that goes up a folder (`..`) would lose its way, so it runs where the command was given.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILES: Final = "files"
"""Folder in the run folder."""


def enter(run_folder: Path, script: Path) -> Path | None:
    """Make the folder and go there; None if the script needs the one in which we are."""
    if b"../" in script.read_bytes():
        return None
    here, folder = Path.cwd(), run_folder / FILES
    folder.mkdir()
    for entry in here.iterdir():
        (folder / entry.name).symlink_to(entry)
    os.chdir(folder)
    return folder


def tidy(folder: Path) -> None:
    """Remove the links, and the folder if nothing is left."""
    for entry in folder.iterdir():
        if entry.is_symlink():
            entry.unlink()
    with suppress(OSError):
        folder.rmdir()
