"""Markers that scripts pass as `link=`, `cls=` and `wmediumd_mode=`; they have no behaviour."""

from __future__ import annotations

from typing import ClassVar, Final


class wmediumd:  # Mininet-WiFi's names, here and below
    """A medium with contention, as the medium here always is."""


class WirelessLink:
    """A link whose rate and loss depend on distance; here the medium computes them."""


class TCWirelessLink(WirelessLink):
    """The same under another name."""


class interference:
    """Frames interfere with each other, which they always do here."""


class snr:
    """Signal levels are set per link."""


class error_prob:
    """Losses are set per link."""


CELLS: Final = (wmediumd, WirelessLink, TCWirelessLink)
"""Classes of links between a station and an access point."""
WMEDIUMD_MODES: Final = (interference, snr, error_prob)


class adhoc:
    """A radio in an ad hoc network (IBSS)."""

    kind: ClassVar[str] = "adhoc"
    ssid: ClassVar[str] = "adhocNet"


class mesh:
    """A radio in an 802.11s mesh."""

    kind: ClassVar[str] = "mesh"
    ssid: ClassVar[str] = "meshNet"


class ITSLink:
    """A radio outside the context of a BSS (802.11p)."""

    kind: ClassVar[str] = "ocb"
    ssid: ClassVar[str] = ""


class _4address:
    """A station that sends 4-address frames: a wireless bridge."""


class physicalMesh:
    """A mesh over a physical wireless card."""

    refused: ClassVar[str] = "needs a physical wireless card"


class WifiDirectLink:
    """Wi-Fi Direct."""

    refused: ClassVar[str] = "Wi-Fi Direct needs wpa_supplicant over the kernel's mac80211"


class PhysicalWifiDirectLink(WifiDirectLink):
    """Wi-Fi Direct over a physical wireless card."""
