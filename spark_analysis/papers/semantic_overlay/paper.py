"""A semantic overlay of peers with Bloom-filter identifiers, to 4,000 peers."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.paper import Paper
from spark_analysis.papers.semantic_overlay.claims import CLAIMS, MARGINS
from spark_analysis.papers.semantic_overlay.studies import FIGURES, PRESETS, STUDIES

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
    names={"semantic-overlay": "Semantic overlay", "mirinae": "Mirinae"},
)
