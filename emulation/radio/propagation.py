"""Path loss and shadowing, for many links at once.

Theory of operation.  `path_loss_db` is the mean loss at a distance.  `link_loss_db` adds what the
link itself contributes, log-normal shadowing and antenna gains.  A link's shadowing is a hash of
the seed and the pair of stations, so that it is the same in both directions, the same every time it
is computed, and needs no matrix in memory.

Sources: H. Friis, A note on a simple transmission formula (1946); T. Rappaport, Wireless
Communications, 2nd ed., 4.6 (two-ray), 4.9 (log-distance, log-normal shadowing); the cross-over of
two-ray ground as in ns-2, 4 pi h_t h_r / wavelength.  The hash is the finaliser of SplitMix64
(G. Steele et al., Fast splittable pseudorandom number generators, 2014), the normal deviate that
of Box and Muller (1958).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from emulation.radio.spec import (
    Friis,
    LogDistance,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SPEED_OF_LIGHT: Final = 299_792_458.0
UNIT_DISK_RANGE: Final = 250.0
"""Default radius of a unit disk, metres."""
UNIT_DISK_LOSS_DB: Final = 40.0
"""Loss inside a unit disk: any value far above the noise."""
UNIT_DISK_SENSED_DB: Final = 130.0
"""Loss outside it, within the range of carrier sense: too far below the noise to disturb."""


def wavelength(radio: RadioSpec) -> float:
    """Return the wavelength in metres."""
    return SPEED_OF_LIGHT / (radio.frequency_mhz * 1e6)


def _free_space_db(radio: RadioSpec, distance: Floats | float) -> Floats:
    return np.asarray(20 * np.log10(4 * math.pi * distance / wavelength(radio)), dtype=np.float64)


def path_loss_db(radio: RadioSpec, distance: npt.ArrayLike) -> Floats:
    """Return the mean path loss in decibels at each distance in metres, any shape.

    Outside a unit disk it is infinite, or within `sense_range` so great that frames are sensed but
    do not interfere.  Never negative: the far-field formulas fail within a wavelength.
    """
    metres = np.maximum(np.asarray(distance, dtype=np.float64), 1e-3)
    model = radio.propagation
    if isinstance(model, UnitDisk):
        reach = radio.range if radio.range is not None else UNIT_DISK_RANGE
        beyond = np.where(metres <= (radio.sense_range or 0.0), UNIT_DISK_SENSED_DB, np.inf)
        return np.where(metres <= reach, UNIT_DISK_LOSS_DB, beyond)
    if isinstance(model, Friis):
        loss = _free_space_db(radio, metres) + model.system_loss_db
    elif isinstance(model, LogDistance | Shadowing):
        d0 = model.reference_distance
        beyond = 10 * model.exponent * np.log10(np.maximum(metres / d0, 1.0))
        loss = _free_space_db(radio, np.minimum(metres, d0)) + beyond
    else:
        loss = _two_ray_db(radio, model, metres)
    return np.maximum(loss, 0.0)


def _two_ray_db(radio: RadioSpec, model: TwoRayGround, metres: Floats) -> Floats:
    height = model.antenna_height
    crossover = 4 * math.pi * height * height / wavelength(radio)
    far = 40 * np.log10(metres) - 40 * math.log10(height)
    return np.where(metres < crossover, _free_space_db(radio, metres), far)


def _mixed(key: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the SplitMix64 finaliser of each key."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = key ^ (key >> np.uint64(31))
    return mixed


def shadowing_db(seed: int, one: npt.ArrayLike, other: npt.ArrayLike, sigma_db: float) -> Floats:
    """Return the shadowing of each link (decibels, normal with `sigma_db`), symmetric.

    `one` and `other` are station indices and broadcast against each other.
    """
    first, second = np.broadcast_arrays(
        np.asarray(one, dtype=np.uint64), np.asarray(other, dtype=np.uint64)
    )
    pair = (np.minimum(first, second) << np.uint64(32)) | np.maximum(first, second)
    with np.errstate(over="ignore"):
        key = _mixed(pair + _mixed(np.full_like(pair, seed % 2**64)))
        again = _mixed(key + np.uint64(0x9E3779B97F4A7C15))
    uniform = ((key >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    angle = (again >> np.uint64(11)).astype(np.float64) * (2.0**-53 * 2 * math.pi)
    deviates: Floats = np.sqrt(-2 * np.log(uniform)) * np.cos(angle)
    return sigma_db * deviates


def link_loss_db(
    radio: RadioSpec, distance: npt.ArrayLike, one: npt.ArrayLike, other: npt.ArrayLike, seed: int
) -> Floats:
    """Return the loss of single links in decibels: path loss, shadowing, less antenna gains."""
    loss = path_loss_db(radio, distance) - 2 * radio.antenna_gain_dbi
    if isinstance(radio.propagation, Shadowing):
        loss = loss + shadowing_db(seed, one, other, radio.propagation.sigma_db)
    return loss
