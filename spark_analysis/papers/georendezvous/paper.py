"""GeoRendezvous: replicated rendezvous cells on a cell hash routing DHT."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.answer import Sentence, mean, verdict
from spark_analysis.papers.georendezvous.claims import CLAIMS
from spark_analysis.papers.georendezvous.rules import MARGINS
from spark_analysis.papers.georendezvous.studies import FIGURES, PRESETS, STUDIES, VARIATIONS
from spark_analysis.papers.paper import Paper

_R600: Final = {"nodes": 600}
ANSWER: Final = (
    Sentence(
        "With 600 nodes the way over one cell is {one} times the direct one, over the best of 7 "
        "{seven}, of 8 {eight} and of 32 {most}; a continuous plane has {plane} over the best of "
        "8 and {two_plane} over the 2 nearest of 8.",
        {
            "one": mean("graph", "ratio", replicas=1, **_R600),
            "seven": mean("graph", "ratio", replicas=7, **_R600),
            "eight": mean("graph", "ratio", replicas=8, **_R600),
            "most": mean("graph", "ratio", replicas=32, **_R600),
            "plane": mean("plane", "ratio", replicas=8),
            "two_plane": mean("plane-nearest", "ratio", tried=2),
        },
    ),
    Sentence(
        "Over the 2 nearest of 8 cells it is {near}, over 2 random ones {two}; a new subscriber "
        "that tries these 2, where a publisher notifies all 8, causes {extra} unnecessary "
        "messages, and one that tries all 8 {all}.",
        {
            "near": mean("nearest", "ratio", tried=2, **_R600),
            "two": mean("graph", "ratio", replicas=2, **_R600),
            "extra": mean("stable", "unnecessary", tried=2),
            "all": mean("stable", "unnecessary", tried=8),
        },
    ),
    Sentence(
        "Trees over 8 cells are {few} times as long as over one with 1 subscriber, {eight} with 8 "
        "and {many} with 32; signalling takes {signals} transmissions a pair with 8 cells and "
        "{signals_one} with 1, and a node stores {stored} entries instead of {stored_one}.",
        {
            "few": mean("trees", "length_ratio", subscribers=1),
            "eight": mean("trees", "length_ratio", subscribers=8),
            "many": mean("trees", "length_ratio", subscribers=32),
            "signals": mean("cells", "signals", replicas=8),
            "signals_one": mean("cells", "signals", replicas=1),
            "stored": mean("cells", "stored", replicas=8),
            "stored_one": mean("cells", "stored", replicas=1),
        },
    ),
    Sentence(
        "With k = 0.5 the probability of theorem 3.1 is {small} with 80 nodes and {large} with "
        "3,000 (bound {bound}): that it does not vanish {vanish}, that it is nearly constant "
        "{constant}.",
        {
            "small": mean("theorem", "probability", nodes=80, k=0.5),
            "large": mean("theorem", "probability", nodes=3000, k=0.5),
            "bound": mean("theorem", "bound", nodes=3000, k=0.5),
            "vanish": verdict("vanish"),
            "constant": verdict("constant"),
        },
    ),
)
DIFFERENCES: Final = (
    "The figures' ways are computed on the graphs of all networks, by the protocol's own "
    "functions; on some of the networks the whole protocol runs, and takes the same ways.",
    "A way is measured in hops of cell hash routing, the direct one as well, as the paper has no "
    "other routing. Greedy ways go around voids, which makes the direct one longer and the ratios "
    "smaller than on a plane: the figure 'what makes the plane differ' of the appendix.",
    "The average degree of 45 is that of all nodes, those at the border included; the square is "
    "smaller than if it were that of the nodes inside, which is a variation.",
    "The range is 250 m; topics, hash function and positions are drawn for each network.",
    "Nodes of a rendezvous cell share its state by a broadcast, which the paper leaves open; it is "
    "counted apart from messages.",
    "A stable setting needs nodes that keep each cell notified: here those whose shortest way "
    "leads over it. Topics in which a cell has none are left out: about a fifth.",
    "Signalling counts all that a pair costs from its start, also what a node asks its cell for "
    "when it enters, which is as much with one cell as with 8.",
)

PAPER: Final = Paper(
    key="georendezvous",
    title="Rendezvous cells that subscribers choose among",
    citation="N. Carvalho, F. Araujo, L. Rodrigues. Reducing latency in rendezvous-based "
    "publish-subscribe systems for wireless ad hoc networks.",
    anchor="georendezvous",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    variations=VARIATIONS,
    margins=MARGINS,
    answer=ANSWER,
    differences=DIFFERENCES,
    names={
        "georendezvous": "GeoRendezvous",
        "rendezvous-gpsr": "Rendezvous node, GPSR",
        "broker-gpsr": "Broker, GPSR",
    },
)
