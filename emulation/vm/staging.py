"""The folder into which a guest writes its run folders.

The guest must not write beside other runs, and the host must know which runs are the guest's.  So
each machine gets an empty folder inside the folder of runs, and sees it at the path of the folder
of runs; afterwards its contents are moved up.  If the command was killed, the next one, or `clean`,
moves them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from capture.process import start_of
from emulation.scenario.runfolder import new_folder

PREFIX: Final = ".vm-"


class Staging:
    """One machine's folder."""

    def __init__(self, runs: Path) -> None:
        """Make the folder.  Raises OSError if `runs` cannot be written."""
        me = os.getpid()
        self.path = new_folder(runs, f"{PREFIX}{me}-{start_of(me)}")
        self.runs = runs
        self.folders: list[Path] = []
        """Run folders that have been moved."""
        self.recovered: list[Path] = []
        """Run folders left by killed commands."""

    def collect(self) -> None:
        """Move everything that the guest wrote into the folder of runs."""
        self.folders += move_up(self.path)


@contextmanager
def staging(runs: Path) -> Iterator[Staging]:
    """Make a machine's folder; collect its contents however the block ends."""
    recovered = recover(runs)
    stage = Staging(runs)
    stage.recovered = recovered
    try:
        yield stage
    finally:
        stage.collect()


def recover(runs: Path) -> list[Path]:
    """Move up the runs left by killed commands; return the run folders."""
    folders: list[Path] = []
    for path in runs.glob(f"{PREFIX}*"):
        pid, _, began = path.name.removeprefix(PREFIX).partition("-")
        if not pid.isdigit() or str(start_of(int(pid))) != began.partition("-")[0]:
            with suppress(OSError):  # another command does it, or it is another user's
                folders += move_up(path)
    return folders


def move_up(path: Path) -> list[Path]:
    """Move a folder's entries beside it and remove it; return where the folders now are."""
    moved: list[Path] = []
    for entry in sorted(path.iterdir()):
        target, number = path.parent / entry.name, 1
        while target.exists():  # another run started in the same second
            number += 1
            target = path.parent / f"{entry.name}-{number}"
        entry.rename(target)
        if target.is_dir():
            moved.append(target)
    with suppress(OSError):
        path.rmdir()
    return moved
