"""A reproduction as its pages show it: what HTML, Markdown and the terminal share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from spark_analysis.papers.answer import answer
from spark_analysis.papers.chance import safe
from spark_analysis.papers.claims import Claim, Verdict
from spark_analysis.papers.paper import Axis, Variation
from spark_analysis.papers.remarks import clearness, is_judged, reason, remarks, turns
from spark_analysis.papers.results import Judged, Reproduction, made_by
from spark_analysis.papers.wording import (
    JOINT,
    LEGEND,
    MARKS,
    OWN,
    OWN_LEGEND,
    clipped,
    measured,
    why,
)
from spark_analysis.report.scenario_text import plain
from spark_analysis.report.text_table import TextTable

LONGEST: Final = 80
"""Characters of a run's problem, which may name many nodes."""
FEW: Final = "few "
"""Before the key of a variation: judged from the first seeds alone."""


@dataclass(frozen=True)
class FindingView:
    """What one variation says of a claim in a study: its verdict, and each comparison in a line."""

    study: str
    variation: Variation
    verdict: str
    lines: tuple[str, ...]

    @property
    def where(self) -> str:
        """The study and the variation."""
        return f"{self.study}, {self.variation.name}"


@dataclass(frozen=True)
class ClaimView:
    """A claim of the paper, with its findings and remarks; `number` is its place, from 1."""

    number: int
    claim: Claim
    statement: str
    """Its words, with `OWN` if the paper does not say it."""
    source: str
    rule: str
    verdict: str
    """By the base: one mark, or one for each study."""
    beside: tuple[str, ...]
    """The same by each further base (`Variation.whole`)."""
    reason: str
    """Why, in a line: the part that decides, with its interval and bound."""
    remarks: tuple[str, ...]
    findings: tuple[FindingView, ...]

    @property
    def studies(self) -> list[str]:
        """The studies in which it was judged, in any variation."""
        return sorted({finding.study for finding in self.findings})


class ReproductionView:
    """What the pages of a reproduction show, in text."""

    def __init__(self, result: Reproduction) -> None:
        self.result = result
        self.commits = made_by(result)
        """The commits that made the points; empty if none is known."""
        self.failures = tuple(f"{point}: {reason}" for point, reason in result.failures.items())
        self.problems = tuple(
            f"{point}: {clipped(what, LONGEST)}" for point, what in result.problems.items()
        )
        """Those of runs, each in a line; the points have all of it."""
        self.variations = tuple((way.variation, why(way.variation)) for way in result.judged)
        """The ways to run it, the base first, and why."""

    @cached_property
    def claims(self) -> tuple[ClaimView, ...]:
        """The claims, in the order of the paper."""
        return tuple(
            ClaimView(
                number,
                claim,
                f"{claim.statement} {OWN}" if claim.own else claim.statement,
                _source(self.result, claim),
                claim.rule,
                *self._verdicts(claim),
                tuple(remarks(self.result, claim)),
                tuple(self._findings(claim)),
            )
            for number, claim in enumerate(self.result.paper.claims, start=1)
        )

    @property
    def answer(self) -> list[str]:
        """The answer, in a few sentences."""
        if not self.result.judged:
            return []
        base, paper = self.result.judged[0], self.result.paper
        return answer(paper.answer, paper.claims, base.points, base.findings)

    @property
    def legend(self) -> str:
        """What the marks of claims mean."""
        own = any(claim.own for claim in self.result.paper.claims)
        return f"{LEGEND} {OWN_LEGEND}" if own else LEGEND

    @property
    def beyond_chance(self) -> str:
        """Which verdicts of the base stay if all of them are taken together, in a sentence."""
        findings = self.result.judged[0].findings
        kept = safe(findings)
        texts = []
        for claim in self.claims:
            of = [f.study for f in findings if f.claim.key == claim.claim.key]
            stay = [study for study in of if (claim.claim.key, study) in kept]
            if stay:
                where = f" ({', '.join(map(self.title, stay))})" if len(stay) < len(of) else ""
                texts.append(f"{claim.number}{where}")
        return (
            "Beyond chance if all verdicts are taken together (Holm, 5 %): "
            f"{', '.join(texts) or 'none'}."
        )

    @property
    def side_by_side(self) -> TextTable | None:
        """The protocols in one table, if the paper has one and points for it."""
        asked = self.result.paper.side_by_side
        if asked is None or not self.result.judged:
            return None
        return asked.table(self.result.judged[0].points)

    @property
    def setup(self) -> str:
        """The heading of `differences`."""
        return "What differs from the paper's set-up" if self.result.paper.published else "Set-up"

    @property
    def differences(self) -> tuple[str, ...]:
        """What differs from the paper's set-up, a line each."""
        paper = self.result.paper
        return paper.differences or (paper.base.why,)

    @cached_property
    def turned(self) -> list[tuple[str, str]]:
        """The variations that turn a verdict by name, and which, by the claims' numbers."""
        if not self.result.judged:
            return []
        base, *variations = self.result.judged
        rows = []
        for variation in variations:
            texts = []
            for claim in self.claims:
                for finding in base.findings:
                    if finding.claim.key != claim.claim.key:
                        continue
                    if (marks := turns(finding, variation)) is not None:
                        where = f"{self.title(finding.study)}: " if finding.study else ""
                        texts.append(f"{claim.number} ({where}{marks})")
            if texts:
                rows.append((variation.variation.name, ", ".join(texts)))
        return rows

    @property
    def unturned(self) -> str:
        """Which claims do not hold whatever is varied, in a sentence; empty if none."""
        base, *variations = self.result.judged
        numbers = []
        for claim in self.claims:
            failed = [
                finding
                for finding in base.findings
                if finding.claim.key == claim.claim.key and finding.verdict is Verdict.FAILS
            ]
            pairs = [(finding, variation) for finding in failed for variation in variations]
            anywhere = any(is_judged(*pair) for pair in pairs)
            if anywhere and not any(turns(*pair) for pair in pairs):
                numbers.append(str(claim.number))
        return f"None of those that were run turns {', '.join(numbers)}." if numbers else ""

    @property
    def none_turned(self) -> str:
        """What to say if no variation turns a verdict."""
        findings = [finding for judged in self.result.judged[1:] for finding in judged.findings]
        verdicts = [finding.verdict for finding in findings if finding.comparisons]
        undecided = verdicts.count(Verdict.OPEN)
        but = f"; {undecided} of {len(verdicts)} verdicts with them are not decided"
        return f"None of those that were run{but if undecided else ''}."

    def title(self, study: str) -> str:
        """Return what a study is called on a page."""
        titles = {known.name: known.title for known in self.result.paper.studies}
        return titles.get(study, study)

    @property
    def bases(self) -> list[Judged]:
        """The base, and further ones that are as large."""
        return [*self.result.judged[:1], *(w for w in self.result.judged if w.variation.whole)]

    def _verdicts(self, claim: Claim) -> tuple[str, tuple[str, ...], str]:
        """Return the marks of a claim by the base and by further ones, and why by the base."""
        if not self.bases:
            return "–", (), ""
        (mark, reason), *others = (self._verdict(claim, way) for way in self.bases)
        return mark, tuple(of for of, _ in others), reason

    def _verdict(self, claim: Claim, judged: Judged) -> tuple[str, str]:
        """Return the marks of a claim by a base, and why."""
        findings = [f for f in judged.findings if f.claim.key == claim.key]
        if not findings:
            return "–", ""
        marks = {self.title(f.study): MARKS[f.verdict] for f in findings}
        if len(set(marks.values())) == 1:
            least = min(findings, key=clearness)
            where = f"{self.title(least.study)}: " if len(findings) > 1 else ""
            return next(iter(marks.values())), where + reason(least)
        order = sorted(findings, key=clearness)
        return (
            ", ".join(f"{mark} {study}" for study, mark in marks.items()),
            "; ".join(f"{self.title(f.study)}: {reason(f)}" for f in order),
        )

    def _findings(self, claim: Claim) -> Sequence[FindingView]:
        return [
            FindingView(
                finding.study or JOINT,
                judged.variation,
                str(finding.verdict),
                tuple(measured(part) for part in finding.comparisons),
            )
            for judged in self.result.judged
            for finding in judged.findings
            if finding.claim.key == claim.key
        ]

    @cached_property
    def mark(self) -> Callable[[Claim, str, str], str]:
        """A function that returns the mark of a claim in a study, with a variation by its key.

        With `FEW` before the key, it is that of the first seeds alone.
        """
        marks = {
            (finding.claim.key, finding.study or JOINT, before + judged.variation.key): MARKS[
                finding.verdict
            ]
            for judged in self.result.judged
            for before, findings in (("", judged.findings), (FEW, judged.few))
            for finding in findings
        }
        return lambda claim, study, variation: marks.get((claim.key, study, variation), "–")

    def studies(self) -> TextTable:
        """Return what runs: the studies with the values of their axes."""
        preset = self.result.preset

        def line(axis: Axis, values: Sequence[Any]) -> str:
            texts = [axis.names.get(plain(value), plain(value)) for value in values]
            return f"{axis.label} {', '.join(texts)} {axis.unit}".strip()

        rows = [
            [
                study.name,
                study.title,
                "; ".join(
                    line(axis, preset.values[study.name][axis.column]) for axis in study.axes
                ),
            ]
            for study in self.result.paper.studies
            if study.name in preset.values
        ]
        return TextTable("Studies", preset.summary, ["name", "study", "axes"], rows, words=3)


def _source(result: Reproduction, claim: Claim) -> str:
    by_paper = result.paper.published and not claim.own
    return f"Paper, {claim.source}" if by_paper else claim.source[:1].upper() + claim.source[1:]
