"""Recovery: after how many faults of a run delivery came back, and how long that took.

The mean time is over the faults that a run recovers from: a protocol that never recovers from some
is told by the share, which stands before the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_analysis.jobs.recovery import rows
from spark_analysis.metric import MeasuredMetric, significant
from spark_analysis.recovering import LIVING, RECOVERED, Recovery, came_back, recoveries
from spark_analysis.schemas import DOUBLE, column
from spark_analysis.table import Inputs, Measure

if TYPE_CHECKING:
    from spark_analysis.result import RunTables

_TIME: Final = column(
    "recovery", DOUBLE, "s until delivery is as before, mean over faults that it recovers from"
)
_SHARE: Final = column(
    "recovered", DOUBLE, "faults after which delivery was as before / those of which it is known"
)
_LIVING: Final = column(
    "recovered_living", DOUBLE, "as `recovered`, of events of publishers whose node was up"
)


def _by_run(inputs: Inputs, *, living: bool = False) -> dict[str, list[Recovery]]:
    """Return how delivery recovered from each fault; `living`: of publishers whose node was up."""
    found: dict[str, list[Recovery]] = {}
    for run, *_, all_before, all_lowest, all_recovery, before, lowest, recovery in inputs.once(
        rows
    ):
        of_all = Recovery(all_before, all_lowest, all_recovery)
        found.setdefault(run, []).append(Recovery(before, lowest, recovery) if living else of_all)
    return found


def _means(inputs: Inputs) -> Iterator[tuple[str, float]]:
    for run, faults in _by_run(inputs).items():
        times = [each.recovery for each in faults if each.recovery is not None]
        if times:
            yield run, sum(times) / len(times)


def _shares(inputs: Inputs, *, living: bool = False) -> Iterator[tuple[str, float]]:
    for run, faults in _by_run(inputs, living=living).items():
        back, known = came_back(faults)
        if known:
            yield run, back / known


def _text(value: float, unit: str) -> str:
    return significant(value) if math.isnan(value) else f"{significant(value)} {unit}"


@dataclass(frozen=True, kw_only=True)
class _Recovered(MeasuredMetric):
    """A share of few faults, which comparisons write as the number of them."""

    living: str = ""

    def cell(self, tables: RunTables) -> str:
        """Return what a comparison says of a run."""
        back, known = came_back(recoveries(tables.table("recovery"), self.living))
        return f"{back} of {known}" if known else significant(math.nan)


FAULTS_RECOVERED: Final = _Recovered(
    column="recovered",
    title="Faults recovered from",
    caption=f"Faults after which delivery came back to {RECOVERED:.0%} of before, until the next "
    "one or the end.",
    unit="% of faults",
    scale=100.0,
    top=100.0,
    text=lambda value: _text(100 * value, "%"),
    swept=True,
    heading="recovered from",
    if_known=True,
    measure=Measure(
        make=lambda inputs: inputs.rows([*_shares(inputs)], "run string, recovered double"),
        column=_SHARE,
    ),
)
FAULTS_RECOVERED_LIVING: Final = _Recovered(
    column="recovered_living",
    title="Faults recovered from, among the living",
    caption=f"Faults after which delivery came back to {RECOVERED:.0%} of before, of events whose "
    "publisher's node was up: what nodes that are down publish is lost whatever the protocol.",
    unit="% of faults",
    scale=100.0,
    top=100.0,
    text=lambda value: _text(100 * value, "%"),
    swept=True,
    heading="living recovered from",
    if_known=True,
    living=LIVING,
    measure=Measure(
        make=lambda inputs: inputs.rows(
            [*_shares(inputs, living=True)], "run string, recovered_living double"
        ),
        column=_LIVING,
    ),
)
RECOVERY_TIME: Final = MeasuredMetric(
    column="recovery",
    title="Recovery time",
    caption=f"From a fault until delivery is {RECOVERED:.0%} of before; mean of each run's faults "
    "after which it came back: compare it with the share of these.",
    unit="s",
    text=lambda value: _text(value, "s"),
    swept=True,
    heading="recovery",
    if_known=True,
    measure=Measure(
        make=lambda inputs: inputs.rows([*_means(inputs)], "run string, recovery double"),
        column=_TIME,
    ),
)
