"""A semantic overlay of peers with Bloom-filter identifiers, to 4,000 peers."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.answer import Sentence, mean
from spark_analysis.papers.paper import Paper
from spark_analysis.papers.semantic_overlay.claims import CLAIMS, MARGINS
from spark_analysis.papers.semantic_overlay.studies import FIGURES, PRESETS, STUDIES, VARIATIONS

ANSWER: Final = (
    Sentence(
        "Peers have {bits} of 1,024 bits set and tables of {table} chosen links in the static "
        "setting and {joined} with joins, at 1,000 peers; {quotes} quotes of a network are sent.",
        {
            "bits": mean("dynamic", "set_bits", nodes=1000),
            "table": mean("static", "table", nodes=1000),
            "joined": mean("dynamic", "table", nodes=1000),
            "quotes": mean("dynamic", "quotes", nodes=1000),
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
    names={"semantic-overlay": "Semantic overlay", "mirinae": "Mirinae"},
)
