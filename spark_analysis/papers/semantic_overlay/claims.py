"""What the paper claims, and the rules that decide it.

A network is one draw.  Bounds for the paper's words were chosen after single networks had been
tried, to see that the code works, and before any preset ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from spark_analysis.engine.pandas_rows import groups
from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    above,
    at_least,
    at_most,
    no_larger,
    positive,
    trend,
    values_of,
    within,
)
from spark_analysis.papers.paper import STUDY
from spark_analysis.papers.semantic_overlay import overheads
from spark_analysis.papers.semantic_overlay.overheads import EQUAL, FACTOR
from spark_analysis.report.quantities import number
from spark_analysis.sweeps.pairing import SEED, difference, pairs

LEVEL: Final = 0.05
"""Growth of tables from one size to twice that size, as a share, that counts as levelled off."""
SLIGHTLY: Final = 0.1
"""Share of the static depth up to which depth is slightly smaller: nobody would say so of more than
a tenth."""
ONLY: Final = 0.05
"""Share of the peers involved that may have no interest in an event if only interested ones are."""
BY_ID: Final = "interest by identifier"
LOW: Final = 0.01
"""Rate of false negatives up to which it is very low."""
COVERED: Final = 0.01
"""Share of a peer's bits that may be left open if its links cover its interests."""
MARGINS: Final = (
    f"Bounds: tables have levelled off if they change by less than {LEVEL:.0%} when peers double; "
    f"a very low rate of false negatives is up to {LOW:.0%}; a measured number is that of a "
    f"proposition within a factor of {FACTOR:g}. They were chosen when single networks had been "
    "tried while the code was written, and before any preset ran. Changed after results had been "
    "seen: the bound is judged by the largest table of all, not by a mean of margins; joins are "
    "judged by size, not by a mean over sizes of which the sign changes; depth is slightly smaller "
    f"up to {SLIGHTLY:.0%}; propositions 2 and 3 are judged with m as measured and p by equations "
    "3 to 6, as they could not fail, or not hold, before; only interested peers are involved if "
    f"at most {ONLY:.0%} are not; tables that shrink have not levelled off. Added then: what "
    "small networks leave open, both systems' false positives, the same within a factor of "
    f"{EQUAL:g}, and who is involved in either."
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
        growth = 100 * (both["one"] / both["other"] - 1)
        text = f"growth of tables from {sizes[-2]:g} to {sizes[-1]:g} peers"
        level = 100 * LEVEL
        parts.append(within(growth, -level, level, text, "%", measure=measure))
    return parts


def _too_small(points: pd.DataFrame) -> list[Comparison]:
    """Judge what tables of the smallest and of the largest networks leave open, and growth."""
    sizes = sorted(points["nodes"].unique())
    if len(sizes) < 2:  # the other points have failed
        return [positive([], "share of a peer's bits that its links leave open", "%")]
    parts = []
    for nodes, judge, words in (
        (sizes[0], at_least, "in the smallest networks"),
        (sizes[-1], at_most, "in the largest networks"),
    ):
        rows = points[points["nodes"] == nodes]
        text = f"share of a peer's bits that its links leave open {words}, {nodes:g} peers"
        parts.append(judge(100 * values_of(rows, "uncovered"), 100 * COVERED, text, "%"))
    growth = difference(points, "table", sizes[1], sizes[0], (), of="nodes")
    text = f"growth of tables from {sizes[0]:g} to {sizes[1]:g} peers"
    return [*parts, positive(growth, text, "entries")]


def _bounded(points: pd.DataFrame) -> list[Comparison]:
    """Judge by the largest table of any peer of any network: one that is larger refutes "never"."""
    if points[STUDY].iloc[0] == "bits":
        return [
            no_larger(
                float(rows["largest_table"].iloc[0]),
                float(rows["bound"].iloc[0]),
                f"largest table with {float(m):g} bits set, 4m + c being "
                f"{rows['closed_form'].iloc[0]:g}",
                "entries",
            )
            for m, rows in groups(points, "set_bits")
        ]
    parts = []
    for column, text, measure in (
        ("table_most", "chosen links", ""),
        ("links_most", "incoming links too", "incoming links too"),
    ):
        rows = points.dropna(subset=[column])
        if len(rows):
            over = int((rows[column] > rows["bound"]).sum())
            words = f"largest table of all, {text} ({over} of {len(rows)} networks have larger)"
            most, value = float(rows["bound"].min()), float(rows[column].max())
            parts.append(no_larger(value, most, words, "entries", measure=measure, of_sample=True))
    return parts


def _falls(column: str, text: str, unit: str) -> Callable[[pd.DataFrame], list[Comparison]]:
    def judge(points: pd.DataFrame) -> list[Comparison]:
        fall = -trend(values_of(points, column, ("alpha",)), "alpha")
        return [positive(fall, text, unit)]

    return judge


def _by_size(points: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    for nodes, rows in points.groupby("nodes"):
        if rows[STUDY].nunique() > 1:  # both settings have this size
            yield float(str(nodes)), rows


def _larger(points: pd.DataFrame) -> list[Comparison]:
    return [
        replace(
            above(rows, column, "dynamic", "static", (), of=STUDY, unit="entries",
                  label=f"{label}, {nodes:g} peers"),
            measure=measure,
        )
        for column, label, measure in (
            ("links", "all links", ""),
            ("table", "chosen links", "chosen links alone"),
            ("incoming", "incoming links that were not chosen", "incoming links alone"),
        )
        for nodes, rows in _by_size(points.assign(incoming=points["links"] - points["table"]))
    ]  # fmt: skip


def _slightly_shallower(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for nodes, rows in _by_size(points):
        less = difference(rows, "depth", "static", "dynamic", (), of=STUDY)
        text = f"delivery depth: static above dynamic, {nodes:g} peers"
        parts.append(positive(less, text, "hops"))
        both = pairs(rows, "depth", "dynamic", "static", (), of=STUDY)
        share = 100 * (1 - both["one"] / both["other"])
        text = f"share by which depth is smaller, {nodes:g} peers"
        parts.append(at_most(share, 100 * SLIGHTLY, text, "%"))
    return parts


def _few_lost(points: pd.DataFrame) -> list[Comparison]:
    return [
        at_most(
            100 * values_of(rows, "false_negatives"),
            100 * LOW,
            f"deliveries that are missing, {nodes:g} peers",
            "%",
        )
        for nodes, rows in points.groupby("nodes")
    ]


def _nothing_lost(points: pd.DataFrame) -> list[Comparison]:
    parts = []
    for cover, hashes in (("bits", 1), ("cells", 1), ("cells", 3)):
        rows = points[(points["cover"] == cover) & (points["hashes"] == hashes)]
        if len(rows):
            worst = 100 * float(rows["false_negatives"].max())
            text = f"tables that cover {cover}, K = {hashes}: most missing in a network"
            parts.append(no_larger(worst, 0.0, text, "%", of_sample=True))
    return parts


def _several_bits(points: pd.DataFrame) -> list[Comparison]:
    """Judge by turning the mechanism on (bits, K = 3) and off (one bit, or cells)."""
    more = {
        (cover, hashes): 100
        * difference(
            points[(points["cover"] == cover) & (points["hashes"] == hashes)],
            "false_negatives", True, False, ("nodes",), of="converged",
        )
        for cover, hashes in (("bits", 3), ("bits", 1), ("cells", 3), ("cells", 1))
    }  # fmt: skip
    on = more.pop(("bits", 3))
    text = "false negatives, bits, K = 3: converged joins above short ones"
    parts = [positive(on, text, "points")]
    for (cover, hashes), off in more.items():
        text = f"what converged joins lose more than short ones: above {cover}, K = {hashes}"
        parts.append(positive((on - off).dropna(), text, "points"))
    return parts


def _only_interested(points: pd.DataFrame) -> list[Comparison]:
    column = "uninterested" if points[STUDY].iloc[0] == "dynamic" else "false_positives"
    parts = []
    for nodes, rows in groups(points, "nodes"):
        text = f"share of those involved that no subscription makes so, {float(nodes):g} peers"
        part = at_most(100 * values_of(rows, column), 100 * ONLY, text, "%")
        if column == "false_positives":
            part = replace(part, note=_causes(rows))
        parts.append(part)
        if column == "false_positives":
            text = f"share whose identifier lacks a bit of the event, {float(nodes):g} peers"
            share = 100 * values_of(rows, "by_forwarding")
            parts.append(at_most(share, 100 * ONLY, text, "%", measure=BY_ID))
    return parts


def _causes(rows: pd.DataFrame) -> str:
    """Return why peers without a subscription got events, in % of all that got one."""
    grid, forwarding, bloom = (
        number(100 * float(rows[f"by_{name}"].mean())) for name in ("grid", "forwarding", "bloom")
    )
    return (
        f"{grid} % want another event of its cell, {forwarding} % pass it on, {bloom} % by a "
        "collision of bits"
    )


CLAIMS: Final = (
    Claim(
        "depth",
        "The average delivery depth grows about as the logarithm of the number of peers",
        "section IV, figures 2(a) and 5(b)",
        _logarithmic,
        ("static", "dynamic"),
        "Of each network's sizes, a + b ln n has b above 0 and explains more of the variance than "
        "a + b n does.",
    ),
    Claim(
        "levels-off",
        "The size of routing tables stabilizes as the network grows",
        "section IV, figures 2(b) and 5(a)",
        _levels_off,
        ("static", "dynamic"),
        f"From the second largest to the largest network their mean changes by less than "
        f"{LEVEL:.0%}.",
    ),
    Claim(
        "too-small",
        "Small networks cannot fill tables that cover a peer's interests, large ones can",
        "section IV, figure 2(b)",
        _too_small,
        ("static",),
        f"In the smallest networks chosen links leave more than {COVERED:.0%} of a peer's bits "
        "open, in the largest fewer; and tables grow from the smallest networks to the next.",
    ),
    Claim(
        "bound",
        "A routing table never has more than 2d + c entries",
        "proposition 1",
        _bounded,
        ("static", "popularity", "dynamic", "bits"),
        "The largest table of any peer of any network is no larger, nor is one that is built to be "
        "as large as can be, whatever number of bits is set: a pass takes a neighbour for each of "
        "the m bits that are set, not of the d - m others, so that the bound is 4m + c. Incoming "
        "links, which the proof does not count, beside.",
    ),
    Claim(
        "false-positives",
        "The share of false positives falls as interests concentrate",
        "section IV, figure 3",
        _falls("false_positives", "fall from the least to the greatest exponent", ""),
        ("popularity",),
        "The least-squares line over the exponent of the Pareto law falls.",
    ),
    Claim(
        "tables-by-law",
        "Routing tables are smaller if interests concentrate",
        "section IV, figure 4",
        _falls("table", "fall from the least to the greatest exponent", "entries"),
        ("popularity",),
        "The least-squares line over the exponent of the Pareto law falls.",
    ),
    Claim(
        "larger-with-joins",
        "Routing tables are larger if peers join at random times than in the static setting",
        "section IV, figure 5(a)",
        _larger,
        ("static", "dynamic"),
        "At every size, with all links of a peer, as links are bidirectional; those that it chose "
        "and those that came in stand beside.",
        joint=True,
    ),
    Claim(
        "shallower-with-joins",
        "The delivery depth is slightly smaller than in the static setting",
        "section IV, figure 5(b)",
        _slightly_shallower,
        ("static", "dynamic"),
        f"At every size mean hops are fewer, and by no more than {SLIGHTLY:.0%}.",
        joint=True,
    ),
    Claim(
        "few-lost",
        "The system has a very low rate of false negatives",
        "section VI",
        _few_lost,
        ("static", "dynamic"),
        f"Up to {LOW:.0%} of the deliveries are missing, at every size.",
    ),
    Claim(
        "joining",
        "A join takes m ln n messages, m being the bits set in the peer's identifier",
        "proposition 2",
        overheads.joins,
        ("dynamic",),
        f"All messages of a join, queries as often as they are sent on, replies and those that "
        f"tell links, within a factor of {FACTOR:g}; the proposition goes on with m = d/2.",
    ),
    Claim(
        "p",
        "Equations 3 to 6 give the probability that a peer gets an event it is not interested in",
        "section V, equations 3 to 6",
        overheads.probability,
        ("compared",),
        f"The share of the peers that an event does not match and that get it is within a factor "
        f"of {FACTOR:g} of p by the equations, with the measured share of a peer's 0 bits that are "
        "* in its id cover.",
    ),
    Claim(
        "dissemination",
        "In the compared overlay an event reaches p ln n peers that do not want it",
        "proposition 3",
        overheads.disseminates,
        ("compared",),
        f"Within a factor of {FACTOR:g}, p by equations 3 to 6 with the measured share.",
    ),
    Claim(
        "steps",
        "The compared overlay disseminates an event in ln n steps on average",
        "section V, proof of proposition 3",
        overheads.steps,
        ("compared",),
        f"Mean hops of deliveries within a factor of {FACTOR:g}.",
    ),
    Claim(
        "crossing",
        "The overheads are equal if publications are k d/(2p) times as frequent as joins",
        "section V, figure 6(b)",
        overheads.crosses,
        ("dynamic", "compared"),
        "All messages of a join over deliveries of an event to peers that do not want it, as "
        f"measured on networks of the same size, within a factor of {FACTOR:g} of k d/(2p).",
        joint=True,
    ),
    Claim(
        "equal-false-positives",
        "Both systems have the same amount of false positives, by filter and event space",
        "section V",
        overheads.equal_false_positives,
        ("static", "compared"),
        "Of the peers that get an event and whose identifier matches it, as many per cent have no "
        f"subscription that does, within a factor of {EQUAL:g}; all that get it stand beside.  The "
        "peers have equal identifiers in both, as in the paper's argument: it can fail only by "
        "which of them get an event.",
        joint=True,
    ),
    Claim(
        "fewer-uninterested",
        "Fewer uninterested nodes are involved than in the compared overlay",
        "sections I, V and VI",
        overheads.fewer_uninterested,
        ("static", "dynamic", "compared"),
        "At every size the share of those that get an event, to search or to spread it, without a "
        "subscription that matches is smaller in the static setting; with joins stands beside.",
        joint=True,
    ),
    Claim(
        "only-interested",
        "Only interested nodes are involved in event dissemination",
        "abstract; section VI",
        _only_interested,
        ("static", "dynamic"),
        f"At every size at most {ONLY:.0%} of the peers that get an event, to search or to spread "
        "it, have no subscription that matches; by the identifier stands beside.",
    ),
    Claim(
        "several-bits",
        "Joins until convergence lose more events because an event has several bits",
        "an explanation of this reproduction, not of the paper",
        _several_bits,
        ("convergence",),
        "With tables that cover bits and K = 3 converged joins lose more than short ones do, and "
        "more by more than with one bit an event, or tables that cover cells: each bit is covered "
        "by the first that has it, which may lack the event's others.",
        own=True,
    ),
    Claim(
        "nothing-lost",
        "Tables that cover cells, or bits of one hash function, lose no event",
        "a check of this reproduction, not of the paper",
        _nothing_lost,
        ("hashes",),
        "No delivery is missing in any network, with a flood for events that no search places.",
        own=True,
    ),
)
