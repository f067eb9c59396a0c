"""The six schemes, by their names here and in the paper."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

PAPER_NAMES: Final = MappingProxyType(
    {
        "broker-aodv": "B-AODV",
        "broker-gpsr": "B-GPSR (no map)",
        "broker-gpsr-map": "B-GPSR (with map)",
        "rendezvous-aodv": "R-AODV",
        "rendezvous-gpsr": "R-GPSR (no map)",
        "rendezvous-gpsr-map": "R-GPSR (with map)",
    }
)
SCHEMES: Final = tuple(PAPER_NAMES)
OVER_AODV: Final = ("broker-aodv", "rendezvous-aodv")
WITHOUT_MAP: Final = ("broker-gpsr", "rendezvous-gpsr")
WITH_MAP: Final = ("broker-gpsr-map", "rendezvous-gpsr-map")
GEOGRAPHIC: Final = (*WITHOUT_MAP, *WITH_MAP)
GEOGRAPHIC_RENDEZVOUS: Final = ("rendezvous-gpsr", "rendezvous-gpsr-map")
BEST: Final = "broker-gpsr-map"
"""The scheme that the paper recommends, and exempts from what it says of geographic schemes."""
