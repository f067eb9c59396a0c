"""Configuration files of hostapd and wpa_supplicant for the radio of a scenario.

One open network (no encryption) on one channel.  Rates are only those of the scenario, so that a
"g" network has no 802.11b stations to protect; stations scan that channel only, since a scan of all
channels takes some ten seconds.

Sources: the annotated hostapd.conf and wpa_supplicant.conf of hostap 2.10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emulation.radio import channel_plan
from emulation.radio.airtime import DSSS_RATES, OFDM_BASIC, OFDM_RATES, Rate
from emulation.radio.spec import RadioSpec
from emulation.wifi.settings import MAX_SSID

BEACON_INTERVAL: Final = 100
"""Time units of 1,024 µs between beacons, as is usual for access points."""
ALWAYS_DBM: Final = -30
"""Signal of a station's access point below which it looks for a better one: nearly any."""


class SettingsError(ValueError):
    """A radio that hostapd and wpa_supplicant do not support; the message says what to change."""


@dataclass(frozen=True)
class Roaming:
    """When a station looks for another access point: `bgscan` of wpa_supplicant.

    It scans every `often` seconds while the signal is below `threshold_dbm`, else every `seldom`.
    """

    threshold_dbm: int = -70
    often: int = 2
    seldom: int = 30


def supported_channel(frequency_mhz: float) -> int:
    """Return the number of the 20 MHz channel at a frequency.  Raises `SettingsError`."""
    try:
        return channel_plan.channel_of(frequency_mhz)
    except channel_plan.ChannelError as error:
        raise SettingsError(str(error)) from None


def hostapd_settings(
    interface: str,
    ssid: str,
    radio: RadioSpec,
    control: Path,
    *,
    isolate: bool = False,
) -> str:
    """Return hostapd's configuration of one access point.

    `control` is the folder for its control socket.  With `isolate`, frames between two stations go
    up to the owner of the interface instead of being relayed by the access point itself.  Raises
    `SettingsError`.
    """
    rates, basic = _rates(radio)
    lines = {
        "interface": interface,
        "driver": "nl80211",
        "ctrl_interface": control,
        "ssid2": _ssid(ssid),
        "hw_mode": _mode(radio),
        "channel": supported_channel(radio.frequency_mhz),
        "beacon_int": BEACON_INTERVAL,
        "supported_rates": _tenths(rates),
        "basic_rates": _tenths(basic),
        "ieee80211n": int(radio.standard == "n"),
        "wmm_enabled": int(radio.standard == "n"),
        "preamble": 0,
        "auth_algs": 1,
        "ap_isolate": int(isolate),
        "ignore_broadcast_ssid": 0,
        "logger_stdout": -1,
        "logger_stdout_level": 2,
        "logger_syslog": 0,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def supplicant_settings(
    ssid: str, radio: RadioSpec, control: Path, roaming: Roaming | None = None
) -> str:
    """Return wpa_supplicant's configuration of one station.

    Without `roaming` it stays with an access point until the signal is lost.  Raises
    `SettingsError`.
    """
    supported_channel(radio.frequency_mhz)
    frequency = round(radio.frequency_mhz)
    network = [
        f"ssid={_ssid(ssid)}",
        "key_mgmt=NONE",
        f"scan_freq={frequency}",
        f"freq_list={frequency}",
    ]
    if roaming is not None:
        rule = f"simple:{roaming.often}:{roaming.threshold_dbm}:{roaming.seldom}"
        network.append(f'bgscan="{rule}"')
    lines = [f"ctrl_interface={control}", "ap_scan=1", "p2p_disabled=1", "network={"]
    return "\n".join([*lines, *[f"\t{line}" for line in network], "}"]) + "\n"


def _ssid(ssid: str) -> str:
    """Return an SSID in hexadecimal, which both programs accept for any characters."""
    name = ssid.encode()
    if not 1 <= len(name) <= MAX_SSID:
        raise SettingsError(f"an SSID has 1 to {MAX_SSID} bytes, not {len(name)}: {ssid!r}")
    return name.hex()


def _mode(radio: RadioSpec) -> str:
    if radio.frequency_mhz > 4900:
        if radio.standard == "b":
            raise SettingsError(f"802.11b has no channel at {radio.frequency_mhz:g} MHz: use g")
        return "a"
    return "b" if radio.standard == "b" else "g"


def _rates(radio: RadioSpec) -> tuple[tuple[Rate, ...], tuple[Rate, ...]]:
    if radio.standard == "b":
        return DSSS_RATES, DSSS_RATES[:2]
    return OFDM_RATES, OFDM_BASIC


def _tenths(rates: tuple[Rate, ...]) -> str:
    """Return rates as hostapd expects them, in units of 100 kb/s."""
    return " ".join(str(math.floor(10 * rate.mbps)) for rate in rates)
