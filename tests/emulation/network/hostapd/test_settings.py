"""The settings of hostapd and wpa_supplicant, and which radios they do not support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulation.network.hostapd.settings import (
    Roaming,
    SettingsError,
    hostapd_settings,
    supplicant_settings,
    supported_channel,
)
from emulation.radio.spec import RadioSpec

FOLDER = Path("/run/folder")


def point(ssid: str = "mesh", radio: RadioSpec | None = None, **options: Any) -> dict[str, str]:
    text = hostapd_settings("ap1-wlan0", ssid, radio or RadioSpec(), FOLDER, **options)
    lines = [line.partition("=") for line in text.splitlines()]
    return {name: value for name, _, value in lines}


@pytest.mark.parametrize(
    ("frequency", "channel"),
    [(2412.0, 1), (2437.0, 6), (2472.0, 13), (2484.0, 14), (5180.0, 36), (5885.0, 177)],
)
def test_channels_have_their_numbers(frequency: float, channel: int) -> None:
    assert supported_channel(frequency) == channel


@pytest.mark.parametrize("frequency", [400.0, 914.0, 2411.0, 2412.5, 2477.0, 5177.0, 6115.0])
def test_if_there_is_no_channel_the_message_says_so(frequency: float) -> None:
    with pytest.raises(SettingsError, match=f"no 802.11 channel is at {frequency:g} MHz: choose"):
        supported_channel(frequency)


def test_an_access_point_has_the_rates_of_the_standard_and_no_others() -> None:
    settings = point(radio=RadioSpec(standard="g"))
    assert (settings["hw_mode"], settings["channel"]) == ("g", "1")
    assert settings["supported_rates"] == "60 90 120 180 240 360 480 540"
    assert settings["basic_rates"] == "60 120 240"
    assert (settings["ieee80211n"], settings["wmm_enabled"]) == ("0", "0")
    settings = point(radio=RadioSpec(standard="b"))
    assert settings["hw_mode"] == "b"
    assert (settings["supported_rates"], settings["basic_rates"]) == ("10 20 55 110", "10 20")
    settings = point(radio=RadioSpec(standard="n", frequency_mhz=5180))
    assert (settings["hw_mode"], settings["ieee80211n"], settings["wmm_enabled"]) == ("a", "1", "1")


def test_802_11b_has_no_channel_at_5_ghz() -> None:
    with pytest.raises(SettingsError, match=r"802\.11b has no channel at 5180 MHz: use g"):
        point(radio=RadioSpec(standard="b", frequency_mhz=5180))


@pytest.mark.parametrize("ssid", ["mesh", 'a "b"\n#c', "ﬁeld", "x" * 32])
def test_an_ssid_of_any_characters_stays_one_line(ssid: str) -> None:
    assert bytes.fromhex(point(ssid)["ssid2"]).decode() == ssid
    text = supplicant_settings(ssid, RadioSpec(), FOLDER)
    assert f"\tssid={ssid.encode().hex()}\n" in text


@pytest.mark.parametrize("ssid", ["", "x" * 33, "ﬁ" * 11])
def test_an_ssid_of_the_wrong_length_is_refused(ssid: str) -> None:
    with pytest.raises(SettingsError, match="an SSID has 1 to 32 bytes"):
        point(ssid)
    with pytest.raises(SettingsError, match="an SSID has 1 to 32 bytes"):
        supplicant_settings(ssid, RadioSpec(), FOLDER)


def test_a_station_looks_on_one_channel_and_roams_only_if_told() -> None:
    text = supplicant_settings("mesh", RadioSpec(frequency_mhz=2437), FOLDER)
    assert "\tscan_freq=2437\n" in text
    assert "\tfreq_list=2437\n" in text
    assert "bgscan" not in text
    text = supplicant_settings("mesh", RadioSpec(), FOLDER, Roaming(-65, 1, 20))
    assert '\tbgscan="simple:1:-65:20"\n' in text
    with pytest.raises(SettingsError):
        supplicant_settings("mesh", RadioSpec(frequency_mhz=1000), FOLDER)
