"""Levels at which radios without access points hear each other."""

from __future__ import annotations

from typing import Final

import numpy as np

from emulation.radio.wlan.network import Network

PEER_MODES: Final = ("adhoc", "mesh", "ocb")
"""Of radios that communicate without access points."""


def peer_levels(network: Network) -> list[list[str | float]]:
    """Return receiver, sender (interfaces) and mean level, dBm, of each pair in one network."""
    channels = network.channels
    rows: list[list[str | float]] = []
    for channel in channels:
        here = [
            radio
            for radio in network.radios
            if radio.mode in PEER_MODES and channels.of(radio.index) is channel
        ]
        if len(here) < 2:
            continue
        indices = [radio.index for radio in here]
        levels = channel.medium.table.levels(indices, indices)
        heard = levels >= channels.threshold_dbm(channel.key, channel.standard)
        np.fill_diagonal(heard, False)
        for source, receiver in np.argwhere(heard).tolist():
            one, other = here[source], here[receiver]
            if one.mode == other.mode and (one.ssid == other.ssid or one.mode == "ocb"):
                level = round(float(levels[source, receiver]), 2)
                rows.append([other.interface, one.interface, level])
    return rows
