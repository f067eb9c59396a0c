"""The range of a power, and the power for a range, given the level that receivers need.

Theory of operation.  Reception ends at a level, `threshold_dbm`, which defines range in programs
that model a link only by its level (Mininet-WiFi: -91 dBm).  Here a frame survives by its SNR, so
the receivers' noise figure is chosen to make that level the sensitivity: a broadcast of 1,000 bytes
at the basic rate is then lost once in ten times at it (`emulation.radio.budget`).
"""

from __future__ import annotations

from typing import Final

from emulation.radio.budget import budget_for
from emulation.radio.errors import table_on
from emulation.radio.propagation import path_loss_db
from emulation.radio.spec import RadioSpec, UnitDisk

FARTHEST: Final = 1e6
"""Metres."""
_HALVINGS: Final = 60


def range_of(radio: RadioSpec, level_dbm: float, threshold_dbm: float) -> float:
    """Return the distance in metres at which a level falls to the threshold, averaged over links.

    `level_dbm` is the transmit power with the gains of both antennas.
    """
    loss = level_dbm - threshold_dbm
    if float(path_loss_db(radio, 1e-3)) > loss:
        return 0.0
    near, far = 1e-3, FARTHEST
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        if float(path_loss_db(radio, middle)) <= loss:
            near = middle
        else:
            far = middle
    return near


def power_for(radio: RadioSpec, metres: float, gains_dbi: float, threshold_dbm: float) -> float:
    """Return the transmit power, dBm, at which the level falls to the threshold at a distance."""
    return threshold_dbm + float(path_loss_db(radio, metres)) - gains_dbi


def with_sensitivity(radio: RadioSpec, threshold_dbm: float) -> RadioSpec:
    """Return a radio with the noise figure that makes the threshold its sensitivity.

    Raises ValueError if its noise would be below thermal noise, or if it has none.
    """
    if isinstance(radio.propagation, UnitDisk):
        raise ValueError("a unit disk has no levels: choose another propagation")
    phy = radio.phy
    silent = radio.model_copy(update={"noise_figure_db": 0.0, "range": None})
    least = budget_for(silent, phy, table_on(phy, phy.basic_rate)).sensitivity_dbm
    figure = threshold_dbm - least
    if figure < 0.0:
        raise ValueError(
            f"a threshold of {threshold_dbm:g} dBm is below the thermal noise: 802.11"
            f"{radio.standard} needs at least {least:.1f} dBm"
        )
    return radio.model_copy(update={"noise_figure_db": figure})
