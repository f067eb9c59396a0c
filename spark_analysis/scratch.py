"""Folders that Spark works in, and what killed analyses have left of them.

Nothing here needs Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "testbed-spark-"


def prefix() -> str:
    """Return how the name of a folder of this process begins."""
    return f"{PREFIX}{os.getpid()}-"


def clean(root: Path | None = None) -> list[str]:
    """Remove the folders of processes that are gone; return a line for each."""
    done = []
    for folder in sorted((root or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        owner = re.match(rf"{PREFIX}(\d+)-", folder.name)
        if owner is not None and not Path("/proc", owner[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)
            done.append(f"removed {folder} of a killed analysis")
    return done
