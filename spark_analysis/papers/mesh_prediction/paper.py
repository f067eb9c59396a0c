"""Event delivery with mobility prediction in a wireless mesh, beside probing and batch forwarding.

The paper analyses publish/subscribe for clients that roam a mesh of base stations: a broker
predicts from a client's reported route which broker is next to it, and sends events there.  It
compares this with clients that probe every 10 s and with events that follow in a batch, by packets
per event and by delay (its figures 4 and 5), in squares of 21 and 41 cells a side, at mean
intervals of 4 and 8 s and 3 to 15 m/s, with 10,000 runs of one leg each, and derives the packets in
its equations 1 to 6.

`equations` checks the derivation, `studies` is what is run, `claims` has the rules.
"""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.mesh_prediction.claims import CLAIMS, MARGINS
from spark_analysis.papers.mesh_prediction.names import PAPER_NAMES
from spark_analysis.papers.mesh_prediction.studies import FIGURES, PRESETS, STUDIES, VARIATIONS
from spark_analysis.papers.paper import Paper, Variation

PAPER: Final = Paper(
    key="mesh-prediction",
    title="Event delivery with mobility prediction in a wireless mesh",
    citation="Y. Zheng, J. Cao, M. Liu, J. Wang. Efficient event delivery in publish/subscribe "
    "systems for wireless mesh networks. Venue and year are not known from the copy.",
    anchor="mesh-prediction",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    base=Variation(
        "published",
        "as published",
        {},
        "One leg a client from the middle of the mesh, frames that do not collide, no recovery "
        "from wrong predictions.",
    ),
    variations=VARIATIONS,
    margins=MARGINS,
    names=PAPER_NAMES,
)
