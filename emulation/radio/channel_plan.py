"""Numbers and centre frequencies of 20 MHz channels, and which of them may be 40 MHz wide.

Source: IEEE 802.11-2016, 15.4.4.3 (2.4 GHz), 17.3.8.4 (5 GHz; from 172 on those of 802.11p).
"""

from __future__ import annotations

from typing import Final

WIDE: Final = frozenset(
    {*range(1, 14), *range(36, 65, 4), *range(100, 145, 4), *range(149, 162, 4)}
)
"""Primary channels of 40 MHz (802.11-2016, tables E-1 to E-4)."""
BAND_5_GHZ: Final = range(36, 186)
"""Channel numbers from 5 GHz on."""


class ChannelError(ValueError):
    """A channel that does not exist; the message says which do."""


def channel_of(frequency_mhz: float) -> int:
    """Return the number of the channel at a frequency.  Raises `ChannelError`."""
    frequency = round(frequency_mhz)
    if frequency == frequency_mhz:
        if frequency == 2484:
            return 14
        if 2412 <= frequency <= 2472 and frequency % 5 == 2:
            return (frequency - 2407) // 5
        if 5180 <= frequency <= 5925 and frequency % 5 == 0:
            return (frequency - 5000) // 5
    raise ChannelError(
        f"no 802.11 channel is at {frequency_mhz:g} MHz: choose, for example, 2412 (channel 1), "
        "2437 (6) or 5180 (36)"
    )


def frequency_of(channel: int) -> float:
    """Return the centre frequency of a channel, MHz.  Raises `ChannelError`."""
    if channel == 14:
        return 2484.0
    if 1 <= channel <= 13:
        return 2407.0 + 5 * channel
    if channel in BAND_5_GHZ:
        return 5000.0 + 5 * channel
    raise ChannelError(
        f"there is no channel {channel}: 1 to 14 are at 2.4 GHz, "
        f"{BAND_5_GHZ[0]} to {BAND_5_GHZ[-1]} at 5 GHz"
    )


def may_be_wide(frequency_mhz: float) -> bool:
    """Return whether the channel at a frequency may be the primary one of 40 MHz."""
    try:
        return channel_of(frequency_mhz) in WIDE
    except ChannelError:
        return False
