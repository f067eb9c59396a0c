"""What backends are compared by, measured on one run from its tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pandas as pd

from emulation.network.fidelity import LATE_MEDIAN, LATE_P99
from emulation.scenario.runfolder import Run
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.measures.delay import DELAY_P50, HOPS_MEAN
from spark_analysis.measures.delivery import DELIVERY_RATIO
from spark_analysis.measures.registry import METRICS
from spark_analysis.measures.stages import DelayStage
from spark_analysis.report.metric import AgreementBound

if TYPE_CHECKING:
    from spark_analysis.engine.results import Analysis


OWN: Final[Mapping[str, AgreementBound]] = MappingProxyType(
    {metric.column: metric.agreement for metric in METRICS if metric.agreement is not None}
)
"""Further metrics, by column, by which runs of some protocols are compared."""


@dataclass(frozen=True)
class StageMeasure:
    """One stage of one run: median step and mean share of a delivery, seconds."""

    p50: float
    per_delivery: float


@dataclass(frozen=True)
class Measures:
    """What one run is compared by; NaN where there was nothing to measure."""

    run: str
    seed: int
    delivery: float
    """Ratio, settled events."""
    delay: float
    """s, median over deliveries at other nodes than the publisher's."""
    hops: float
    """Mean over these deliveries."""
    frames: Mapping[str, float]
    """Frames on the air by message kind."""
    stages: Mapping[DelayStage, StageMeasure]
    air: float
    """s, median time on the air of the deliveries that were followed through the captures."""
    in_nodes: float
    """s, median time that these spent in nodes."""
    traced: float
    """Share of the deliveries that were followed through the captures."""
    kept_real_time: bool | None = None
    """None: the backend does not run in real time."""
    late_median: float = math.nan
    late_p99: float = math.nan
    """s, how late the backend's medium delivered frames, by its own account."""
    failed_checks: tuple[str, ...] = ()
    own: Mapping[str, float] = field(default_factory=dict)
    """By column of the summary: what only runs of some protocols have (`OWN`)."""

    def p50(self, stage: DelayStage) -> float:
        """Return the median step of a stage, s; NaN if no delivery has it."""
        return self.stages[stage].p50 if stage in self.stages else math.nan

    @property
    def frames_total(self) -> float:
        """Frames on the air of all kinds."""
        return float(sum(self.frames.values()))


@dataclass(frozen=True)
class Side:
    """One backend and its runs, one for each repeat."""

    name: str
    runs: tuple[Measures, ...]

    def only(self, repeats: Iterable[int]) -> Side:
        """Return the side with the runs of some repeats, numbered from 0."""
        return Side(self.name, tuple(self.runs[i] for i in repeats))

    def values(self, of: Callable[[Measures], float]) -> list[float]:
        """Return what was measured in each run, without NaN."""
        return [value for value in map(of, self.runs) if math.isfinite(value)]


def measure(run: Run, analysis: Analysis, tables: Mapping[str, pd.DataFrame]) -> Measures:
    """Return a run's measures from its analysis, and `stages`, `split` and `on_air` of all runs."""
    summary = analysis.of(run).table("summary").iloc[0]
    of_stage, split, sent = (
        tables[name][tables[name]["run"] == run.name] for name in ("stages", "split", "on_air")
    )
    delivered = float(summary["delay_count"])
    checks = {} if run.fidelity is None else {check.name: check for check in run.fidelity.checks}

    def late(name: str) -> float:
        value = checks[name].value if name in checks else None
        return math.nan if value is None else value / 1e6

    return Measures(
        run=run.name,
        seed=run.scenario.seed,
        delivery=float(summary[DELIVERY_RATIO.column]),
        delay=float(summary[DELAY_P50.column]),
        hops=float(summary[HOPS_MEAN.column]),
        frames={
            str(row.kind_name): float(row.frames) for row in tuples(sent.sort_values("kind_name"))
        },
        stages={
            DelayStage(row.stage): StageMeasure(float(row.p50), float(row.per_delivery))
            for row in tuples(of_stage)
        },
        air=float(split["air_p50"].iloc[0]) if len(split) else math.nan,
        in_nodes=float(split["nodes_p50"].iloc[0]) if len(split) else math.nan,
        traced=float(split["deliveries"].iloc[0]) / delivered if delivered and len(split) else 0.0,
        kept_real_time=run.fidelity.kept_real_time if checks and run.fidelity else None,
        late_median=late(LATE_MEDIAN),
        late_p99=late(LATE_P99),
        failed_checks=tuple(name for name, check in checks.items() if not check.ok),
        own={
            name: float(summary[name])
            for name, bound in OWN.items()
            if not any(pd.isna(summary.get(column)) for column in (name, bound.beside or name))
        },
    )
