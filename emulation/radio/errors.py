"""The probability that a frame survives noise and interference, by SINR and rate.

Theory of operation.  Every bit of a frame survives on its own, so a frame of n bits at constant
SINR arrives with exp(n s), where s <= 0 is the logarithm of one bit's survival.  Logarithms add:
a frame whose SINR changes on the way is the sum over its chunks.  `log_survival` computes s from
the SINR; `SurvivalTable` holds it on a grid of decibels, since the medium asks often.

OFDM (BPSK to 64-QAM, hard-decision Viterbi decoding): the bit error ratio p of the modulation in
white noise goes into the union bound over the distance spectrum of the (133, 171) code,

    P = 1/(2 b) sum_d c_d D^d,    D = sqrt(4 p (1 - p)),

with b input bits per puncturing period.  This is the NIST model (L. Miller, Validation of 802.11a/
UWB Coexistence Simulation, 2003), which G. Pei and T. Henderson (Validation of OFDM error rate
model in ns-3, 2010) found to agree with a test bed.  Distance spectra: D. Haccoun and G. Begin,
High-rate punctured convolutional codes, IEEE Trans. Comm. 37 (1989), and P. Frenger et al. (1999).

HT rates are the same by modulation and code.  The SINR is that of each stream, on the band of the
channel (`table_on`).

DSSS (1 and 2 Mb/s): differential BPSK and QPSK at Eb/N0 = SINR x 22 MHz / bit rate (Proakis,
Digital Communications; the QPSK approximation: L. Miller).  CCK (5.5 and 11 Mb/s): biorthogonal
signalling as in M. Pursley and T. Royster, High-rate direct-sequence spread spectrum with error-
control coding, IEEE Trans. Comm. 54 (2006), equations 17 and 18; G. Pei and T. Henderson,
Validation of ns-3 802.11b PHY model (2009).
"""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from emulation.radio.airtime import Phy, Rate

Floats = npt.NDArray[np.float64]

DSSS_BANDWIDTH: Final = 22e6
CERTAIN: Final = 1e-9
"""Loss below which a frame counts as arrived, and survival below which it counts as lost."""
LEAST_LOG_SURVIVAL: Final = -50.0
"""Logarithm of a hopeless bit's survival; finite, so that zero bits still cost nothing."""

# Free distance, step, and the weights c_d of the information errors on paths of distance d.
_SPECTRA: Final[dict[str, tuple[int, int, int, tuple[int, ...]]]] = {
    "1/2": (1, 10, 2, (36, 211, 1404, 11633, 77433, 502690, 3322763, 21292910, 134365911)),
    "2/3": (2, 6, 1, (3, 70, 285, 1276, 6160, 27128, 117019, 498860, 2103891, 8784123)),
    "3/4": (
        *(3, 5, 1),
        (42, 201, 1492, 10469, 62935, 379644, 2253373, 13073811, 75152755, 428005675),
    ),
    "5/6": (
        *(5, 4, 1),
        (92, 528, 8694, 79453, 792114, 7375573, 67884974, 610875423, 5427275376, 47664215639),
    ),
}
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _q2(x: Floats) -> Floats:
    """Return erfc(x) element by element."""
    return np.asarray(_erfc(x), dtype=np.float64)


def modulation_error(rate: Rate, sinr: Floats) -> Floats:
    """Return the uncoded bit error ratio of an OFDM rate at linear `sinr`."""
    if rate.modulation == "BPSK":
        return 0.5 * _q2(np.sqrt(sinr))
    if rate.modulation == "QPSK":
        return 0.5 * _q2(np.sqrt(sinr / 2))
    if rate.modulation == "16-QAM":
        return 0.75 * 0.5 * _q2(np.sqrt(sinr / (5 * 2)))
    return 7 / 12 * 0.5 * _q2(np.sqrt(sinr / (21 * 2)))


def _decoded_error(coding: str, p: Floats) -> Floats:
    """Return the union bound on the bit error ratio after decoding, at most 1."""
    period, distance, step, weights = _SPECTRA[coding]
    d = np.sqrt(4 * p * (1 - p))
    total = np.zeros_like(d)
    for weight in weights:
        total += weight * d**distance
        distance += step
    return np.minimum(total / (2 * period), 1.0)


def _cck16_symbol_error(e: Floats) -> Floats:
    """Return the error ratio of 16-ary biorthogonal symbols at symbol energy over N0 `e`.

    One minus the integral over x > -b of (2 Phi(x + b) - 1)^7 phi(x), b = sqrt(2 e).
    """
    nodes, weights = np.polynomial.legendre.leggauss(200)
    beta = np.sqrt(2 * e)[:, None]
    low = np.maximum(-beta, -9.0)
    x = low + (9.0 - low) * (nodes + 1) / 2
    phi = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    inside = (1 - _q2((x + beta) / math.sqrt(2))) ** 7
    return np.clip(1 - (inside * phi) @ weights * (9.0 - low[:, 0]) / 2, 0.0, 1.0)


def log_survival(rate: Rate, sinr: npt.ArrayLike) -> Floats:
    """Return the natural logarithm of a bit's survival at linear `sinr`, any shape; <= 0."""
    array = np.asarray(sinr, dtype=np.float64)
    ratio = np.atleast_1d(array).ravel()
    bits = 1.0
    if rate.modulation == "DBPSK":
        error = 0.5 * np.exp(-ratio * DSSS_BANDWIDTH / 1e6)
    elif rate.modulation == "DQPSK":
        x = np.maximum(ratio * DSSS_BANDWIDTH / 1e6 / 2, 1e-12)
        scale = (math.sqrt(2) + 1) / math.sqrt(8 * math.pi * math.sqrt(2))
        error = np.minimum(scale / np.sqrt(x) * np.exp(-(2 - math.sqrt(2)) * x), 0.5)
    elif rate.modulation == "CCK5.5":
        bits = 4.0
        error = _cck16_symbol_error(ratio * DSSS_BANDWIDTH / 1.375e6 / 2)
    elif rate.modulation == "CCK11":
        bits = 8.0
        error = 1 - (1 - _cck16_symbol_error(ratio * DSSS_BANDWIDTH / 1.375e6 / 4)) ** 2
    else:
        error = _decoded_error(rate.coding, modulation_error(rate, ratio))
    with np.errstate(divide="ignore"):
        result = np.maximum(np.log1p(-error) / bits, LEAST_LOG_SURVIVAL)
    return result.reshape(array.shape)


class SurvivalTable:
    """`log_survival` of one rate on a grid of SINR in decibels, interpolated linearly."""

    LOW: Final = -20.0
    HIGH: Final = 60.0
    PER_DB: Final = 20

    def __init__(self, rate: Rate, noise_share: float = 1.0) -> None:
        """Create one for frames into whose band falls that share of the noise."""
        self.rate = rate
        count = round((self.HIGH - self.LOW) * self.PER_DB) + 1
        self._grid = np.linspace(self.LOW, self.HIGH, count)
        self._array = log_survival(rate, 10 ** (self._grid / 10) / noise_share)
        self._list: list[float] = self._array.tolist()

    def at(self, sinr_db: Floats) -> Floats:
        """Return the log-survival of a bit at each SINR in decibels."""
        return np.interp(sinr_db, self._grid, self._array)

    def at_one(self, sinr: float) -> float:
        """Return the log-survival of a bit at one SINR, linear."""
        return self.at_db(10 * math.log10(sinr) if sinr > 0.01 else self.LOW)

    def at_db(self, sinr_db: float) -> float:
        """Return the log-survival of a bit at one SINR in decibels."""
        offset = (sinr_db - self.LOW) * self.PER_DB if sinr_db > self.LOW else 0.0
        index = int(offset)
        if index >= len(self._list) - 1:
            return self._list[-1]
        below = self._list[index]
        return below + (self._list[index + 1] - below) * (offset - index)

    def sure_db(self, bits: int) -> float:
        """Return the SINR in decibels from which frames of `bits` count as certain to arrive.

        From there on, less than the share `CERTAIN` is lost.
        """
        return self.required_db(bits, CERTAIN) + 1 / self.PER_DB

    def required_db(self, bits: int, error_rate: float) -> float:
        """Return the SNR in decibels at which frames of `bits` are lost at `error_rate`."""
        wanted = math.log1p(-error_rate) / bits
        # Survival does not fall with SINR; equal values at either end do not hold `wanted`.
        return float(np.interp(wanted, self._array, self._grid))


class ThresholdTable(SurvivalTable):
    """No bit is ever in error: reception depends only on power (`RadioSpec.reception`)."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._grid = np.array([self.LOW, self.HIGH])
        self._array = np.zeros(2)
        self._list = [0.0]

    def sure_db(self, bits: int) -> float:
        """Return minus infinity: frames arrive at any SINR."""
        return -math.inf


@functools.cache
def survival_table(rate: Rate, noise_share: float = 1.0) -> SurvivalTable:
    """Return the table of a rate, computed once: tables are constant."""
    return SurvivalTable(rate, noise_share)


def table_on(phy: Phy, rate: Rate) -> SurvivalTable:
    """Return the table of a rate by the SINR in the whole channel of a PHY.

    Half the noise of a channel of 40 MHz is in the band of frames that are not HT.
    """
    half = phy.bandwidth_hz == 40e6 and rate.width_mhz == 20
    return survival_table(rate, 0.5 if half else 1.0)


@functools.cache
def threshold_table(rate: Rate) -> SurvivalTable:
    """Return the table of a rate if there are no bit errors."""
    return ThresholdTable(rate)
