"""The paper's static computation is what the protocol does, and its claims can fail."""

from __future__ import annotations

import functools
import math

import pandas as pd
import pytest

from spark_analysis.papers.claims import Verdict, judge
from spark_analysis.papers.cost import preset_cost
from spark_analysis.papers.registry import load_paper
from spark_analysis.papers.semantic_overlay.bits import largest
from spark_analysis.papers.semantic_overlay.compared import compared
from spark_analysis.papers.semantic_overlay.dynamic import dynamic
from spark_analysis.papers.semantic_overlay.equations import (
    crossing,
    dissemination,
    join_messages,
    uninterested,
)
from spark_analysis.papers.semantic_overlay.static import static


@functools.cache
def peers(*, converged: bool) -> dict[str, float]:
    return dynamic(30, 1, converged=converged)


def test_peers_that_join_find_each_other() -> None:
    row = peers(converged=False)
    assert row["problems"] == 0
    assert row["false_negatives"] < 0.1
    assert 5 < row["table"] <= row["links"] <= row["links_most"] < row["bound"] == 2049
    assert row["join_queries"] >= 29 / 30
    assert row["depth"] >= 1


def test_static_networks_are_those_of_the_options() -> None:
    rows = {
        cover: static(120, 2, hashes=3, cover=cover, unmatched="flood")
        for cover in ("bits", "cells")
    }
    assert rows["cells"]["false_negatives"] == 0 < rows["bits"]["false_negatives"]
    assert rows["cells"]["by_bloom"] == 0
    for row in rows.values():
        causes = row["by_grid"] + row["by_bloom"] + row["by_forwarding"]
        assert row["false_positives"] == pytest.approx(causes)
    bits, literal = (static(120, 2, restart=restart) for restart in (True, False))
    assert literal["table"] < bits["table"]
    # The first pass covers what can be: the second, if it goes on, finds nothing more.
    assert literal["uncovered"] == bits["uncovered"] < 0.5
    popular = static(120, 2, alpha=3.0)
    assert popular["rings"] > 0
    assert popular["false_positives"] < static(120, 2)["false_positives"]


def test_the_compared_overlay_loses_nothing() -> None:
    row = compared(60, 1)
    assert row["false_negatives"] == 0
    assert 0 < row["uninterested"] < row["event_messages"]
    assert 0 < row["by_forwarding"] < row["false_positives"] < 1
    assert 0 < row["delta"] < 1
    # Few bits are set: more zeros can be *, and so p is greater than with half of them set.
    assert 0 < row["p_equations"] <= row["p_of_m"] <= 1


def test_the_equations_are_the_papers() -> None:
    # Equation 6 has a closed form: the mean over binomial m of 1 - (1 - delta)^(d - m).
    for delta, bits in ((0.3, 16), (0.001, 1024)):
        assert uninterested(delta, bits) == pytest.approx(1 - (1 - delta / 2) ** bits)
    ratio = crossing(0.25, bits=64)
    assert join_messages(500, bits=64) == pytest.approx(ratio * dissemination(500, 0.25))


def points(**columns: object) -> pd.DataFrame:
    """Return the rows of 3 seeds at 3 sizes, the same but for the number of peers."""
    rows = [
        {"seed": seed, "nodes": nodes, "depth": math.log(nodes) + 0.01 * seed, **columns}
        for seed in (1, 2, 3)
        for nodes in (250, 1000, 4000)
    ]
    return pd.DataFrame(rows)


def test_claims_can_hold_and_fail() -> None:
    paper = load_paper("semantic-overlay")
    common = {"table": 29.0, "links": 30.0, "bound": 2049, "false_negatives": 0.001}
    common |= {"table_most": 50.0, "links_most": 90.0}
    dynamic_rows = points(study="dynamic", set_bits=512.0, uninterested=0.01, **common)
    dynamic_rows["join_messages"] = 512 * dynamic_rows["nodes"].map(math.log)
    dynamic_rows["join_queries"] = 6.0
    dynamic_rows["links"] += 5 + dynamic_rows["seed"]
    causes = {"false_positives": 0.01, "by_forwarding": 0.0, "by_grid": 0.01, "by_bloom": 0.0}
    static_rows = points(study="static", **causes, **common).assign(
        depth=lambda rows: 1.05 * rows["depth"],
        uncovered=lambda rows: rows["nodes"].map({250: 0.2, 1000: 0.02, 4000: 0.001}),
        table=lambda rows: rows["table"] - (rows["nodes"] == 250),
    )
    others = points(study="compared", p=0.1, p_equations=0.1, p_of_m=0.1)
    # 1 % of those whose identifier matches, as in the static setting, and half are on the way.
    others = others.assign(false_positives=0.505, by_forwarding=0.5)
    others["uninterested"] = 0.1 * others["nodes"].map(math.log)
    verdicts = {
        (finding.claim.key, finding.study): finding.verdict
        for finding in judge(paper.claims, pd.concat([dynamic_rows, static_rows, others]))
    }
    assert set(verdicts.values()) == {Verdict.HOLDS}
    assert len(verdicts) == 20
    linear = static_rows.assign(
        depth=static_rows["nodes"] / 100, table=static_rows["nodes"], table_most=3000.0,
        false_negatives=0.2, uncovered=0.001,
    )  # fmt: skip
    failed = {
        each.claim.key: each.verdict
        for each in judge(paper.claims, linear)
        if each.verdict is not Verdict.HOLDS
    }
    assert failed == dict.fromkeys(
        ("depth", "levels-off", "too-small", "bound", "few-lost"), Verdict.FAILS
    )
    shrunk = static_rows.assign(
        table=static_rows["nodes"].map({250: 29.0, 1000: 29.0, 4000: 26.0}) + static_rows["seed"]
    )
    assert verdict("levels-off", shrunk) is Verdict.FAILS
    # Of a study whose other points have failed, growth is not known.
    alone = judge(paper.claims, static_rows[static_rows["nodes"] == 250])
    assert {each.verdict for each in alone if each.claim.key == "levels-off"} == {Verdict.OPEN}


def test_the_presets_say_what_they_cost() -> None:
    paper = load_paper("semantic-overlay")
    for name, least, most in (("quick", 10, 300), ("paper", 300, 75 * 60)):
        preset = paper.preset(name)
        assert preset is not None
        assert least < preset_cost(paper, preset).seconds < most


def verdict(key: str, rows: pd.DataFrame) -> Verdict:
    (claim,) = (claim for claim in load_paper("semantic-overlay").claims if claim.key == key)
    return judge([claim], rows)[0].verdict


def test_one_table_that_is_too_large_refutes_the_bound() -> None:
    rows = points(study="static", bound=2049, table_most=2049.0, links_most=60.0)
    assert verdict("bound", rows) is Verdict.HOLDS
    # A mean of margins would hide it.
    rows.loc[0, "table_most"] = 2050.0
    assert verdict("bound", rows) is Verdict.FAILS


def test_the_compared_overlay_may_have_fewer_false_positives() -> None:
    static_rows, others = (
        points(study=study, false_positives=share, by_forwarding=way, uninterested=0.1)
        for study, share, way in (("static", 0.55, 0.1), ("compared", 0.145, 0.1))
    )
    both = pd.concat((static_rows, others, points(study="dynamic", uninterested=0.1)))
    assert verdict("equal-false-positives", both) is Verdict.FAILS
    assert verdict("fewer-uninterested", both) is Verdict.FAILS


def test_joins_are_judged_by_size() -> None:
    static_rows, joined = (
        points(study=study, links=30.0, table=20.0) for study in ("static", "dynamic")
    )
    # Larger by 9 in small networks, smaller by 1 in large ones: the mean is larger.
    joined["links"] += joined["nodes"].map({250: 9.0, 1000: 9.0, 4000: -1.0})
    joined["links"] += 0.001 * joined["seed"]
    joined["depth"] *= 0.5  # far smaller, not slightly
    both = pd.concat((static_rows, joined))
    assert verdict("larger-with-joins", both) is Verdict.FAILS
    assert verdict("shallower-with-joins", both) is Verdict.FAILS


def test_what_explains_the_losses_can_be_refuted() -> None:
    rows = pd.DataFrame(
        {
            "study": "convergence", "nodes": 250, "seed": seed, "converged": converged,
            "cover": cover, "hashes": hashes,
            "false_negatives": 0.02 + 0.0001 * seed * converged
            + 0.03 * (converged and cover == "bits" and hashes == 3),
        }
        for seed in (1, 2, 3) for converged in (False, True)
        for cover in ("bits", "cells") for hashes in (1, 3)
    )  # fmt: skip
    assert verdict("several-bits", rows) is Verdict.HOLDS
    others = rows["converged"] & (rows["cover"] == "cells")
    rows.loc[others, "false_negatives"] += 0.04
    assert verdict("several-bits", rows) is Verdict.FAILS


def test_a_join_that_converges_asks_more_and_covers_more() -> None:
    short, long = peers(converged=False), peers(converged=True)
    assert long["join_queries"] > short["join_queries"]
    assert long["uncovered"] <= short["uncovered"]
    for row in (short, long):
        parts = row["join_queries"] + row["join_replies"] + row["link_messages"]
        assert row["join_messages"] == pytest.approx(parts)


def test_a_table_breaks_the_papers_bound_if_most_bits_are_set() -> None:
    few, many = (pd.DataFrame([{"set_bits": m, **largest(m)}]) for m in (30, 819))
    for rows in (few, many):
        row = rows.iloc[0]
        assert 0.9 * row["closed_form"] < row["largest_table"] <= row["closed_form"]
    assert verdict("bound", few.assign(study="bits")) is Verdict.HOLDS
    assert verdict("bound", many.assign(study="bits")) is Verdict.FAILS
