"""The parts of 802.11 headers that the medium needs (IEEE 802.11-2016, 9.2, 9.3), rates by index.

A frame begins with frame control (2 bytes: version, type, subtype; flags), duration (2) and the
receiver address (6); all but a few control frames have the transmitter address next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulation.media.hwsim_wire import RateStep
from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES, Rate

MANAGEMENT, CONTROL, DATA, EXTENSION = range(4)
ASSOCIATION_RESPONSE, REASSOCIATION_RESPONSE = 1, 3
DISASSOCIATION, DEAUTHENTICATION = 10, 12
"""Subtypes of management frames: those that begin and end an association."""
RATES: Final = (*DSSS_RATES, *OFDM_RATES)
"""mac80211_hwsim's rates at 2.4 GHz, in its order; higher bands lack the first four."""
MCS: Final = 0x08
"""Flag of a rate: the index is an HT MCS."""
MAX_TRIES: Final = 64
"""Most tries of one frame, over all its rates: mac80211 wants some 30."""


def type_of(frame: bytes) -> int:
    """Return the type: `MANAGEMENT`, `CONTROL`, `DATA` or `EXTENSION`."""
    return (frame[0] >> 2) & 3


def subtype_of(frame: bytes) -> int:
    """Return the subtype, whose meaning depends on the type."""
    return frame[0] >> 4


def receiver_of(frame: bytes) -> bytes:
    """Return the receiver address: the next hop, not the destination."""
    return frame[4:10]


def rate_of(step: RateStep, frequency_mhz: float) -> Rate:
    """Return the rate that a step means; the slowest of its kind if the index is too high."""
    if step.flags & MCS:
        return HT_RATES[step.rate] if step.rate < len(HT_RATES) else HT_RATES[0]
    rates: Sequence[Rate] = RATES if frequency_mhz < 4000 else OFDM_RATES
    return rates[step.rate] if step.rate < len(rates) else rates[0]


def tries_of(steps: tuple[RateStep, ...], frequency_mhz: float) -> tuple[Rate, ...]:
    """Return the rate of every try of a frame, in order: at least one, at most `MAX_TRIES`."""
    tries = [rate_of(step, frequency_mhz) for step in steps for _ in range(step.tries)]
    if not tries:
        slowest = RateStep(0, 1, 0)
        tries = [rate_of(steps[0] if steps else slowest, frequency_mhz)]
    return tuple(tries[:MAX_TRIES])


def received_index(rate: Rate, frequency_mhz: float) -> int:
    """Return the index of a rate as reported to a receiver, which has no way to report an MCS.

    An HT rate becomes the fastest OFDM rate that is not above it.
    """
    rates: Sequence[Rate] = RATES if frequency_mhz < 4000 else OFDM_RATES
    if rate in rates:
        return rates.index(rate)
    slower = [index for index, candidate in enumerate(rates) if candidate.mbps <= rate.mbps]
    return slower[-1] if slower else 0
