"""What the paper claims, and the rules that decide it.

A network is one draw.  Bounds for the paper's words were chosen after single networks had been
tried, to see that the code works, and before any preset ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    above,
    exact,
    positive,
    trend,
    values_of,
    within,
)
from spark_analysis.papers.paper import STUDY
from spark_analysis.papers.semantic_overlay.equations import crossing, join_messages
from spark_analysis.sweeps.pairing import SEED, pairs

LEVEL: Final = 0.05
"""Growth of tables from one size to twice that size, as a share, that counts as levelled off."""
LOW: Final = 0.01
"""Rate of false negatives up to which it is very low."""
FACTOR: Final = 2.0
"""Factor within which a proposition's number of messages is the one measured."""
MARGINS: Final = (
    f"Bounds: tables have levelled off if they grow by less than {LEVEL:.0%} when peers double; a "
    f"very low rate of false negatives is up to {LOW:.0%}; a measured number is that of a "
    f"proposition within a factor of {FACTOR:g}. They were chosen when single networks had been "
    "tried while the code was written, and before any preset ran."
)


def _fits(points: pd.DataFrame) -> Iterator[tuple[float, float, float]]:
    """Yield for each seed the slope over ln n, and the variance that ln n and n explain."""
    for _, rows in points.dropna(subset=["depth"]).groupby(SEED):
        n, depth = rows["nodes"].to_numpy(float), rows["depth"].to_numpy(float)
        if len(set(n)) < 3:
            continue
        total = float(((depth - depth.mean()) ** 2).sum())
        explained = []
        slope = 0.0
        for x in (np.log(n), n):
            line = np.polyfit(x, depth, 1)
            explained.append(1 - float(((depth - np.polyval(line, x)) ** 2).sum()) / total)
            slope = slope or float(line[0])
        yield slope, explained[0], explained[1]


def _logarithmic(points: pd.DataFrame) -> list[Comparison]:
    fits = list(_fits(points))
    return [
        positive([slope for slope, _, _ in fits], "hops for each factor e of peers", "hops"),
        positive(
            [by_log - by_n for _, by_log, by_n in fits],
            "share of the variance that a + b ln n explains, less that of a + b n",
            "",
        ),
        positive(
            [by_log - 0.9 for _, by_log, _ in fits],
            "share of the variance that a + b ln n explains, less 0.9",
            "",
            measure="fit alone",
        ),
    ]


def _levels_off(points: pd.DataFrame) -> list[Comparison]:
    sizes = sorted(points["nodes"].unique())
    parts = []
    if len(sizes) < 2:  # the other points have failed
        return [positive([], "growth of tables to the largest overlay", "")]
    for column, measure in (("table", ""), ("links", "incoming links too")):
        both = pairs(points, column, sizes[-1], sizes[-2], (), of="nodes")
        growth = both["one"] / both["other"] - 1
        text = f"{LEVEL:g} less the growth of tables from {sizes[-2]:g} to {sizes[-1]:g} peers"
        parts.append(positive(LEVEL - growth, text, "", measure=measure))
    return parts


def _bounded(points: pd.DataFrame) -> list[Comparison]:
    return [
        positive(
            values_of(points, "bound") - values_of(points, column),
            f"2d + c less the largest table, {text}",
            "entries",
            measure=measure,
        )
        for column, text, measure in (
            ("table_most", "chosen links", ""),
            ("links_most", "incoming links too", "incoming links too"),
        )
    ]


def _falls(column: str, text: str, unit: str) -> Callable[[pd.DataFrame], list[Comparison]]:
    def judge(points: pd.DataFrame) -> list[Comparison]:
        fall = -trend(values_of(points, column, ("alpha",)), "alpha")
        return [positive(fall, text, unit)]

    return judge


def _larger(points: pd.DataFrame) -> list[Comparison]:
    return [
        above(points, "links", "dynamic", "static", ("nodes",), of=STUDY, unit="entries",
              label="routing table"),
        _as(
            above(points, "table", "dynamic", "static", ("nodes",), of=STUDY, unit="entries",
                  label="chosen links"),
            "chosen links alone",
        ),
    ]  # fmt: skip


def _as(comparison: Comparison, measure: str) -> Comparison:
    return Comparison(
        comparison.text,
        comparison.interval,
        comparison.unit,
        comparison.verdict,
        comparison.lead,
        measure,
    )


def _shallower(points: pd.DataFrame) -> list[Comparison]:
    return [
        above(points, "depth", "static", "dynamic", ("nodes",), of=STUDY, unit="hops",
              label="delivery depth")
    ]  # fmt: skip


def _few_lost(points: pd.DataFrame) -> list[Comparison]:
    return [
        positive(
            LOW - values_of(rows, "false_negatives"),
            f"{LOW:g} less the share of deliveries that are missing, {nodes:g} peers",
            "",
        )
        for nodes, rows in points.groupby("nodes")
    ]


def _nothing_lost(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for cover, hashes in (("bits", 1), ("cells", 1), ("cells", 3)):
        rows = points[(points["cover"] == cover) & (points["hashes"] == hashes)]
        if len(rows):
            worst = float(rows["false_negatives"].max())
            text = f"tables that cover {cover}, K = {hashes}: 1e-9 less the share that is missing"
            parts.append(exact(1e-9 - worst, text, ""))
    return parts


def _joins(points: pd.DataFrame) -> list[Comparison]:
    return [
        within(
            values_of(rows, "join_queries") / join_messages(float(str(nodes))),
            1 / FACTOR,
            FACTOR,
            f"join queries of a peer over k d/2 ln n, {nodes:g} peers, k = 1",
            "times",
        )
        for nodes, rows in points.groupby("nodes")
    ]


def _disseminates(points: pd.DataFrame) -> list[Comparison]:
    return [
        within(
            values_of(rows, "uninterested") / values_of(rows, "p_ln_n"),
            1 / FACTOR,
            FACTOR,
            f"deliveries to peers that do not want an event over p ln n, {nodes:g} peers",
            "times",
        )
        for nodes, rows in points.groupby("nodes")
    ]


def _crosses(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    joins = points[points[STUDY] == "dynamic"]
    others = points[points[STUDY] == "compared"]
    for nodes in sorted(set(joins["nodes"]) & set(others["nodes"])):
        queries = values_of(joins[joins["nodes"] == nodes], "join_queries")
        rows = others[others["nodes"] == nodes]
        measured = queries / values_of(rows, "uninterested")
        expected = values_of(rows, "p").map(crossing)
        text = f"measured crossing over k d/(2p), {nodes:g} peers"
        parts.append(within((measured / expected).dropna(), 1 / FACTOR, FACTOR, text, "times"))
    return parts


def claim(
    key: str,
    statement: str,
    source: str,
    judge: Callable[[pd.DataFrame], Sequence[Comparison]],
    studies: Sequence[str],
    rule: str,
    *,
    joint: bool = False,
) -> Claim:
    """Return a claim; `judge` is as in `Claim`."""
    return Claim(key, statement, source, judge, tuple(studies), joint, rule)


CLAIMS: Final = (
    claim(
        "depth",
        "The average delivery depth grows about as the logarithm of the number of peers",
        "section IV, figures 2(a) and 5(b)",
        _logarithmic,
        ("static", "dynamic"),
        "Of each network's sizes, a + b ln n has b above 0 and explains more of the variance than "
        "a + b n does.",
    ),
    claim(
        "levels-off",
        "The size of routing tables stabilizes as the network grows",
        "section IV, figure 2(b)",
        _levels_off,
        ("static",),
        f"From the second largest to the largest network the mean grows by less than {LEVEL:.0%}.",
    ),
    claim(
        "bound",
        "A routing table never has more than 2d + c entries",
        "proposition 1",
        _bounded,
        ("static", "popularity", "dynamic"),
        "The largest table of any peer of any network is below; with incoming links, which the "
        "proof does not count, beside.",
    ),
    claim(
        "false-positives",
        "The share of false positives falls as interests concentrate",
        "section IV, figure 3",
        _falls("false_positives", "fall from the least to the greatest exponent", ""),
        ("popularity",),
        "The least-squares line over the exponent of the Pareto law falls.",
    ),
    claim(
        "tables-by-law",
        "Routing tables are smaller if interests concentrate",
        "section IV, figure 4",
        _falls("table", "fall from the least to the greatest exponent", "entries"),
        ("popularity",),
        "The least-squares line over the exponent of the Pareto law falls.",
    ),
    claim(
        "larger-with-joins",
        "Routing tables are larger if peers join at random times than in the static setting",
        "section IV, figure 5(a)",
        _larger,
        ("static", "dynamic"),
        "With all links of a peer, chosen and incoming, as links are bidirectional; those that it "
        "chose alone stand beside.",
        joint=True,
    ),
    claim(
        "shallower-with-joins",
        "The delivery depth is slightly smaller than in the static setting",
        "section IV, figure 5(b)",
        _shallower,
        ("static", "dynamic"),
        "Mean hops of deliveries, static above dynamic.",
        joint=True,
    ),
    claim(
        "few-lost",
        "The system has a very low rate of false negatives",
        "section VI",
        _few_lost,
        ("static", "dynamic"),
        f"Up to {LOW:.0%} of the deliveries are missing, at every size.",
    ),
    claim(
        "joining",
        "A join takes k d/2 ln n messages",
        "proposition 2",
        _joins,
        ("dynamic",),
        f"Queries sent, by the joining peer and by those that send them on, within a factor of "
        f"{FACTOR:g}; k is 1, one query a round.",
    ),
    claim(
        "dissemination",
        "In the compared overlay an event reaches p ln n peers that do not want it",
        "proposition 3",
        _disseminates,
        ("compared",),
        f"Within a factor of {FACTOR:g}, p being the share of the peers that do not want an event "
        "and get it, as measured.",
    ),
    claim(
        "crossing",
        "The overheads are equal if publications are k d/(2p) times as frequent as joins",
        "section V, figure 6(b)",
        _crosses,
        ("dynamic", "compared"),
        "Queries of a join over deliveries of an event to peers that do not want it, as measured "
        f"on networks of the same size, within a factor of {FACTOR:g} of k d/(2p).",
        joint=True,
    ),
    claim(
        "nothing-lost",
        "Tables that cover cells, or bits of one hash function, lose no event",
        "a check of this reproduction, not of the paper",
        _nothing_lost,
        ("hashes",),
        "No delivery is missing in any network, with a flood for events that no search places.",
    ),
)
