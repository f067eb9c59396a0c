"""What the radio model says of whole links, for tests that compare it with something else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulation.radio.airtime import Rate
from emulation.radio.errors import log_survival
from emulation.radio.propagation import Floats, Indices, link_loss_db
from emulation.radio.spec import RadioSpec


def frame_error_rate(rate: Rate, snr_db: npt.ArrayLike, mpdu_bytes: int) -> Floats:
    """Return the share of frames of `mpdu_bytes` lost at constant SNR (decibels, any shape)."""
    snr = 10 ** (np.asarray(snr_db, dtype=np.float64) / 10)
    return -np.expm1(8 * mpdu_bytes * log_survival(rate, snr))


def received_dbm(
    radio: RadioSpec, tx_power_dbm: float, xy: Floats, seed: int = 0, rows: Indices | None = None
) -> Floats:
    """Return received power in dBm from each transmitter (row) at each station (column).

    `xy` is an array (N, 2) of metres; `rows` selects transmitters, all N by default.  A station
    gets -inf from itself.
    """
    senders = np.arange(len(xy)) if rows is None else rows
    delta = xy[senders][:, None, :] - xy[None, :, :]
    distance = np.hypot(delta[..., 0], delta[..., 1])
    loss = link_loss_db(radio, distance, senders[:, None], np.arange(len(xy))[None, :], seed)
    power = tx_power_dbm - loss
    power[np.arange(len(senders)), senders] = -np.inf
    return power
