"""A published evaluation, repeated: its sweeps, its claims judged, and the page.

The sweep of each scenario runs under the virtual clock, as published and then with each
`Variation`: a choice that the paper leaves open, or made by the implementation, and that may decide
a claim.  Points that a variation does not touch are run once (`spark_analysis.sweeps.sweep`).

`--backend tap` runs a slice instead, in real time and with real processes: every scheme once, at
one speed, on that backend and under the virtual clock, side by side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from spark_analysis.captures.session import spark_session
from spark_analysis.papers.claims import Claim, Comparison, Finding, Verdict, judge
from spark_analysis.papers.six_schemes import (
    BASE,
    CLAIMS,
    FIGURES,
    PAPER_NAMES,
    REMARKS,
    SCHEMES,
    VARIATIONS,
    Preset,
    Variation,
)
from spark_analysis.report import page as report
from spark_analysis.report.curves import Quantity, curves
from spark_analysis.report.figures import Drawing
from spark_analysis.report.quantities import count, number, seconds, share
from spark_analysis.report.text_table import TextTable
from spark_analysis.sweeps.page import grouped
from spark_analysis.sweeps.sweep import Outcome, Progress, SweepSpec, complete, run_sweep

PAGE: Final = "reproduction.html"
FINDINGS: Final = "claims.json"
MARKS: Final = {Verdict.HOLDS: "✓", Verdict.FAILS: "✕", Verdict.OPEN: "?"}
LEGEND: Final = "✓ holds, ✕ does not, ? not decided, – not run."
RESULTS: Final = "results.parquet"


@dataclass(frozen=True)
class Judged:
    """What came of one way to run it: a row a run, and a finding a claim and scenario."""

    variation: Variation
    points: pd.DataFrame
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Reproduction:
    """Everything that was run, as published first; failures by point, in a line."""

    preset: Preset
    judged: tuple[Judged, ...]
    failures: Mapping[str, str]


def specs(preset: Preset, variation: Variation) -> dict[str, SweepSpec]:
    """Return what to run, by scenario."""
    base = variation is BASE
    return {
        scenario: SweepSpec(
            scenario,
            SCHEMES,
            {"speed": tuple(f"{speed:g}" for speed in (speeds if base else _few(speeds)))},
            preset.seeds,
            preset.duration if base else preset.varied,
            dict(variation.settings),
        )
        for scenario, speeds in preset.speeds.items()
        if scenario in (variation.scenarios or preset.speeds)
    }


def variations(preset: Preset) -> list[Variation]:
    """Return the ways to run it, the base first."""
    return [BASE, *(each for each in VARIATIONS if each.key in preset.variations)]


def _few(speeds: Sequence[float]) -> list[float]:
    """Return the first, the middle and the last."""
    return sorted({speeds[0], speeds[(len(speeds) - 1) // 2], speeds[-1]})


def reproduce(
    preset: Preset,
    folder: Path,
    *,
    master: str = "local[*]",
    progress: Callable[[str, Progress], None] = lambda what, progress: None,
) -> Reproduction:
    """Run everything that has not been run yet in `folder`, judge it and write the page.

    `progress(what, progress)` is called often and ends the work with what it raises; what is
    finished is kept.  Raises `spark_analysis.sweeps.sweep.SweepError` and other `AnalysisError`,
    OSError.
    """
    judged: list[Judged] = []
    failures: dict[str, str] = {}
    with ExitStack() as session:
        for variation in variations(preset):
            parts = []
            for scenario, spec in specs(preset, variation).items():
                what = f"{scenario}, {variation.name}"

                def report_sweep(done: Progress, what: str = what) -> None:
                    progress(what, done)

                where = folder / scenario
                if not complete(spec, where):  # one session for all: starting costs seconds
                    session.enter_context(spark_session(master))
                outcome = run_sweep(spec, where, master=master, progress=report_sweep)
                failures |= {f"{what}: {point}": why for point, why in outcome.failures.items()}
                parts.append(_points(scenario, outcome))
            points = pd.concat(parts, ignore_index=True) if any(map(len, parts)) else pd.DataFrame()
            findings = judge(CLAIMS, points) if len(points) else []
            judged.append(Judged(variation, points, tuple(findings)))
            result = Reproduction(preset, tuple(judged), failures)
            write_results(result, folder)
    return result


def _points(scenario: str, outcome: Outcome) -> pd.DataFrame:
    return outcome.results.assign(scenario=scenario)


def write_results(result: Reproduction, folder: Path) -> Path:
    """Write the page, the claims and the table of all runs; return the page.  Raises OSError."""
    tables = [
        each.points.assign(variation=each.variation.name)
        for each in result.judged
        if len(each.points)
    ]
    if tables:
        pd.concat(tables, ignore_index=True).to_parquet(folder / RESULTS, index=False)
    text = json.dumps([_as_json(each) for each in result.judged], indent=1, default=str)
    (folder / FINDINGS).write_text(text + "\n", encoding="utf-8")
    return write_page(result, folder / PAGE)


def _as_json(judged: Judged) -> dict[str, Any]:
    return {
        "variation": judged.variation.name,
        "settings": dict(judged.variation.settings),
        "claims": [
            {
                "claim": finding.claim.key,
                "says": finding.claim.says,
                "source": finding.claim.source,
                "scenario": finding.scenario,
                "verdict": finding.verdict,
                "comparisons": [asdict(comparison) for comparison in finding.comparisons],
            }
            for finding in judged.findings
        ],
    }


def drawings(judged: Judged) -> list[tuple[str, Drawing]]:
    """Return the paper's figures: a metric over speed, a line a scheme, for each scenario."""
    drawn = []
    for scenario, points in judged.points.groupby("scenario", sort=True):
        for quantity in FIGURES:
            named = points.assign(protocol=points["protocol"].map(PAPER_NAMES))
            series = grouped(named, quantity.column, "speed", [])
            drawing = curves(
                _titled(quantity, f"{scenario}, {judged.variation.name}"), "speed, m/s", series
            )
            drawn.append((f"{scenario}-{quantity.column}-{judged.variation.key}", drawing))
    return drawn


def _titled(quantity: Quantity, where: str) -> Quantity:
    return replace(quantity, title=f"{where.capitalize()}: {quantity.title.lower()}")


def measured(comparison: Comparison) -> str:
    """Return a comparison in a line: its difference, the interval, and whether it holds."""
    interval = comparison.interval
    if interval is None:
        return f"{comparison.text}: –"
    ends = f" [{number(interval.low)}, {number(interval.high)}]" if interval.known else " (one run)"
    sign = "+" if interval.mean > 0 else ""
    mark = MARKS[comparison.verdict]
    return f"{mark} {comparison.text}: {sign}{number(interval.mean)}{ends} {comparison.unit}"


def _marks(result: Reproduction) -> Callable[[Claim, str, str], str]:
    """Return what gives the mark of a claim in a scenario, with a variation by its key."""
    found = {
        (finding.claim.key, finding.scenario, each.variation.key): MARKS[finding.verdict]
        for each in result.judged
        for finding in each.findings
    }
    return lambda claim, scenario, variation: found.get((claim.key, scenario, variation), "–")


def verdict_table(result: Reproduction) -> TextTable:
    """Return what came of every claim, in every scenario, with every variation."""
    scenarios = sorted(result.preset.speeds)
    head = ["claim", *(f"{s}, {each.variation.name}" for each in result.judged for s in scenarios)]
    mark = _marks(result)
    keys = [(scenario, each.variation.key) for each in result.judged for scenario in scenarios]
    rows = [[claim.says, *(mark(claim, *key) for key in keys)] for claim in CLAIMS]
    note = (
        f"{LEGEND} Comparisons at equal speed and seed, 95 % confidence. A claim holds if all its "
        "parts do, and does not if any does not; it is not decided where an interval contains 0."
    )
    return TextTable("Claims", note, head, rows, words=len(head))


def marks_table(result: Reproduction) -> TextTable:
    """Return the same in marks, narrow enough for a terminal: a column a scenario."""
    scenarios = sorted(result.preset.speeds)
    mark = _marks(result)
    keys = [each.variation.key for each in result.judged]
    rows = [
        [
            claim.says,
            *(" ".join(mark(claim, scenario, key) for key in keys) for scenario in scenarios),
        ]
        for claim in CLAIMS
    ]
    ways = ", ".join(each.variation.name for each in result.judged)
    note = f"{LEGEND} From left to right: {ways}."
    return TextTable("Claims", note, ["claim", *scenarios], rows, words=1 + len(scenarios))


def _duration(preset: Preset) -> str:
    text = f"{preset.duration:g} s"
    if preset.varied != preset.duration:
        text += f", of variations {preset.varied:g} s"
    return text


def write_page(result: Reproduction, path: Path) -> Path:
    """Write the page and return its path.  Raises OSError."""
    first = result.judged[0]
    html = report.environment().get_template("reproduction.html").render(
        title="Six publish/subscribe schemes for vehicles",
        facts=[
            ("preset", result.preset.name),
            ("runs", count(sum(len(each.points) for each in result.judged))),
            ("seeds", count(result.preset.seeds)),
            ("duration of a run", _duration(result.preset)),
        ],
        failures=[f"{point}: {why}" for point, why in result.failures.items()],
        verdicts=verdict_table(result),
        figures=report.placed([d for each in result.judged for d in drawings(each)]),
        claims=[
            {
                "says": claim.says,
                "source": claim.source,
                "remark": REMARKS.get(claim.key, ""),
                "findings": [
                    {
                        "where": f"{found.scenario}, {each.variation.name}",
                        "verdict": str(found.verdict),
                        "lines": [measured(part) for part in found.comparisons],
                    }
                    for each in result.judged
                    for found in each.findings
                    if found.claim is claim
                ],
            }
            for claim in CLAIMS
        ],
        variations=[(each.variation.name, each.variation.why) for each in result.judged],
        as_published=first.variation.name,
    )  # fmt: skip
    return report.write_html(path, html)


# The slice in real time.


def slice_table(rows: pd.DataFrame, backends: Sequence[str]) -> TextTable:
    """Return what every scheme did on each backend; `rows` are summaries with a `scenario`."""
    head = ["scenario", "scheme"]
    for title in ("delivery", "mean delay", "load, B/s"):
        head += [f"{title}, {backend}" for backend in backends]
    body = []
    for scenario, of_scenario in rows.groupby("scenario", sort=True):
        for scheme in SCHEMES:
            line = [str(scenario), PAPER_NAMES[scheme]]
            for column, text in (
                ("delivery_ratio", share),
                ("delay_mean", seconds),
                ("load_mean", number),
            ):
                for backend in backends:
                    found = of_scenario[
                        (of_scenario["protocol"] == scheme) & (of_scenario["backend"] == backend)
                    ][column].dropna()
                    line.append(text(float(found.iloc[0])) if len(found) else "–")
            body.append(line)
    note = "One run each of the same scenario: placement, motion and workload are the same."
    return TextTable("Real time beside virtual time", note, head, body, words=2)


def write_slice(
    rows: pd.DataFrame, backends: Sequence[str], problems: Sequence[str], path: Path
) -> Path:
    """Write the page of a slice and return its path.  Raises OSError."""
    html = report.environment().get_template("slice.html").render(
        title="Six publish/subscribe schemes for vehicles",
        backends=", ".join(backends),
        problems=problems,
        tables=[slice_table(rows, backends)],
    )  # fmt: skip
    return report.write_html(path, html)
