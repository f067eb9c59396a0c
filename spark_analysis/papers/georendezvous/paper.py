"""GeoRendezvous: replicated rendezvous cells on a cell hash routing DHT."""

from __future__ import annotations

from typing import Final

from spark_analysis.papers.georendezvous.claims import CLAIMS, MARGINS
from spark_analysis.papers.georendezvous.studies import FIGURES, PRESETS, STUDIES, VARIATIONS
from spark_analysis.papers.paper import Paper

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
    names={
        "georendezvous": "GeoRendezvous",
        "rendezvous-gpsr": "Rendezvous node, GPSR",
        "broker-gpsr": "Broker, GPSR",
    },
)
