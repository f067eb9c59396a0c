"""The page of a reproduction, and the page with the claims of several papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_analysis.papers.claims import Claim
from spark_analysis.papers.figures import drawings
from spark_analysis.papers.paper import Axis, Paper, Preset
from spark_analysis.papers.remarks import remarks
from spark_analysis.papers.results import Reproduction, made_by
from spark_analysis.papers.wording import (
    JOINT,
    LEGEND,
    MARKS,
    RULES,
    duration_of,
    measured,
    seeds_of,
    why,
)
from spark_analysis.report import page as report
from spark_analysis.report.quantities import count
from spark_analysis.report.scenario_text import plain
from spark_analysis.report.text_table import FileLink, TextTable

PAGE: Final = "reproduction.html"
FEW: Final = "few "
"""Before the key of a variation: judged from the first seeds alone."""


def marks(result: Reproduction) -> Callable[[Claim, str, str], str]:
    """Return what gives the mark of a claim in a study, with a variation by its key.

    With `FEW` before the key, it is that of the first seeds alone.
    """
    found = {
        (finding.claim.key, finding.study or JOINT, before + each.variation.key): MARKS[
            finding.verdict
        ]
        for each in result.judged
        for before, findings in (("", each.findings), (FEW, each.few))
        for finding in findings
    }
    return lambda claim, study, variation: found.get((claim.key, study, variation), "–")


def _columns(result: Reproduction) -> list[str]:
    """Return the studies that claims are judged in, sorted; what is judged over several last."""
    names = {finding.study for each in result.judged for finding in each.findings}
    if not names:
        names = set(result.preset.values)
    return [*sorted(names - {""}), *([JOINT] if "" in names else [])]


def verdict_table(result: Reproduction) -> TextTable:
    """Return whether each claim holds, in every study, with every variation.

    What the first seeds decide, as many as the published evaluation had, stands beside it.  A way
    to run it is named if there are several.
    """
    studies = _columns(result)
    head, keys = ["claim"], []
    for each in result.judged:
        way = [each.variation.name] if len(result.judged) > 1 else []
        head += [", ".join((study, *way)) for study in studies]
        keys += [(study, each.variation.key) for study in studies]
        if each.few:
            few = f"{count(result.paper.seeds)} seeds as published"
            head += [", ".join((study, *way, few)) for study in studies]
            keys += [(study, FEW + each.variation.key) for study in studies]
    mark = marks(result)
    claims = result.paper.claims
    rows = [[claim.statement, *(mark(claim, *key) for key in keys)] for claim in claims]
    note = " ".join(filter(None, (LEGEND, RULES, result.paper.margins)))
    return TextTable("Claims", note, head, rows, words=len(head))


def marks_table(result: Reproduction) -> TextTable:
    """Return the same in marks, narrow enough for a terminal: a column a study."""
    studies = _columns(result)
    mark = marks(result)
    keys = [each.variation.key for each in result.judged]
    rows = [
        [
            claim.statement,
            *(_in_a_line([mark(claim, study, key) for key in keys]) for study in studies),
        ]
        for claim in result.paper.claims
    ]
    ways = ", ".join(each.variation.name for each in result.judged)
    so_far = [] if result.so_far is None else [result.so_far.text]
    note = " ".join((*so_far, LEGEND, f"From left to right: {ways}."))
    return TextTable("Claims", note, ["claim", *studies], rows, words=1 + len(studies))


def _in_a_line(marks: Sequence[str]) -> str:
    """Return the mark of the base, and those of the variations."""
    base, *others = marks or ["–"]
    return f"{base} {''.join(others)}".rstrip()


def facts(result: Reproduction) -> list[tuple[str, str]]:
    """Return what identifies a reproduction, for the head of its page."""
    preset, commits = result.preset, made_by(result)
    return [
        ("preset", preset.name),
        *([("so far", result.so_far.numbers)] if result.so_far is not None else []),
        *([("made by", commits)] if commits else []),
        ("points", count(sum(len(each.points) for each in result.judged))),
        ("seeds", seeds_of(preset)),
        ("duration of a run", duration_of(preset)),
    ]


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
        "rule": claim.rule,
        "remarks": remarks(result, claim),
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
    html = report.report_environment().get_template("reproduction.html").render(
        title=paper.title,
        citation=paper.citation,
        anchor=paper.anchor,
        facts=facts(result),
        so_far=result.so_far,
        failures=[f"{point}: {why}" for point, why in result.failures.items()],
        problems=[f"{point}: {what}" for point, what in result.problems.items()],
        verdicts=verdict_table(result),
        studies=study_table(paper, result.preset),
        figures=report.numbered(
            [d for each in result.judged for d in drawings(paper, each, result.judged)]
        ),
        claims=[_claim(result, claim) for claim in paper.claims],
        variations=[(each.variation.name, why(each.variation)) for each in result.judged],
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
    html = report.report_environment().get_template("claims.html").render(
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
