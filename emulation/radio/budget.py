"""Link budget of a radio: transmit power, noise, and power thresholds.

Received power falls through four levels with distance.  Down to `sensitivity_dbm` a 1,000-byte
broadcast at the basic rate is lost less than once in ten; down to `sense_dbm` a station notices
the frame and defers to it; down to `floor_dbm` it still counts as interference; anything weaker is
left out (at 10 dB below the noise, one such frame costs a receiver 0.4 dB).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from emulation.radio.airtime import Phy
from emulation.radio.errors import SurvivalTable
from emulation.radio.propagation import (
    UNIT_DISK_LOSS_DB,
    UNIT_DISK_SENSED_DB,
    Floats,
    path_loss_db,
)
from emulation.radio.spec import RadioSpec, Shadowing, UnitDisk

THERMAL_NOISE_DBM_HZ: Final = -173.975
"""k T at 290 K."""
REFERENCE_BYTES: Final = 1000
"""Size of the Ethernet frame for which range and rates are chosen."""
REFERENCE_ERROR: Final = 0.1
DETECTION_MARGIN_DB: Final = 3.0
"""How far below reliable reception a preamble is still detected, by default."""
FLOOR_BELOW_NOISE_DB: Final = 10.0
AT_RANGE_DB: Final = 1e-5
"""How far below the power at a range a station still counts as in range: powers are rounded."""
POWER_DECIMALS: Final = 6
"""Decimals of powers, so that processors with different instructions decide alike."""
ROUNDING_DB: Final = 1e-3
"""An upper bound of the rounding error of powers."""
SHADOWING_DEVIATIONS: Final = 4.0
"""Links that shadowing lifts by more than this many sigma (1 in 30,000) are cut off."""


@dataclass(frozen=True)
class Budget:
    """Powers in dBm; `reach` in metres, beyond which no station is above `floor_dbm`."""

    tx_dbm: float
    noise_dbm: float
    sensitivity_dbm: float
    sense_dbm: float
    floor_dbm: float
    reach: float


def budget_for(radio: RadioSpec, phy: Phy, basic: SurvivalTable) -> Budget:
    """Return the budget of `radio`; `basic` is the survival table of the basic rate."""
    noise = THERMAL_NOISE_DBM_HZ + 10 * math.log10(phy.bandwidth_hz) + radio.noise_figure_db
    if isinstance(radio.propagation, UnitDisk):
        inside = noise + SurvivalTable.HIGH
        reach = radio.range or float(_distance_at(radio, UNIT_DISK_LOSS_DB))
        tx = inside + UNIT_DISK_LOSS_DB - 2 * radio.antenna_gain_dbi
        sense = inside - 1
        if radio.sense_range is not None:
            sense -= UNIT_DISK_SENSED_DB - UNIT_DISK_LOSS_DB
            reach = max(reach, radio.sense_range)
        return Budget(tx, noise, inside, sense, sense, reach)
    bits = 8 * phy.mpdu_bytes(REFERENCE_BYTES)
    sensitivity = noise + basic.required_db(bits, REFERENCE_ERROR)
    gain = 2 * radio.antenna_gain_dbi
    tx = radio.tx_power_dbm
    if radio.range is not None:
        tx = sensitivity + float(path_loss_db(radio, radio.range)) - gain
    detects = radio.carrier_sense_dbm
    if radio.sense_range is not None:
        detects = tx + gain - float(path_loss_db(radio, radio.sense_range)) - AT_RANGE_DB
    # A station that can decode a frame detects it, whatever the configured threshold.
    sense = sensitivity - DETECTION_MARGIN_DB if detects is None else min(detects, sensitivity)
    floor = sense if radio.reception == "threshold" else min(noise - FLOOR_BELOW_NOISE_DB, sense)
    slack = 0.0
    if isinstance(radio.propagation, Shadowing):
        slack = SHADOWING_DEVIATIONS * radio.propagation.sigma_db
    return Budget(
        tx, noise, sensitivity, sense, floor, _distance_at(radio, tx + gain - floor + slack)
    )


def reach_beyond(radio: RadioSpec, budget: Budget, more_db: float) -> float:
    """Return the reach of radios that are up to `more_db` stronger than those of a budget."""
    if not more_db:
        return budget.reach
    slack = 0.0
    if isinstance(radio.propagation, Shadowing):
        slack = SHADOWING_DEVIATIONS * radio.propagation.sigma_db
    gain = 2 * radio.antenna_gain_dbi
    return _distance_at(radio, budget.tx_dbm + gain + more_db - budget.floor_dbm + slack)


def received_dbm(budget: Budget, loss_db: Floats) -> Floats:
    """Return the powers of links with these losses."""
    return np.asarray(np.round(budget.tx_dbm - loss_db, POWER_DECIMALS), dtype=np.float64)


def reach_at(radio: RadioSpec, budget: Budget, level_dbm: float) -> float:
    """Return the distance in metres beyond which nobody receives a level, without shadowing."""
    gain = 2 * radio.antenna_gain_dbi
    return _distance_at(radio, budget.tx_dbm + gain - level_dbm + ROUNDING_DB)


def _distance_at(radio: RadioSpec, loss_db: float) -> float:
    """Return the largest distance in metres, up to 1,000 km, with a path loss of `loss_db`."""
    grid = np.geomspace(1e-2, 1e6, 20_001)
    below = np.flatnonzero(path_loss_db(radio, grid) <= loss_db)
    # One more grid step (0.1 %), as the distance may lie between two points.
    return float(grid[min(below[-1] + 1, len(grid) - 1)]) if len(below) else 0.0
