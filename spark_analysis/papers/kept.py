"""What points leave in their folders beside their rows: cost, code, and each delivery's delay.

The code is the commit of the process that made a point.  It is kept with the point, so that results
which were resumed by a later commit, or are only shown by one, name those that made them.

The mean delay of a system is that of what it delivered, so a system that loses events with long
paths seems fast.  So systems are also compared over what both delivered: pairs of runs of the same
scenario (equal axes and seed) have the same events and subscribers, and so deliveries of the same
publisher, sequence number, receiver and client.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from emulation.scenario.records import CodeRecord
from emulation.scenario.runfolder import RunFolder, read_record
from spark_analysis.measures.delay import DELIVERY_KEY
from spark_analysis.papers import computed
from spark_analysis.sweeps.rows import DELIVERIES
from spark_analysis.sweeps.tasks import processor_seconds

PROCESSOR_SECONDS: Final = "processor_seconds"
"""Column: what the run or computed point took, without its analysis; NaN if unknown."""
CODE: Final = "code"
"""Column: the commit that made the row, and whether files differed; empty if unknown."""
PROBLEM: Final = "problem"
"""Column: what went wrong in the run, in a line; absent from rows where nothing did."""
RUN: Final = "run"
"""Column with the key of a row's run."""


def beside(protocol: str) -> str:
    """Return the column with a run's mean delay over what `protocol` delivered as well, s."""
    return f"delay_beside_{protocol}"


def cost_and_code(folder: Path) -> dict[str, Any]:
    """Return `PROCESSOR_SECONDS` and `CODE` of the point in `folder`, as columns of its rows."""
    return {PROCESSOR_SECONDS: processor_seconds(folder), CODE: code_of_point(folder)}


def code_of_point(folder: Path) -> str:
    """Return the commit that made a point, run or computed; empty if unknown."""
    try:
        text = (folder / computed.CODE).read_text(encoding="utf-8")
        return CodeRecord.model_validate_json(text).in_words()
    except (OSError, ValueError):
        pass
    record = read_record(RunFolder(folder), [])
    return "" if record is None or record.code is None else record.code.in_words()


def with_pairs(rows: pd.DataFrame, folder: Path, axes: Sequence[str]) -> pd.DataFrame:
    """Return rows of the sweep in `folder` with a column `beside(protocol)` for each protocol.

    NaN if the two runs have no delivery in common, or one has not been run.  Raises OSError.
    """
    columns: dict[str, pd.Series[float]] = {
        beside(str(name)): pd.Series(float("nan"), rows.index) for name in rows["protocol"].unique()
    }
    keys = list(dict.fromkeys((*axes, "seed")))
    for _, group in rows.groupby(keys, sort=False, dropna=False):
        delays = pd.concat([_delays(folder, run) for run in group["run"]], axis=1)
        delays.columns = group.index
        for index, protocol in group["protocol"].items():
            both = delays.loc[delays[index].notna()]
            # For each of the others, the mean over the deliveries that it shares with this one.
            of_others = both.mean()
            for other in group.index:
                columns[beside(str(protocol))].loc[other] = of_others[other]
    return rows.assign(**columns)


def _delays(folder: Path, run: str) -> pd.Series[float]:
    path = folder / "points" / run / "metrics" / DELIVERIES
    table = pd.read_parquet(path).sort_values(list(DELIVERY_KEY))
    *delivered, client = DELIVERY_KEY
    # Their ports, which in real time are others in each run.
    table[client] = table.groupby(delivered).cumcount()
    delays: pd.Series[float] = table.set_index(list(DELIVERY_KEY))["delay"]
    return delays
