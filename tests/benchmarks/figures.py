"""Processor time of the figures of a sweep, with small fonts and with whole ones.

python -m tests.benchmarks.figures
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

from spark_analysis.report.page import write_figures
from spark_analysis.sweeps.page import drawings
from spark_analysis.sweeps.sweep import SweepOutcome
from tests.spark_analysis.sweeps.helpers import spec, synthetic

ROUNDS = 5


def seconds(folder: Path) -> float:
    """Return the processor time that all figures of a sweep take, s."""
    swept = spec(vary={"speed": ("1", "10")}, seeds=3)
    drawn = drawings(SweepOutcome(swept, folder, synthetic(), {}, {}), [])
    before = time.process_time()
    write_figures(folder, drawn)
    return time.process_time() - before


def main() -> None:
    """Measure both, one after the other, and print the ratio."""
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds(folder)
        for _ in range(ROUNDS):
            small = seconds(folder)
            with mock.patch("spark_analysis.report.svg.font_settings", return_value={}):
                ratios.append(seconds(folder) / small)
    print(f"whole fonts take {statistics.median(ratios):.2f} times as long as small ones")
    print(f"({min(ratios):.2f} to {max(ratios):.2f}, {ROUNDS} rounds)")


if __name__ == "__main__":
    main()
