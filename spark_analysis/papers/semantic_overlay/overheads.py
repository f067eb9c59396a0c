"""The rules for section V: messages of a join, and the compared overlay on the same peers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import pandas as pd

from spark_analysis.engine.pandas_rows import groups
from spark_analysis.papers.claims import Comparison, positive, values_of, within
from spark_analysis.papers.paper import STUDY
from spark_analysis.papers.semantic_overlay.equations import crossing, join_messages
from spark_analysis.sweeps.pairing import pairs

FACTOR: Final = 2.0
"""Factor within which a proposition's number of messages is the one measured."""
HALF: Final = "d/2 in the place of m"
EQUAL: Final = 1.1
"""Factor within which shares of false positives are the same amount."""
OF_ALL: Final = "peers on the way too"
JOINED: Final = "with joins"


def _near(ratio: pd.Series, text: str, measure: str = "") -> Comparison:
    """Judge a ratio that is to be 1, within the factor."""
    return within(ratio, 1 / FACTOR, FACTOR, text, "times", measure=measure)


def joins(points: pd.DataFrame) -> list[Comparison]:
    """Compare with m ln n, m being the bits that are set as measured; d/2 stands beside it."""
    parts = []
    for nodes, rows in points.groupby("nodes"):
        n = float(str(nodes))
        set_bits = values_of(rows, "set_bits")
        for column, text, measure in (
            ("join_messages", "queries, replies and links", ""),
            ("join_queries", "queries alone", "queries alone"),
        ):
            sent = values_of(rows, column)
            words = f"messages of a join ({text}) over m ln n, m as measured, {n:g} peers"
            of_m = sent / (set_bits * math.log(n))
            parts.append(_near(of_m, words, measure))
        words = f"messages of a join over k d/2 ln n, k = 1, {n:g} peers"
        of_half = values_of(rows, "join_messages") / join_messages(n)
        parts.append(_near(of_half, words, HALF))
    return parts


def disseminates(points: pd.DataFrame) -> list[Comparison]:
    """Compare with p ln n, p from equations 3 to 6 with the measured share of bits that are *."""
    return [
        _near(
            values_of(rows, "uninterested") / (values_of(rows, "p_equations") * math.log(float(n))),
            f"deliveries to peers that do not want an event over p ln n, {float(n):g} peers",
        )
        for n, rows in groups(points, "nodes")
    ]


def probability(points: pd.DataFrame) -> list[Comparison]:
    return [
        _near(
            values_of(rows, "p") / values_of(rows, column),
            f"share of such peers that get an event over p by {text}, {float(n):g} peers",
            measure,
        )
        for n, rows in groups(points, "nodes")
        for column, text, measure in (
            ("p_equations", "equations 3 to 6", ""),
            ("p_of_m", "equation 3 with the bits that are set", "measured bits"),
        )
    ]


def steps(points: pd.DataFrame) -> list[Comparison]:
    return [
        _near(
            values_of(rows, "depth") / math.log(float(n)),
            f"hops of a delivery in the compared overlay over ln n, {float(n):g} peers",
        )
        for n, rows in groups(points, "nodes")
    ]


def crosses(points: pd.DataFrame) -> list[Comparison]:
    """Compare where what was counted is equal with k d/(2p), p from the equations."""
    parts = []
    joins = points[points[STUDY] == "dynamic"]
    others = points[points[STUDY] == "compared"]
    for nodes in sorted(set(joins["nodes"]) & set(others["nodes"])):
        sent = values_of(joins[joins["nodes"] == nodes], "join_messages")
        rows = others[others["nodes"] == nodes]
        measured = sent / values_of(rows, "uninterested")
        expected = values_of(rows, "p_equations").map(crossing)
        text = f"measured crossing over k d/(2p), {nodes:g} peers"
        parts.append(_near((measured / expected).dropna(), text))
    return parts


def _beside_compared(points: pd.DataFrame, study: str) -> Iterator[tuple[float, pd.DataFrame]]:
    """Yield the sizes that a study and the compared overlay have, with the rows of both."""
    rows = points[points[STUDY].isin((study, "compared"))]
    for nodes, of_size in groups(rows, "nodes"):
        if of_size[STUDY].nunique() > 1:
            yield float(nodes), of_size


def equal_false_positives(points: pd.DataFrame) -> list[Comparison]:
    """Compare what the filters let through, by bits or cells; peers on the way stand beside."""
    by_filter = (points["false_positives"] - points["by_forwarding"]) / (
        1 - points["by_forwarding"]
    )
    parts = []
    for nodes, rows in _beside_compared(points.assign(by_filter=by_filter), "static"):
        for column, text, measure in (
            ("by_filter", "those whose identifier matches", ""),
            ("false_positives", "all that get an event", OF_ALL),
        ):
            both = pairs(rows, column, "static", "compared", (), of=STUDY)
            words = f"false positives among {text}: static over compared, {nodes:g} peers"
            ratio = both["one"] / both["other"]
            parts.append(within(ratio, 1 / EQUAL, EQUAL, words, "times", measure=measure))
    return parts


def fewer_uninterested(points: pd.DataFrame) -> list[Comparison]:
    """Compare the shares of those involved that no subscription makes so."""
    joined = points[STUDY] == "dynamic"
    share = points["false_positives"].where(~joined, points["uninterested"])
    parts = []
    for study, measure in (("static", ""), ("dynamic", JOINED)):
        for nodes, rows in _beside_compared(points.assign(share=100 * share), study):
            both = pairs(rows, "share", "compared", study, (), of=STUDY)
            text = f"uninterested peers: compared overlay above {study}, {nodes:g} peers"
            parts.append(positive(both["one"] - both["other"], text, "%", measure=measure))
    return parts
