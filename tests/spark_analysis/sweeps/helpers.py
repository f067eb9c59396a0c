"""Sweep specs and results of sweeps that tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from spark_analysis.sweeps.page import QUANTITIES
from spark_analysis.sweeps.spec import SweepSpec

ROOT = Path(__file__).resolve().parents[3]
SMALL = {"nodes": "7", "interval": "1"}


def spec(**changes: Any) -> SweepSpec:
    """Return a spec of eight points that take a moment, with changes."""
    given: dict[str, Any] = {
        "topology": "roaming_field",
        "protocols": ("flooding", "broker-gpsr"),
        "vary": {"speed": ("0", "5")},
        "seeds": 2,
        "duration": 14.0,
        "settings": SMALL,
    }
    return SweepSpec(**(given | changes))


def synthetic() -> pd.DataFrame:
    """Return results in which every metric is the sum of speed and seed."""
    rows = []
    for protocol in ("flooding", "broker-gpsr"):
        for speed in (1.0, 10.0):
            for seed in (1, 2, 3):
                row = {"protocol": protocol, "speed": speed, "seed": seed, "ttl": None}
                row["run"] = f"{protocol}-{speed:g}-{seed}"
                row["command"] = f"run {protocol} --seed {seed}"
                rows.append(row | {each.column: speed + seed for each in QUANTITIES})
    table = pd.DataFrame(rows)
    table["ttl"] = table["ttl"].astype(float)
    return table
