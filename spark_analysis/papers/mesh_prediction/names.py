"""Names of the protocols, here and in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PREDICTION: Final = "mobility-prediction"
PROBING: Final = "periodic-probing"
BATCH: Final = "batch-forwarding"
PROTOCOLS: Final = (PREDICTION, PROBING, BATCH)
PAPER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        PREDICTION: "our protocol (prediction)",
        PROBING: "protocol with probing",
        BATCH: "protocol without probing (batch)",
    }
)
