"""Which verdicts are beyond chance if all of a page are taken together.

Each comparison is a t test at 95 %, and a page has dozens of verdicts: some are wrong by chance.
They are corrected for how many there are by Holm's method, over the claims of one way to run them.
The probability behind a verdict is that of its comparisons: a claim that holds needs all of them,
so the least clear one counts; one that does not hold fails by any of them, so the clearest failure
counts, times their number (Bonferroni).  Verdicts that stay beyond chance, at 5 %, are `safe`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from scipy import stats

from spark_analysis.papers.claims import Comparison, Finding, Verdict
from spark_analysis.report.confidence import t_quantile

LEVEL: Final = 0.05


def chance(finding: Finding) -> float:
    """Return how likely a verdict that holds, or does not, is by chance; 1 for any other."""
    parts = [part for part in finding.comparisons if not part.measure]
    if finding.verdict is Verdict.HOLDS:
        return max(map(_chance_of, parts))
    if finding.verdict is Verdict.FAILS:
        failed = [_chance_of(part) for part in parts if part.verdict is Verdict.FAILS]
        return min(1.0, min(failed) * len(parts))
    return 1.0


def _chance_of(part: Comparison) -> float:
    """Return the two-sided probability of a comparison's t."""
    interval = part.interval
    if interval is None or math.isnan(part.lead):
        return 1.0
    if interval.count == 1:  # a closed form, or once in a sample
        return float(part.extreme and part.verdict is Verdict.HOLDS)
    freedom = interval.count - 1
    return float(2 * stats.t.sf(abs(part.lead) * t_quantile(freedom), freedom))


def safe(findings: Sequence[Finding]) -> set[tuple[str, str]]:
    """Return the claim and the study of each verdict, ✓ or ✕, that the correction leaves."""
    ordered = sorted(findings, key=chance)
    return {(f.claim.key, f.study) for f in _before_the_first(ordered)}


def _before_the_first(ordered: Sequence[Finding]) -> Iterable[Finding]:
    """Yield findings, the least likely by chance first, until one is not beyond chance."""
    for number, finding in enumerate(ordered):
        if chance(finding) > LEVEL / (len(ordered) - number):
            return
        yield finding
