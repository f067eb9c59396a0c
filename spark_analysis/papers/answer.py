"""The answer of a reproduction in a few sentences, filled in with what was measured.

The first counts the verdicts.  The others are the paper's `Sentence`s: words with names in braces,
and for each name a function of the base's results.  A sentence that has nothing to say, since its
points are not there, is left out.  A paper without sentences gets its claims, failures first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

import pandas as pd

from spark_analysis.papers.claims import Claim, Finding, Verdict, clusters, together, values_of
from spark_analysis.report.quantities import count, number

SENTENCES: Final = 5
"""Most items of an answer, the count of the verdicts included."""

_WORDS: Final = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.FAILS: ("does not hold", "do not hold"),
    Verdict.TIE: ("ties", "tie"),
    Verdict.OPEN: ("is not decided", "are not decided"),
}

Value = Callable[[pd.DataFrame, Sequence[Finding]], str | None]
"""Returns the text of a name from the base's points and findings; None if they do not have it."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer: `text` as `str.format` takes it, and the `values` of its names."""

    text: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def filled(self, points: pd.DataFrame, findings: Sequence[Finding]) -> str | None:
        """Return the sentence; None if a value is missing."""
        texts = {name: value(points, findings) for name, value in self.values.items()}
        return None if None in texts.values() else self.text.format(**texts)


def mean(study: str, column: str, *, scale: float = 1.0, digits: int = 3, **at: Any) -> Value:
    """Return the mean of a column of a study, times `scale`, where other columns have values."""

    def value(points: pd.DataFrame, findings: Sequence[Finding]) -> str | None:
        if not {"study", column, *at} <= set(points):
            return None
        rows = points[points["study"] == study]
        for name, wanted in at.items():
            rows = rows[rows[name] == wanted]
        rows = rows.dropna(subset=[column])
        if not len(rows):
            return None
        drawn = "seed" in rows and rows["seed"].notna().all()
        values = clusters(values_of(rows, column)) if drawn else rows[column].tolist()
        return number(fmean(values) * scale, digits)

    return value


def verdict(claim: str, study: str | None = None) -> Value:
    """Return the verdict on a claim by its key: "holds", in one study or in all."""

    def value(points: pd.DataFrame, findings: Sequence[Finding]) -> str | None:
        verdicts = [
            finding.verdict
            for finding in findings
            if finding.claim.key == claim and study in (None, finding.study)
        ]
        return str(together(verdicts)) if verdicts else None

    return value


def _counted(by_claim: Mapping[int, Verdict]) -> str:
    """Return how many claims have each verdict, and which, by their numbers."""
    parts = []
    for kind, (one, several) in _WORDS.items():
        numbers = [number for number, overall in by_claim.items() if overall is kind]
        if numbers:
            these = ", ".join(map(str, numbers))
            parts.append(f"{count(len(numbers))} {one if len(numbers) == 1 else several} ({these})")
    return ", ".join(parts)


def answer(
    sentences: Sequence[Sentence],
    claims: Sequence[Claim],
    points: pd.DataFrame,
    findings: Sequence[Finding],
) -> list[str]:
    """Return the answer, at most `SENTENCES`; empty if nothing was judged."""
    by_claim = {
        number: together([f.verdict for f in findings if f.claim.key == claim.key])
        for number, claim in enumerate(claims, start=1)
        if any(f.claim.key == claim.key for f in findings)
    }
    if not by_claim:
        return []
    own = {number for number, claim in enumerate(claims, start=1) if claim.own}
    of_paper = {number: by_claim[number] for number in by_claim if number not in own}
    others = {number: by_claim[number] for number in by_claim if number in own}
    what = "claims of the paper" if own else "claims"
    texts = []
    if of_paper:
        texts.append(
            f"Of the {count(len(of_paper))} {what} that were judged, {_counted(of_paper)}."
        )
    if others:
        whose = "that it does not make" if of_paper else "claims that the paper does not make"
        texts.append(f"Of the {count(len(others))} {whose}, {_counted(others)}.")
    first = " ".join(texts)
    more = [
        text for sentence in sentences if (text := sentence.filled(points, findings)) is not None
    ]
    if not sentences:
        order = (Verdict.FAILS, Verdict.OPEN, Verdict.TIE, Verdict.HOLDS)
        more = [
            f"{kind[:1].upper()}{kind[1:]}: {claims[number - 1].statement} ({number})."
            for kind in order
            for number, overall in by_claim.items()
            if overall is kind
        ]
    return [first, *more[: SENTENCES - 1]]
