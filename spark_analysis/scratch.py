"""Folders that Spark works in, and what killed analyses have left of them.

Nothing here needs Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "testbed-spark-"


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for the block; those of processes that were killed are removed."""
    clean()
    prefix = f"{PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        yield Path(made)


@contextmanager
def instead_of_tmp(path: Path) -> Iterator[None]:
    """Have other code make its temporary files in a folder, where `clean` finds them."""
    before = tempfile.tempdir
    tempfile.tempdir = str(path)
    try:
        yield
    finally:
        tempfile.tempdir = before


def clean(root: Path | None = None) -> list[str]:
    """Remove the folders of processes that are gone; return a line for each."""
    done = []
    for folder in sorted((root or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        owner = re.match(rf"{PREFIX}(\d+)-", folder.name)
        if owner is not None and not Path("/proc", owner[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)
            done.append(f"removed {folder} of a killed analysis")
    return done
