"""Verdicts that stay when all of a page are taken together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spark_analysis.papers.chance import chance, safe
from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    Finding,
    Verdict,
    exact,
    no_larger,
    positive,
)


def finding(key: str, *parts: Comparison) -> Finding:
    return Finding(Claim(key, "", "", lambda points: parts), "freeway", parts)


def part(mean: float, seed: int = 0) -> Comparison:
    noise = np.random.default_rng(seed).normal(size=10)
    return positive(list(mean + (noise - noise.mean()) / noise.std(ddof=1)), "x", "")


def test_the_chance_of_a_verdict_is_that_of_a_t_test() -> None:
    t = 1.2 * 10**0.5
    expected = 2 * stats.t.sf(t, 9)
    assert chance(finding("a", part(1.2))) == pytest.approx(expected)
    assert chance(finding("a", part(1.2), part(9.0))) == pytest.approx(expected)  # the least clear
    two = finding("a", part(-1.2), part(0.8))
    assert two.verdict is Verdict.FAILS
    assert chance(two) == pytest.approx(2 * expected)  # either could have failed
    assert chance(finding("a", part(0.1))) == 1.0
    assert chance(finding("a", exact(3.0, "x", ""))) == 0.0
    for value, largest, expected in ((1.0, False, 0.0), (1.0, True, 1.0), (3.0, True, 0.0)):
        never = no_larger(value, 2.0, "x", "", of_sample=largest)
        assert chance(finding("a", never)) == expected


def test_weak_verdicts_do_not_survive_many() -> None:
    weak = finding("weak", part(0.8))
    assert weak.verdict is Verdict.HOLDS
    assert safe([weak]) == {("weak", "freeway")}
    many = [weak, *(finding(f"open {number}", part(0.8, number)) for number in range(9))]
    strong = finding("strong", part(-5.0))
    assert safe([*many, strong]) == {("strong", "freeway")}


def test_chance_alone_leaves_a_verdict_in_one_page_of_twenty() -> None:
    rng = np.random.default_rng(7)
    pages = 200
    wrong = 0
    for _ in range(pages):
        drawn = rng.normal(size=(28, 10))
        wrong += bool(
            safe([finding(str(n), positive(list(row), "x", "")) for n, row in enumerate(drawn)])
        )
    assert wrong <= 0.1 * pages
