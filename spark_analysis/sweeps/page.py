"""The page of a sweep: a figure for each metric, with confidence intervals over the seeds."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from emulation.vm.waiting import MachineBackend
from emulation.whole import write_text
from nodeapp.installation import COMMAND
from spark_analysis.engine.pandas_rows import floats, groups, native, records
from spark_analysis.measures.last_seen import Cause
from spark_analysis.measures.lost import column_of
from spark_analysis.measures.registry import METRICS
from spark_analysis.report import losses
from spark_analysis.report import page as report
from spark_analysis.report.confidence import Interval, mean_interval
from spark_analysis.report.curves import Quantity, multiples, of_panel
from spark_analysis.report.figures import Drawing
from spark_analysis.report.quantities import NOTHING, count, number
from spark_analysis.report.scenario_text import plain
from spark_analysis.report.text_table import TextTable
from spark_analysis.sweeps.differences import Difference, differences
from spark_analysis.sweeps.folder import PAGE
from spark_analysis.sweeps.spec import VIRTUAL, SweepSpec
from spark_analysis.sweeps.sweep import SweepOutcome
from topologies.catalog import all_parameters

CLOCKS: Final = {
    VIRTUAL: "under the virtual clock",
    MachineBackend.name: "in a machine whose clock waits",
}
"""By backend; others run in real time."""
MOST_RUNS: Final = 200
"""Single runs that the page lists."""
MOST_BARS: Final = 60
"""Points of the figure of causes."""
TOGETHER: Final = 6
"""Most curves that can be told apart in one panel."""
QUANTITIES: Final = tuple(Quantity.of(metric) for metric in METRICS if metric.swept)
"""What is drawn and listed for a sweep."""
_ON_TERMINALS: Final = frozenset(metric.column for metric in METRICS if metric.terminal)
_IF_KNOWN: Final = frozenset(metric.column for metric in METRICS if metric.if_known)


def quantities(results: pd.DataFrame) -> list[Quantity]:
    """Return what is drawn and listed for a sweep with these results."""
    return [
        quantity
        for quantity in QUANTITIES
        if quantity.column not in _IF_KNOWN
        or (quantity.column in results and results[quantity.column].notna().any())
    ]


def grouped(
    results: pd.DataFrame, column: str, parameter: str | None, others: Sequence[str]
) -> dict[str, list[tuple[Any, Interval]]]:
    """Return, by protocol and the values of `others`, means of a column over `parameter`.

    Runs that have no value (nothing was delivered, so that there is no delay) are left out.
    """
    series: dict[str, list[tuple[Any, Interval]]] = {}
    keys = ["protocol", *others]
    for names, rows in groups(results, keys, sort=False, dropna=False):
        texts = [str(names[0])]
        texts += [
            f"{key} {plain(native(value))}"
            for key, value in zip(others, names[1:], strict=True)
            if not pd.isna(value)
        ]
        by_value: Mapping[Any, pd.DataFrame] = {"": rows}
        if parameter is not None:  # words are in the order in which they were given
            ordered = pd.api.types.is_numeric_dtype(results[parameter])
            by_value = dict(list(rows.groupby(parameter, sort=ordered)))
        if not by_value:  # the protocol does not have the parameter: the same at each value
            by_value = dict.fromkeys(_values(results[parameter]), rows)
        curve = [
            (native(value), mean_interval(measured))
            for value, at in by_value.items()
            if (measured := [float(v) for v in at[column].dropna()])
        ]
        if curve:
            series[", ".join(texts)] = curve
    return series


def _values(column: pd.Series) -> list[Any]:
    values = list(column.dropna().unique())
    return sorted(values) if pd.api.types.is_numeric_dtype(column) else values


def arranged(
    results: pd.DataFrame, column: str, parameter: str | None, others: Sequence[str]
) -> dict[str, dict[str, list[tuple[Any, Interval]]]]:
    """Return the curves of `grouped`, by panel.

    Up to `TOGETHER` are in one panel, more have a panel for each combination of the values of
    `others`.  A protocol that does not have one of these parameters is in every panel.
    """
    series = grouped(results, column, parameter, others)
    if len(series) <= TOGETHER or not others:
        return {"": series}
    panels = {}
    for values in itertools.product(*(_values(results[key]) for key in others)):
        title = ", ".join(f"{k} {plain(native(v))}" for k, v in zip(others, values, strict=True))
        panels[title] = grouped(of_panel(results, others, values), column, parameter, [])
    return panels


def _axis(spec: SweepSpec, parameter: str | None) -> str:
    """Return the label of a parameter's axis: its name, and its help text up to the details."""
    name = parameter or ""
    offered = (
        all_parameters(spec.topology, protocol, workload)
        for workload in spec.workloads
        for protocol in spec.protocols
    )
    meaning = next((has[name].help for has in offered if name in has), "")
    meaning = re.split("[;:(]", meaning)[0].strip()
    return f"{name}, {meaning}" if meaning else name


def compared(outcome: SweepOutcome) -> list[Difference]:
    """Return the differences between all protocols of a sweep; none without results."""
    results = outcome.counted
    if results.empty:
        return []
    return differences(results, quantities(results), list(outcome.spec.vary))


def _tables(outcome: SweepOutcome, gaps: Sequence[Difference]) -> list[TextTable]:
    if outcome.results.empty:
        return []
    tables = [difference_table(gaps, list(outcome.spec.vary))] if gaps else []
    means = [] if outcome.counted.empty else [number_table(outcome)]
    return [*means, *tables, runs_table(outcome)]


def runs_table(outcome: SweepOutcome) -> TextTable:
    """Return the single runs, the first `MOST_RUNS`, with what repeats one."""
    results, varied = outcome.results, list(outcome.spec.vary)
    shown = [q for q in quantities(results) if q.column in _ON_TERMINALS]
    rows = [
        [
            row["protocol"],
            *(NOTHING if pd.isna(row[name]) else plain(row[name]) for name in varied),
            str(row["seed"]),
            *(number(_scaled(row[quantity.column], quantity.scale)) for quantity in shown),
            str(row["run"]),
            str(row["command"]),
        ]
        for row in records(results.head(MOST_RUNS))
    ]
    folder = shlex.quote(str(outcome.folder / "points"))
    backend = outcome.spec.backend
    when = "if its packets were kept, else" if outcome.spec.captured else "with captures:"
    note = (
        f"Report and replay of one: {COMMAND} analyze {folder}/RUN; {when} its command, or "
        f"{COMMAND} run --backend {backend} --scenario {folder}/RUN"
    )
    if len(results) > MOST_RUNS:
        note += f". The first {MOST_RUNS} of {len(results)}; all are in results.parquet"
    head = ["protocol", *varied, "seed", *(f"{q.title}, {q.unit}" for q in shown), "run", "command"]
    return TextTable("Single runs", f"{note}.", head, rows, words=1 + len(varied))


def _scaled(value: Any, scale: float) -> float | None:
    return None if pd.isna(value) else float(value) * scale


def drawings(outcome: SweepOutcome, gaps: Sequence[Difference]) -> list[tuple[str, Drawing]]:
    """Return a figure for each metric, over the parameter that was varied first.

    Then one for each in which protocols differ, by `gaps`, which `compared` returns.
    """
    results = outcome.counted
    if results.empty:
        return []
    varied = list(outcome.spec.vary)
    parameter = varied[0] if varied else None
    axis = _axis(outcome.spec, parameter)
    over = (
        f"Mean over the seeds that have a value, at most {outcome.spec.seeds}; bars: 95\u202f% "
        "confidence interval, cut off where it leaves the frame."
        if outcome.spec.seeds > 1
        else "One run each, so nothing is known about chance."
    )
    return [
        (
            quantity.column.replace("_", "-"),
            multiples(
                replace(quantity, caption=f"{quantity.caption} {over}"),
                axis,
                arranged(results, quantity.column, parameter, varied[1:]),
            ),
        )
        for quantity in quantities(results)
    ] + [*cause_drawings(results, varied), *difference_drawings(gaps, axis)]


def cause_drawings(results: pd.DataFrame, varied: Sequence[str]) -> Sequence[tuple[str, Drawing]]:
    """Return the figure of what is missing by cause; none if nothing is, or too many points."""
    by_name = {
        ", ".join(
            [str(protocol)]
            + [
                f"{key} {plain(native(value))}"
                for key, value in zip(varied, values, strict=True)
                if not pd.isna(value)
            ]
        ): rows
        for (protocol, *values), rows in groups(
            results, ["protocol", *varied], sort=False, dropna=False
        )
    }
    missing = {
        str(cause): np.array([floats(rows[column]).sum() for rows in by_name.values()])
        for cause in Cause
        if (column := column_of(cause)) in results and results[column].sum()
    }
    if not missing or len(by_name) > MOST_BARS:
        return []
    expected = np.array([floats(rows["expected_all"]).sum() for rows in by_name.values()])
    return [("missing", losses.by_point(list(by_name), expected, missing))]


def number_table(outcome: SweepOutcome) -> TextTable:
    """Return all means with their intervals, a row for each point of the figures."""
    varied, results = list(outcome.spec.vary), outcome.counted
    rows: list[list[str]] = []
    shown = quantities(results)
    keys = ["protocol", *varied]
    for names, points in groups(results, keys, sort=False, dropna=False):
        row = [NOTHING if pd.isna(name) else plain(native(name)) for name in names]
        for quantity in shown:
            values = [float(value) for value in points[quantity.column].dropna()]
            of = f" (of {count(len(values))})" if 0 < len(values) < len(points) else ""
            row.append(_interval(quantity, values) + of)
        rows.append([*row, count(len(points))])
    head = ["protocol", *varied, *(f"{q.title}, {q.unit}" for q in shown), "runs"]
    note = (
        "Over the seeds, ± half width of the 95\u202f% confidence interval; (of 3): only so many "
        "runs have a value."
    )
    return TextTable("Means", note, head, rows, words=1 + len(varied))


def _interval(quantity: Quantity, values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    interval = mean_interval([value * quantity.scale for value in values])
    if not interval.known:
        return number(interval.mean)
    return _with_half_width(interval.mean, interval.half_width)


def difference_drawings(gaps: Sequence[Difference], axis: str) -> list[tuple[str, Drawing]]:
    """Return a figure for each quantity in which some difference is decided.

    `axis` is the label of the first varied parameter.
    """
    shown: list[tuple[str, Drawing]] = []
    for quantity, group in itertools.groupby(gaps, key=lambda gap: gap.quantity):
        of_quantity = list(group)
        if not any(gap.decided for gap in of_quantity):
            continue
        panels: dict[str, dict[str, list[tuple[Any, Interval]]]] = {}
        for gap in of_quantity:
            value, *others = gap.at.items() or [("", "")]
            title = ", ".join(f"{key} {plain(native(of))}" for key, of in others)
            curve = panels.setdefault(title, {}).setdefault(f"{gap.first} less {gap.second}", [])
            curve.append((native(value[1]), gap.interval))
        caption = (
            f"{quantity.caption} Of runs that share their draws; bars: intervals that all hold "
            f"together at 95\u202f% ({len(of_quantity)} comparisons). One leaving out 0 decides."
        )
        drawing = multiples(
            replace(
                quantity,
                title=f"{quantity.title}: difference",
                caption=caption,
                top=None,
                signed=True,
            ),
            axis,
            panels,
        )
        shown.append((f"difference-{quantity.column.replace('_', '-')}", drawing))
    return shown


def difference_table(gaps: Sequence[Difference], varied: Sequence[str]) -> TextTable:
    """Return the differences, a row for each pair of protocols at each point."""
    shown = list(dict.fromkeys(gap.quantity for gap in gaps))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for gap in gaps:
        point = [plain(native(gap.at[name])) for name in varied]
        row = rows.setdefault((gap.first, gap.second, *point), {})
        row[gap.quantity.column] = _signed(gap)
    head = ["protocol", "less", *varied, *(f"{q.title}, {q.unit}" for q in shown)]
    note = (
        "Paired by seed, since runs of one seed share their draws. Intervals of a column hold "
        "together at 95\u202f%, over all its rows. ✓: decided, the interval leaves out 0; if all "
        "seeds differ by the same, they are enough for a sign test."
    )
    body = [[*names, *(row.get(q.column, NOTHING) for q in shown)] for names, row in rows.items()]
    return TextTable("Differences", note, head, body, words=2 + len(varied))


def _signed(gap: Difference) -> str:
    scale, interval = gap.quantity.scale, gap.interval
    sign = "+" if interval.mean > 0 else "−" if interval.mean < 0 else ""
    text = _with_half_width(scale * abs(interval.mean), scale * interval.half_width)
    return f"{sign}{text}{' ✓' if gap.decided else ''}"


def _with_half_width(mean: float, half: float) -> str:
    """Return a mean and the half width of its interval with the decimals that two digits need."""
    decimals = min(max(1 - math.floor(math.log10(half)), 0), 6) if half > 0 else 2
    return f"{mean:.{decimals}f} ± {half:.{decimals}f}"


def write_results(outcome: SweepOutcome) -> None:
    """Write figures and page into the sweep's folder.  Raises OSError."""
    gaps = compared(outcome)
    shown = drawings(outcome, gaps)
    if shown:
        report.write_figures(outcome.folder / report.FIGURES, shown)
    write_page(outcome, gaps, shown)


def write_page(
    outcome: SweepOutcome, gaps: Sequence[Difference], shown: Sequence[tuple[str, Drawing]]
) -> Path:
    """Write the page into the sweep's folder and return its path; `shown` are its figures.

    Raises OSError.
    """
    spec = outcome.spec
    html = report.report_environment().get_template("sweep.html").render(
        title=f"{spec.topology}: {', '.join(spec.protocols)}",
        clock=CLOCKS.get(spec.backend, "in real time"),
        facts=[
            ("runs", count(len(outcome.results))),
            ("seeds", count(spec.seeds)),
            ("backend", spec.backend),
            ("duration", f"{spec.duration:g} s"),
            ("varied", ", ".join(spec.vary) or "nothing"),
            ("draws differ by", ", ".join(("seed", *spec.draws))),
        ],
        failures=[f"{point}: {reason}" for point, reason in outcome.failures.items()],
        problems=[f"{point}: {what}" for point, what in outcome.problems.items()],
        figures=report.numbered(shown),
        tables=_tables(outcome, gaps),
        settings=[(key, str(value)) for key, value in spec.settings.items()],
        command=spec.command(),
    )  # fmt: skip
    return write_text(outcome.folder / PAGE, html)
