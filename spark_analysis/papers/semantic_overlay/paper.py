"""A semantic overlay of peers with Bloom-filter identifiers, to 4,000 peers."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.answer import Sentence, mean
from spark_analysis.papers.paper import Paper
from spark_analysis.papers.semantic_overlay.claims import CLAIMS, MARGINS
from spark_analysis.papers.semantic_overlay.compared import EVENTS as QUOTES
from spark_analysis.papers.semantic_overlay.setting import EVENTS, STOCKS
from spark_analysis.papers.semantic_overlay.studies import (
    FIGURES,
    OF_LAW,
    PRESETS,
    STUDIES,
    VARIATIONS,
)

ANSWER: Final = (
    Sentence(
        "Peers have {bits} of 1,024 bits set and tables of {table} chosen links in the static "
        "setting and {joined} with joins, at 1,000 peers.",
        {
            "bits": mean("dynamic", "set_bits", nodes=1000),
            "table": mean("static", "table", nodes=1000),
            "joined": mean("dynamic", "table", nodes=1000),
        },
    ),
    Sentence(
        "Tables can have {largest} entries if 819 bits are set, where proposition 1 has "
        "2,049 at most; with m bits set the bound is 4m + c.",
        {"largest": mean("bits", "largest_table", set_bits=819, digits=4)},
    ),
    Sentence(
        "A join takes {messages} messages, all counted, at 1,000 peers, and {uninterested} % of "
        "the peers that an event is sent to then have no subscription that matches.",
        {
            "messages": mean("dynamic", "join_messages", nodes=1000),
            "uninterested": mean("dynamic", "uninterested", scale=100.0, nodes=1000),
        },
    ),
    Sentence(
        "At 1,000 peers an event takes {ours} messages and loses {lost} % of its deliveries, and "
        "takes {theirs} in the compared overlay, which loses {missing} %; their depths are {deep} "
        "and {theirs_deep} hops.",
        {
            "ours": mean("static", "event_messages", nodes=1000),
            "lost": mean("static", "false_negatives", scale=100.0, nodes=1000),
            "theirs": mean("compared", "event_messages", nodes=1000),
            "missing": mean("compared", "false_negatives", scale=100.0, nodes=1000),
            "deep": mean("static", "depth", nodes=1000),
            "theirs_deep": mean("compared", "depth", nodes=1000),
        },
    ),
)

DIFFERENCES: Final = (
    f"The paper names neither K, nor the grid, nor the stocks, nor how many subscriptions a peer "
    f"has: 3 hash functions, 25 letters by 20 prices, {STOCKS} stocks, four of which share a "
    "letter, and two subscriptions a peer. So most peers of a cell want another stock (claim 17).",
    "A join ends after 3 fruitless answers or 16 rounds. The paper's goes on until the routing "
    "table converges: a variation, up to 500 peers, as it takes ten times as many messages.",
    f"At most {EVENTS} quotes of a network are sent in the static setting, {OF_LAW} if interests "
    f"follow a law, {QUOTES} in the compared overlay; with joins, as many as peers make meanwhile.",
    "Joins are in an overlay without losses or delay; the radio is not part of the paper.",
)

PAPER: Final = Paper(
    key="semantic-overlay",
    title="Peers that cluster by interest",
    citation="K. Elkhiyaoui, D. Kato, K. Kunieda, K. Yamada, P. Michiardi. A scalable "
    "interest-oriented peer-to-peer pub/sub network. IEEE P2P, 2009 (by its abstract).",
    anchor="semantic-overlay",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    margins=MARGINS,
    variations=VARIATIONS,
    answer=ANSWER,
    differences=DIFFERENCES,
    names={"semantic-overlay": "Semantic overlay", "mirinae": "Mirinae"},
)
