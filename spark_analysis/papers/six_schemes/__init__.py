"""Topic-driven brokers and rendezvous nodes for vehicles, over GPSR and AODV.

The paper analyses publish/subscribe over mobile ad hoc networks of vehicles: brokers or
rendezvous nodes are found by AODV at the node id that a topic hashes to, by GPSR at the position it
hashes to, or by GPSR at the waypoint of a road map next to that.  It compares these six
schemes in a freeway and a Manhattan scenario (its table 1) by delivery ratio, end-to-end delay
and per-node message load against speed (its figures 4 and 5): 900 s, three seeds.

The paper's words are the claims; its figures have no numbers that could be read.  What it leaves
open of the scenarios is stated in the topologies `freeway` and `manhattan`.

`ways` has the base, which is the paper's own set-up, and the variations; `studies` what is run;
`claims` the rules.
"""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.paper import Paper
from spark_analysis.papers.six_schemes.answer import ANSWER, DIFFERENCES
from spark_analysis.papers.six_schemes.claims import CLAIMS, MARGINS
from spark_analysis.papers.six_schemes.studies import FIGURES, PRESETS, STUDIES
from spark_analysis.papers.six_schemes.ways import BASE, PAPER_NAMES, VARIATIONS

PAPER: Final = Paper(
    key="six-schemes",
    title="Six publish/subscribe schemes for vehicles",
    citation="Six publish/subscribe schemes over AODV and GPSR for vehicles: a paper whose title, "
    "authors and venue are not known, since the copy begins at its abstract.",
    anchor="six-schemes",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    base=BASE,
    variations=VARIATIONS,
    seeds=3,
    margins=MARGINS,
    names=PAPER_NAMES,
    answer=ANSWER,
    differences=DIFFERENCES,
)
