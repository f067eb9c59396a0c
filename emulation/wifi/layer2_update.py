"""The layer 2 update frame, with which an access point announces that a station is behind it.

An Ethernet broadcast with an LLC XID response whose source is the station (IEEE 802.11F, 6.3), as
hostapd, or mac80211 on its behalf, sends it into its bridge when a station associates; the two use
different windows.  Standard library only: the radio emits these frames, and the controller, which
runs in an environment of its own, reads them.
"""

from __future__ import annotations

from typing import Final

BROADCAST_MAC: Final = b"\xff" * 6
XID: Final = bytes((0x00, 0x01, 0xAF, 0x81, 0x01, 0x02))
"""Null DSAP; null SSAP, response; XID, final bit 0; format identifier, LLC type 1, window 1."""
_WINDOW: Final = 1
"""Bytes at its end, the window, which are ignored here."""


def layer2_update(station: bytes) -> bytes:
    """Return the frame about the station with this Ethernet address, 6 bytes."""
    return BROADCAST_MAC + station + len(XID).to_bytes(2, "big") + XID


def updated_station(frame: bytes) -> bytes | None:
    """Return the station that a frame announces; None if it is not a layer 2 update."""
    station = frame[6:12]
    known = layer2_update(station)
    whole = len(frame) >= len(known) and len(station) == 6 and not station[0] & 1
    if whole and frame.startswith(known[:-_WINDOW]):
        return station
    return None
