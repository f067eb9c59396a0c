"""Subscription forwarding on a tree of dispatchers, its successor, and flooding."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.paper import Paper, Variation
from spark_analysis.papers.subscription_forwarding.claims import CLAIMS, MARGINS
from spark_analysis.papers.subscription_forwarding.studies import (
    FIGURES,
    NAMES,
    PRESETS,
    STUDIES,
    VARIATIONS,
)

PAPER: Final = Paper(
    key="subscription-forwarding",
    title="Subscription forwarding among roaming dispatchers",
    citation="A paper of the group of G. P. Picco and G. Cugola of which one figure and two "
    "passages are at hand; presumably P. Costa, G. P. Picco. Semi-probabilistic content-based "
    "publish-subscribe. ICDCS 2005.",
    anchor="subscription-forwarding",
    studies=STUDIES,
    figures=FIGURES,
    claims=tuple(CLAIMS),
    presets=PRESETS,
    base=Variation(
        "published",
        "as published",
        {},
        "What the copy says; workload and how breaks are noticed are open. Breaks show by silence, "
        "as with a node app on a UDP socket.",
    ),
    variations=VARIATIONS,
    margins=MARGINS,
    names=NAMES,
)
