"""Levels at which radios without access points hear each other."""

from __future__ import annotations

from typing import Final

import numpy as np

from emulation.wifi.network import Network

MANY: Final = 30
"""Above this many radios without access points, only the strongest neighbours of each count."""
STRONGEST: Final = 8
"""Number of these neighbours."""
PEER_MODES: Final = ("adhoc", "mesh", "ocb")
"""Modes of radios that communicate without access points."""


def peer_levels(network: Network) -> list[list[str | float]]:
    """Return receiver, sender (interfaces) and mean level, dBm, of each pair in one network.

    With more than `MANY` radios, only those of each receiver's `STRONGEST` senders.
    """
    channels = network.channels
    rows: list[list[str | float]] = []
    radios = [radio for radio in network.radios if radio.mode in PEER_MODES]
    for channel in channels:
        here = [radio for radio in radios if channels.of(radio.index) is channel]
        if len(here) < 2:
            continue
        indices = [radio.index for radio in here]
        levels = channel.medium.table.levels(indices, indices)
        heard = levels >= channels.threshold_dbm(channel.key, channel.standard)
        np.fill_diagonal(heard, False)
        names = [(radio.mode, "" if radio.mode == "ocb" else radio.ssid) for radio in here]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        network_of = np.array([numbers[name] for name in names])
        heard &= network_of[:, None] == network_of[None, :]
        if len(radios) > MANY and len(here) > STRONGEST:
            ranked = np.argpartition(np.where(heard, -levels, np.inf), STRONGEST - 1, axis=0)
            strongest = np.zeros_like(heard)
            np.put_along_axis(strongest, ranked[:STRONGEST], True, axis=0)
            heard &= strongest
        for source, receiver in np.argwhere(heard).tolist():
            level = round(float(levels[source, receiver]), 2)
            rows.append([here[receiver].interface, here[source].interface, level])
    return rows
