"""The appendix of a reproduction's page: everything that the page has no room for.

What was run, the verdict on every claim with every variation, all parts of the claims, all figures
with their numbers, and what it cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pandas as pd

from spark_analysis.papers.computed import POINT
from spark_analysis.papers.cost import about
from spark_analysis.papers.figures import Drawn
from spark_analysis.papers.kept import PROCESSOR_SECONDS, RUN
from spark_analysis.papers.paper import PROTOCOL, STUDY, Paper, Variation
from spark_analysis.papers.results import Reproduction, joined
from spark_analysis.papers.view import FEW, ClaimView, ReproductionView
from spark_analysis.papers.wording import JOINT, RULES
from spark_analysis.report.curves import Curve, Quantity
from spark_analysis.report.quantities import count, number
from spark_analysis.report.scenario_text import plain

APPENDIX: Final = "appendix.md"
LONG: Final = 2 * 3600.0
"""Simulated seconds from which on the page says hours, not minutes."""


def appendix_lines(view: ReproductionView, figures: Sequence[Drawn], page: str) -> list[str]:
    """Return the lines of the appendix, beside the figures; `page` is the name of the page."""
    return [
        *_head(view, page),
        *_claims(view),
        *_variations(view),
        *_figures(figures),
        *_details(view),
        *_cost(view.result),
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table and an empty line."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(_cell, line)) + " |" for line in lines] + [""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _head(view: ReproductionView, page: str) -> Iterator[str]:
    result = view.result
    yield from (f"# {result.paper.title}: appendix", "")
    yield from (f"All numbers behind the [page](../{page}).", "")
    if view.commits:
        yield from (f"The points were made by {view.commits}.", "")
    if result.so_far is not None:
        yield from (f"**So far: {result.so_far.numbers}.**", "")
        yield from (f"- {line}" for line in result.so_far.lines)
        yield ""
    studies = view.studies()
    yield from table(studies.head, [[str(cell) for cell in row] for row in studies.rows])
    if result.failures:
        yield from (f"Failed points: {count(len(result.failures))}", "")
        yield from (f"- {failure}" for failure in view.failures)
        yield ""
    if result.problems:
        yield from (f"Runs with problems: {count(len(result.problems))}", "")
        yield from (f"- {problem}" for problem in view.problems)
        yield ""


def _claims(view: ReproductionView) -> Iterator[str]:
    result, mark = view.result, view.mark
    if not result.judged:
        return
    base = result.judged[0]
    yield from ("## Claims", "", view.legend, "", RULES, "", view.beyond_chance, "")
    if result.paper.margins:
        yield from (result.paper.margins, "")
    columns = sorted({study for claim in view.claims for study in claim.studies})
    head = ["", "claim", *map(view.title, columns)]
    if base.few:
        yield from (
            f"The columns with {count(result.paper.seeds)} seeds have what the first as many "
            "decide: the published evaluation had no more.",
            "",
        )
        head += [f"{view.title(study)}, {count(result.paper.seeds)} seeds" for study in columns]
    rows = []
    for shown in view.claims:
        row = [str(shown.number), shown.statement]
        for before in ("", FEW) if base.few else ("",):
            row += [
                _blank(mark(shown.claim, study, before + base.variation.key)) for study in columns
            ]
        rows.append(row)
    yield from table(head, rows)


def _blank(mark: str) -> str:
    return "" if mark == "–" else mark


def _variations(view: ReproductionView) -> Iterator[str]:
    result, paper, mark = view.result, view.result.paper, view.mark
    yield from ("## Ways to run it", "")
    if len(result.judged) > 1:
        order = sorted({study for claim in view.claims for study in claim.studies} - {JOINT})
        yield from (
            f"One row per variation, one column per claim by its number; marks in the order "
            f"{', '.join(map(view.title, order))}; one mark alone if the claim is about all.",
            "",
        )
        head = ["", *(str(index) for index in range(1, len(paper.claims) + 1))]
        rows = [
            [
                way.variation.name,
                *(
                    " ".join(mark(shown.claim, s, way.variation.key) for s in shown.studies)
                    for shown in view.claims
                ),
            ]
            for way in result.judged
        ]
        yield from table(head, rows)
    base = result.judged[0].variation if result.judged else paper.base
    yield from table(
        ["variation", "what is different", "why"],
        [
            [variation.name, _settings(variation, base), reason]
            for variation, reason in view.variations
        ],
    )


def _settings(variation: Variation, base: Variation) -> str:
    """Return the settings of the base, or how those of a variation differ."""
    mine, of_base = dict(variation.settings), dict(base.settings)
    if variation is base:
        return ", ".join(f"`{key}={value}`" for key, value in mine.items())
    changed = [f"`{key}={value}`" for key, value in mine.items() if of_base.get(key) != value]
    dropped = [f"`{key}`" for key in of_base if key not in mine]
    if dropped:
        changed.append(f"defaults of {', '.join(dropped)}")
    return ", ".join(changed)


def _figures(figures: Sequence[Drawn]) -> Iterator[str]:
    if not figures:
        return
    yield from ("## Figures", "", "Means with their 95 % confidence intervals.", "")
    for figure in figures:
        title = figure.drawing.title.replace("[", "(").replace("]", ")")
        yield from (f"![{title}]({figure.name}.svg)", "", figure.drawing.caption, "")
        for panel, curves in figure.panels.items():
            if panel:
                yield from (f"{panel}:", "")
            yield from _numbers(figure.figure.x.title, figure.figure.quantity, curves)


def _numbers(x: str, quantity: Quantity, curves: Mapping[str, Curve]) -> list[str]:
    columns = list(dict.fromkeys(value for curve in curves.values() for value, _ in curve))
    rows = []
    for name, curve in curves.items():
        means = dict(curve)
        row = [name]
        for column in columns:
            interval = means.get(column)
            if interval is None:
                row.append("–")
                continue
            text = number(interval.mean * quantity.scale)
            if interval.known:
                text += f" ± {number(interval.half_width * quantity.scale, 2)}"
            row.append(text)
        rows.append(row)
    return table([f"{quantity.unit}, by {x}", *map(plain, columns)], rows)


def _details(view: ReproductionView) -> Iterator[str]:
    yield from ("## Claim by claim", "")
    for claim in view.claims:
        yield from (f"### {claim.number}. {claim.statement}", "", f"{claim.source}.", "")
        if claim.rule:
            yield from (f"Rule: {claim.rule}", "")
        yield from (f"- {remark}" for remark in claim.remarks)
        yield ""
        if view.variations:
            yield from _parts(claim, view.variations[0][0])


def _parts(claim: ClaimView, base: Variation) -> Iterator[str]:
    """Yield every comparison of the base, folded."""
    findings = [finding for finding in claim.findings if finding.variation is base]
    if not findings:
        return
    yield from ("<details><summary>All parts</summary>", "")
    for finding in findings:
        yield from (f"- {finding.study}: {finding.verdict}", "")
        yield from (f"  - {line}" for line in finding.lines)
        yield ""
    yield from ("</details>", "")


def _cost(result: Reproduction) -> Iterator[str]:
    """Yield what the runs and the computed points took, each counted once."""
    tables = [way.points for way in result.judged if PROCESSOR_SECONDS in way.points]
    if not tables:
        return
    points = joined(tables)
    runs, computed = _once(points, RUN), _once(points, POINT)
    runs = runs.dropna(subset=[PROCESSOR_SECONDS])
    if not len(runs) and not len(computed):
        return
    yield from ("## What it cost", "")
    if len(runs):
        yield from _cost_of_runs(result.paper, runs)
    if len(computed):
        yield from _cost_of_computed(result.paper, computed)


def _once(points: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return one row for each run or computed point: those with a key."""
    if key not in points:
        return points[:0]
    return points.dropna(subset=[key]).drop_duplicates(subset=[STUDY, key])


def _cost_of_runs(paper: Paper, runs: pd.DataFrame) -> Iterator[str]:
    total, simulated = math.fsum(runs[PROCESSOR_SECONDS]), float(runs["duration"].sum())
    lasted = f"{count(simulated / 60)} simulated minutes"
    if simulated >= LONG:
        lasted = f"{count(simulated / 3600)} simulated hours"
    yield from (
        f"{count(len(runs))} runs, {lasted}: {about(total)} of one processor, without the "
        "analysis. Processor seconds for each simulated second:",
        "",
    )
    studies = list(dict.fromkeys(runs[STUDY]))
    rows = [
        [_name(paper, str(protocol)), *(_rate(of, study) for study in studies)]
        for protocol, of in runs.groupby(PROTOCOL)
    ]
    yield from table(["", *studies], rows)


def _cost_of_computed(paper: Paper, computed: pd.DataFrame) -> Iterator[str]:
    costs = computed[PROCESSOR_SECONDS].dropna()
    text = f"{count(len(computed))} computed points"
    if not len(costs):
        text += "; their cost is unknown."
    else:
        text += f": {about(math.fsum(costs))} of one processor"
        if len(costs) < len(computed):
            text += f" for the {count(len(costs))} whose cost is known"
        text += "."
    yield from (text, "")
    rows = []
    for study, of in computed.groupby(STUDY, sort=False):
        mean = of[PROCESSOR_SECONDS].mean()
        seconds = "–" if math.isnan(mean) else number(mean, 2)
        rows.append([paper.study(str(study)).title, count(len(of)), seconds])
    yield from table(["study", "computed points", "processor seconds each, mean"], rows)


def _name(paper: Paper, protocol: str) -> str:
    return paper.names.get(protocol, protocol)


def _rate(runs: pd.DataFrame, study: str) -> str:
    of_study = runs[runs[STUDY] == study]
    if not len(of_study):
        return "–"
    return number(of_study[PROCESSOR_SECONDS].sum() / of_study["duration"].sum(), 2)
