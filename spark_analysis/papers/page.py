"""The page of a reproduction, and the page with the claims of several papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_analysis.papers.claims import Claim, Comparison, Verdict
from spark_analysis.papers.figures import drawings
from spark_analysis.papers.paper import Axis, Paper, Preset
from spark_analysis.papers.results import Reproduction
from spark_analysis.report import page as report
from spark_analysis.report.quantities import count, number
from spark_analysis.report.scenario_text import plain
from spark_analysis.report.text_table import FileLink, TextTable

PAGE: Final = "reproduction.html"
MARKS: Final = {Verdict.HOLDS: "✓", Verdict.FAILS: "✕", Verdict.OPEN: "?"}
LEGEND: Final = "✓ holds, ✕ does not, ? not decided, – not run."
RULES: Final = (
    "Compared at equal points and seed. Values that share their random draws, for example those of "
    "one seed at several speeds, count once, as their mean; 95 % confidence over these means. A "
    "claim holds if all its parts do, and does not if any does not; it is not decided if an "
    "interval contains 0."
)
JOINT: Final = "all"
"""Stands for the study of a claim that is judged over several."""


def measured(comparison: Comparison) -> str:
    """Return a comparison in a line: its difference, the interval, and whether it holds."""
    interval = comparison.interval
    if interval is None:
        return f"{comparison.text}: –"
    if not interval.known:
        ends = " (one run)"
    elif interval.count == 1:  # no chance in it
        ends = ""
    else:
        ends = f" [{number(interval.low)}, {number(interval.high)}]"
    sign = "+" if interval.mean > 0 else ""
    mark = MARKS[comparison.verdict]
    return f"{mark} {comparison.text}: {sign}{number(interval.mean)}{ends} {comparison.unit}"


def _marks(result: Reproduction) -> Callable[[Claim, str, str], str]:
    """Return what gives the mark of a claim in a study, with a variation by its key."""
    found = {
        (finding.claim.key, finding.study or JOINT, each.variation.key): MARKS[finding.verdict]
        for each in result.judged
        for finding in each.findings
    }
    return lambda claim, study, variation: found.get((claim.key, study, variation), "–")


def _columns(result: Reproduction) -> list[str]:
    """Return the studies that claims are judged in, sorted; what is judged over several last."""
    names = {finding.study for each in result.judged for finding in each.findings}
    if not names:
        names = set(result.preset.values)
    return [*sorted(names - {""}), *([JOINT] if "" in names else [])]


def verdict_table(result: Reproduction) -> TextTable:
    """Return whether each claim holds, in every study, with every variation."""
    studies = _columns(result)
    head = ["claim", *(f"{s}, {each.variation.name}" for each in result.judged for s in studies)]
    mark = _marks(result)
    keys = [(study, each.variation.key) for each in result.judged for study in studies]
    claims = result.paper.claims
    rows = [[claim.statement, *(mark(claim, *key) for key in keys)] for claim in claims]
    return TextTable("Claims", f"{LEGEND} {RULES}", head, rows, words=len(head))


def marks_table(result: Reproduction) -> TextTable:
    """Return the same in marks, narrow enough for a terminal: a column a study."""
    studies = _columns(result)
    mark = _marks(result)
    keys = [each.variation.key for each in result.judged]
    rows = [
        [
            claim.statement,
            *(" ".join(mark(claim, study, key) for key in keys) for study in studies),
        ]
        for claim in result.paper.claims
    ]
    ways = ", ".join(each.variation.name for each in result.judged)
    note = f"{LEGEND} From left to right: {ways}."
    return TextTable("Claims", note, ["claim", *studies], rows, words=1 + len(studies))


def facts(result: Reproduction) -> list[tuple[str, str]]:
    """Return what identifies a reproduction, for the head of its page."""
    preset = result.preset
    return [
        ("preset", preset.name),
        ("points", count(sum(len(each.points) for each in result.judged))),
        ("seeds", count(preset.seeds)),
        ("duration of a run", _duration(preset)),
    ]


def _duration(preset: Preset) -> str:
    text = f"{preset.duration:g} s"
    if preset.varied is not None and preset.varied != preset.duration:
        text += f", of variations {preset.varied:g} s"
    return text


def study_table(paper: Paper, preset: Preset) -> TextTable:
    """Return what is run: the studies with the values of their axes."""

    def line(axis: Axis, values: Sequence[Any]) -> str:
        texts = [axis.names.get(plain(value), plain(value)) for value in values]
        return f"{axis.label} {', '.join(texts)} {axis.unit}".strip()

    rows = [
        [
            study.title,
            "; ".join(line(axis, preset.values[study.name][axis.column]) for axis in study.axes),
        ]
        for study in paper.studies
        if study.name in preset.values
    ]
    return TextTable("Studies", preset.summary, ["study", "axes"], rows, words=2)


def _claim(result: Reproduction, claim: Claim) -> Mapping[str, Any]:
    return {
        "statement": claim.statement,
        "source": claim.source,
        "remark": result.paper.remarks.get(claim.key, ""),
        "findings": [
            {
                "where": f"{found.study or JOINT}, {each.variation.name}",
                "verdict": str(found.verdict),
                "lines": [measured(part) for part in found.comparisons],
            }
            for each in result.judged
            for found in each.findings
            if found.claim is claim
        ],
    }


def write_page(result: Reproduction, path: Path) -> Path:
    """Write the page and return its path.  Raises OSError."""
    paper = result.paper
    html = report.environment().get_template("reproduction.html").render(
        title=paper.title,
        citation=paper.citation,
        anchor=paper.anchor,
        facts=facts(result),
        failures=[f"{point}: {why}" for point, why in result.failures.items()],
        verdicts=verdict_table(result),
        studies=study_table(paper, result.preset),
        figures=report.placed([d for each in result.judged for d in drawings(paper, each)]),
        claims=[_claim(result, claim) for claim in paper.claims],
        variations=[(each.variation.name, each.variation.why) for each in result.judged],
    )  # fmt: skip
    return report.write_html(path, html)


def overview_table(result: Reproduction, page: str) -> TextTable:
    """Return the claims of one paper for the page of all: its base, and a link to its own page."""
    marks = marks_table(result)
    rows = [[statement, *texts] for statement, *texts in marks.rows]
    link = (FileLink("figures, numbers, remarks", page),)
    rows.append([link, *("" for _ in marks.head[1:])])
    return TextTable(result.paper.title, marks.note, marks.head, rows, words=len(marks.head))


def write_overview(results: Sequence[tuple[Reproduction, str]], path: Path) -> Path:
    """Write the page with the claims of all papers and return its path.

    `results` have the address of each paper's own page, relative to `path`.  Raises OSError.
    """
    html = report.environment().get_template("claims.html").render(
        title="Claims of all papers",
        rules=RULES,
        failures=[
            f"{result.paper.key}: {point}: {why}"
            for result, _ in results
            for point, why in result.failures.items()
        ],
        papers=[
            {
                "citation": result.paper.citation,
                "anchor": result.paper.anchor,
                "facts": facts(result),
                "table": overview_table(result, page),
            }
            for result, page in results
        ],
    )  # fmt: skip
    return report.write_html(path, html)
