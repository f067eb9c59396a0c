"""The report of a script's run, and what is said if it cannot be written."""

from __future__ import annotations

from pathlib import Path

from spark_analysis.scripts import page
from testbed.options import fail


def write(folder: Path) -> Path:
    """Write tables and report into a run folder; return the report's path."""
    try:
        return page.write(folder)
    except (OSError, ValueError) as error:
        fail(f"no report of {folder}: {error}")
