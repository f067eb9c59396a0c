"""Remarks on claims, made from what was measured: which part decided, and what turns the verdict.

Nothing in them is typed by hand, so they cannot outlive the numbers.  A variation may have fewer
speeds and seeds than the base; it turns a verdict only if the base, judged at the same speeds and
seeds, has the opposite one (`Judged.base`) or, if that is not decided, all of the base has; the
text then says so.  Holds and does not hold are opposite: a part whose
interval was all on one side is then all on the other, at the same points and draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from spark_analysis.papers.claims import CLOSED_FORM, Claim, Comparison, Finding, Verdict
from spark_analysis.papers.results import Judged, Reproduction
from spark_analysis.papers.wording import JOINT, MARKS, TIMES, measured
from spark_analysis.report.quantities import number

OPPOSITE: Final = {Verdict.HOLDS, Verdict.FAILS}
_PARTS = {
    Verdict.HOLDS: "The least clear part",
    Verdict.FAILS: "What decides",
    Verdict.TIE: "What ties",
    Verdict.OPEN: "What is open",
}


def remarks(result: Reproduction, claim: Claim) -> list[str]:
    """Return the remarks on a claim, one for each study of the base."""
    if not result.judged:
        return []
    base, *variations = result.judged
    return [
        f"{finding.study or JOINT}: "
        + " ".join([_itself(finding, base), *_turns(finding, variations)])
        for finding in base.findings
        if finding.claim.key == claim.key
    ]


def deciding(finding: Finding) -> Comparison | None:
    """Return the part that decides: of those with the verdict of all, the one that leads least."""
    parts = [
        part
        for part in finding.comparisons
        if not part.measure and part.verdict is finding.verdict and part.interval is not None
    ]
    return min(
        parts, key=lambda part: -math.inf if math.isnan(part.lead) else part.lead, default=None
    )


def clearness(finding: Finding) -> float:
    """Return by how much the part that decides leads, in half widths; -inf if none does."""
    part = deciding(finding)
    return -math.inf if part is None or math.isnan(part.lead) else part.lead


def reason(finding: Finding) -> str:
    """Return why the verdict is what it is, in a line: the part that decides, and of how many."""
    part = deciding(finding)
    if part is None:
        return "nothing has an interval"
    decides = [other for other in finding.comparisons if not other.measure]
    alike = sum(other.verdict is finding.verdict for other in decides)
    of = f", {alike} of {len(decides)} parts" if alike < len(decides) else ""
    return f"{measured(part)[2:]}{of}{_beside(part, finding)}{_otherwise(finding)}"


def _beside(part: Comparison, finding: Finding) -> str:
    """Return the closed form of a part, or of the first part that has one; empty if none has."""
    forms = [form for form in finding.comparisons if form.measure == CLOSED_FORM]
    form = next((form for form in forms if form.text == part.text), forms[0] if forms else None)
    if form is None or form.interval is None:
        return ""
    return f"; closed form: {number(form.interval.mean)}"


def _otherwise(finding: Finding) -> str:
    """Return by which other measures the verdict is the opposite; empty if by none."""
    others = [
        f"; {name}: {MARKS[verdict]}"
        for name, verdict in finding.by_measure.items()
        if name not in ("", CLOSED_FORM) and {verdict, finding.verdict} == OPPOSITE
    ]
    return "".join(others)


def is_judged(finding: Finding, variation: Judged) -> bool:
    """Return whether a variation has comparisons for a claim in a study."""
    after = _same(finding, variation.findings)
    return _same(finding, variation.base) is not None and bool(after and after.comparisons)


def turns(finding: Finding, variation: Judged) -> str | None:
    """Return the marks before and after a variation, if it turns the verdict round."""
    pair = _turned(finding, variation)
    if pair is None:
        return None
    text = " → ".join(MARKS[judgement.verdict] for judgement in pair)
    return text if pair[0] is not finding else f"{text}; base at the same runs: ?"


def _turned(finding: Finding, variation: Judged) -> tuple[Finding, Finding] | None:
    """Return the findings before and after a variation, if it turns the verdict round.

    If the base is not decided at the variation's points and seeds, `finding` stands for it.
    """
    before, after = _same(finding, variation.base), _same(finding, variation.findings)
    if before is None or after is None:
        return None
    if before.verdict is Verdict.OPEN:
        before = finding
    return (before, after) if {before.verdict, after.verdict} == OPPOSITE else None


def _itself(finding: Finding, judged: Judged) -> str:
    decides = [part for part in finding.comparisons if not part.measure]
    alike = sum(part.verdict is finding.verdict for part in decides)
    text = f"{finding.verdict}"
    if finding.verdict is not Verdict.HOLDS and len(decides) > 1:
        text += f" ({alike} of {len(decides)} parts)"
    text += "."
    part = deciding(finding)
    if part is not None:
        text += f" {_PARTS[finding.verdict]}: {measured(part)}."
    others = [f"{name}: {verdict}" for name, verdict in finding.by_measure.items() if name]
    if others:
        text += f" {'; '.join(others).capitalize()}."
    few = _same(finding, judged.few)
    if few is not None and few.verdict is not finding.verdict:
        text += f" With as few seeds as published: {few.verdict}."
    return text


def _turns(finding: Finding, variations: Sequence[Judged]) -> list[str]:
    """Return which variations turn the verdict or, if none does, which moves what decides most."""
    turned: list[str] = []
    unturned: list[str] = []
    undecided: list[str] = []
    moves = []
    for judged in variations:
        before, after = _same(finding, judged.base), _same(finding, judged.findings)
        if before is None or after is None or not after.comparisons:
            continue
        name = judged.variation.name
        if (pair := _turned(finding, judged)) is not None:
            alone = "; base at the same runs: not decided" if pair[0] is finding else ""
            turned.append(f"{name}: {_change(*pair)}{alone}")
        else:
            (undecided if after.verdict is Verdict.OPEN else unturned).append(name)
        move = _move(deciding(before), after)
        if move is not None:
            moves.append((*move, name))
    texts = []
    if turned:
        texts.append(f"Turned by {'; '.join(turned)}.")
    if unturned:
        texts.append(f"Not turned by {', '.join(unturned)}.")
    if undecided:
        texts.append(f"Not decided with {', '.join(undecided)}.")
    if moves and not turned:
        _, text, name = max(moves)
        texts.append(f"Moved most by {name}: {text}.")
    return texts


def _change(before: Finding, after: Finding) -> str:
    text = f"from {before.verdict} to {after.verdict}"
    part = deciding(after)
    if part is None:
        return text
    text += f" ({measured(part)}"
    was = _part(part, before)
    return f"{text}, before {measured(was)})" if was is not None else f"{text})"


def _move(part: Comparison | None, after: Finding) -> tuple[float, str] | None:
    """Return how far a part has moved, in half widths, and that in words."""
    now = _part(part, after) if part is not None else None
    if part is None or now is None or part.interval is None or now.interval is None:
        return None
    if not (part.interval.known and now.interval.known):
        return None
    factor = part.unit == TIMES
    was, came = (math.log(i.mean) if factor else i.mean for i in (part.interval, now.interval))
    high = math.log(part.interval.high) if factor else part.interval.high
    if not math.isfinite(high) or high <= was:
        return None
    return abs(came - was) / (high - was), f"{measured(now)}, before {measured(part)}"


def _part(part: Comparison, finding: Finding) -> Comparison | None:
    alike = (comparison for comparison in finding.comparisons if comparison.text == part.text)
    return next((comparison for comparison in alike if comparison.measure == part.measure), None)


def _same(finding: Finding, others: Sequence[Finding]) -> Finding | None:
    return next(
        (
            other
            for other in others
            if other.claim.key == finding.claim.key and other.study == finding.study
        ),
        None,
    )
