"""What runs leave in a sweep's folder beside their rows: their cost, and each delivery's delay.

The mean delay of a system is that of what it delivered, so a system that loses the events with long
ways seems fast.  Systems are therefore also compared over what both delivered: pairs of runs of the
same scenario (equal axes and seed) have the same events and subscribers, and so deliveries of the
same publisher, sequence number, receiver and client.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from spark_analysis.sweeps.rows import DELIVERIES, DELIVERY
from spark_analysis.sweeps.tasks import processor_seconds

PROCESSOR_SECONDS: Final = "processor_seconds"
"""Column: what the run took, without its analysis; NaN if it is not known."""


def beside(protocol: str) -> str:
    """Return the column with a run's mean delay over what `protocol` delivered as well, s."""
    return f"delay_beside_{protocol}"


def with_costs(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return rows of the sweep in `folder` with the column `PROCESSOR_SECONDS`."""
    spent = [processor_seconds(folder / "points" / run) for run in rows["run"]]
    return rows.assign(**{PROCESSOR_SECONDS: spent})


def with_pairs(rows: pd.DataFrame, folder: Path, axes: Sequence[str]) -> pd.DataFrame:
    """Return rows of the sweep in `folder` with a column `beside(protocol)` for each protocol.

    NaN if the two runs have no delivery in common, or one has not been run.  Raises OSError.
    """
    columns: dict[str, pd.Series[float]] = {
        beside(str(each)): pd.Series(float("nan"), rows.index) for each in rows["protocol"].unique()
    }
    keys = list(dict.fromkeys((*axes, "seed")))
    for _, group in rows.groupby(keys, sort=False, dropna=False):
        delays = pd.concat([_delays(folder, run) for run in group["run"]], axis=1)
        delays.columns = group.index
        for index, protocol in group["protocol"].items():
            both = delays.loc[delays[index].notna()]
            # Of each of the others: the mean over the deliveries that it shares with this one.
            of_others = both.mean()
            for other in group.index:
                columns[beside(str(protocol))].loc[other] = of_others[other]
    return rows.assign(**columns)


def _delays(folder: Path, run: str) -> pd.Series[float]:
    path = folder / "points" / run / "metrics" / DELIVERIES
    table = pd.read_parquet(path).set_index(list(DELIVERY))
    delays: pd.Series[float] = table["delay"]
    return delays
