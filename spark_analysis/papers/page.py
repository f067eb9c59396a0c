"""The page of a reproduction, and the page with the claims of several papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from emulation.whole import write_text
from spark_analysis.papers.figures import Drawn, drawn
from spark_analysis.papers.results import Reproduction
from spark_analysis.papers.view import FEW, ReproductionView
from spark_analysis.papers.wording import JOINT, RULES, duration_of, seeds_of
from spark_analysis.report import page as report
from spark_analysis.report.quantities import count
from spark_analysis.report.text_table import FileLink, TextTable

PAGE: Final = "reproduction.html"


def _columns(result: Reproduction) -> list[str]:
    """Return the studies that claims are judged in, sorted; what is judged over several last."""
    names = {finding.study for judged in result.judged for finding in judged.findings}
    if not names:
        names = set(result.preset.values)
    return [*sorted(names - {""}), *([JOINT] if "" in names else [])]


def verdict_table(result: Reproduction) -> TextTable:
    """Return whether each claim holds, in every study, with every variation.

    Beside it stands what the first seeds decide, as many as the published evaluation had.  Ways to
    run it are named if there are several.
    """
    studies, view = _columns(result), ReproductionView(result)
    names = [view.title(study) for study in studies]
    head, keys = ["claim"], []
    for judged in result.judged:
        way = [judged.variation.name] if len(result.judged) > 1 else []
        head += [", ".join((name, *way)) for name in names]
        keys += [(study, judged.variation.key) for study in studies]
        if judged.few:
            few = f"{count(result.paper.seeds)} seeds as published"
            head += [", ".join((name, *way, few)) for name in names]
            keys += [(study, FEW + judged.variation.key) for study in studies]
    rows = [[c.statement, *(view.mark(c.claim, *key) for key in keys)] for c in view.claims]
    note = " ".join(filter(None, (view.legend, RULES, result.paper.margins)))
    return TextTable("Verdicts by variation", note, head, rows, words=len(head))


def marks_table(result: Reproduction) -> TextTable:
    """Return the same in marks, narrow enough for a terminal: a column for each study."""
    studies, view = _columns(result), ReproductionView(result)
    mark = view.mark
    keys = [judged.variation.key for judged in result.judged]
    rows = [
        [
            shown.statement,
            *(_in_a_line([mark(shown.claim, study, key) for key in keys]) for study in studies),
        ]
        for shown in view.claims
    ]
    ways = ", ".join(judged.variation.name for judged in result.judged)
    so_far = [] if result.so_far is None else [result.so_far.text]
    note = " ".join((*so_far, view.legend, f"From left to right: {ways}."))
    head = ["claim", *map(view.title, studies)]
    return TextTable("Claims", note, head, rows, words=len(head))


def _in_a_line(marks: Sequence[str]) -> str:
    """Return the mark of the base, then those of the variations."""
    base, *others = marks or ["–"]
    return f"{base} {''.join(others)}".rstrip()


def facts(result: Reproduction) -> list[tuple[str, str]]:
    """Return what identifies a reproduction, for the head of its page."""
    preset, commits = result.preset, ReproductionView(result).commits
    return [
        ("preset", preset.name),
        *([("so far", result.so_far.numbers)] if result.so_far is not None else []),
        *([("made by", commits)] if commits else []),
        ("points", count(sum(len(judged.points) for judged in result.judged))),
        ("seeds", seeds_of(preset)),
        ("duration of a run", duration_of(preset)),
    ]


def claims_table(view: ReproductionView) -> TextTable:
    """Return the claims with the verdict of the base, and why."""
    rows = [[str(c.number), c.statement, c.verdict, c.reason] for c in view.claims]
    head = ["", "claim", "verdict", "why: the part that decides"]
    note = f"{view.legend} {view.beyond_chance}" if view.result.judged else view.legend
    return TextTable("Claims", note, head, rows, words=4)


def turned_table(view: ReproductionView) -> TextTable:
    """Return the variations that turn a verdict."""
    rows = [[name, text] for name, text in view.turned]
    head = ["variation", "claims, from and to"]
    title = "Variations that turn a verdict"
    note = view.unturned if rows else ""
    return TextTable(title, note, head, rows, words=2, empty=view.none_turned)


def write_page(result: Reproduction, shown: Sequence[Drawn], path: Path) -> Path:
    """Write the page with the figures `shown`, and return its path.  Raises OSError."""
    paper, view = result.paper, ReproductionView(result)
    numbered = report.numbered([(figure.name, figure.drawing) for figure in shown])
    main = sum(figure.main for figure in shown)
    html = report.report_environment().get_template("reproduction.html").render(
        title=paper.title,
        citation=paper.citation,
        anchor=paper.anchor,
        published=paper.published,
        setup=view.setup,
        facts=facts(result),
        so_far=result.so_far,
        failures=view.failures,
        problems=view.problems,
        answer=view.answer,
        side_by_side=view.side_by_side,
        summary=claims_table(view),
        differences=view.differences,
        turned=turned_table(view),
        verdicts=verdict_table(result),
        studies=view.studies(),
        main=numbered[:main],
        figures=numbered[main:],
        claims=view.claims,
        variations=[(variation.name, reason) for variation, reason in view.variations],
    )  # fmt: skip
    return write_text(path, html)


def page_drawings(result: Reproduction) -> list[Drawn]:
    """Return the figures of the page, the main ones first."""
    figures = [
        replace(figure, name=f"{figure.name}-{judged.variation.key}")
        for judged in result.judged
        for figure in drawn(result.paper, judged, result.judged)
    ]
    return sorted(figures, key=lambda figure: not figure.main)


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
            f"{result.paper.key}: {failure}"
            for result, _ in results
            for failure in ReproductionView(result).failures
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
    return write_text(path, html)
