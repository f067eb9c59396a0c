"""A scenario's radio in the terms of Mininet-WiFi and wmediumd.

Sans-I/O.  wmediumd, in its interference mode, computes the level of every link in whole decibels:

    level = transmit power + antenna gains - loss, the loss rounded down to an integer

It passes on no broadcast below -90 dBm (its CCA_THRESHOLD), and above that loses frames by a table
of rate and level, in which the slowest rates are nearly free of errors from -90 dBm.  So the range
of a scenario becomes the transmit power with which that level is reached at that distance; antenna
gains, system loss and the reference distance are part of it, and are set to zero.  The powers are
therefore not those of the scenario, but its ranges are, to a decibel.

All radios share the air in wmediumd, whatever their channels: a frame waits for those of the other
channel, but is not heard there.  Access points and their mesh are therefore on two channels.

A setting without an equivalent is refused; one with a rough equivalent only is listed in
`Settings.departures`.

Source: wmediumd of Mininet-WiFi (branch mininet-wifi): config.c (losses), wmediumd.c
(deliver_frame), wmediumd.h (NOISE_LEVEL, CCA_THRESHOLD); mn_wifi/link.py, wmediumdConnector.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from emulation.network.hostapd.settings import (
    ALWAYS_DBM,
    Roaming,
    hostapd_settings,
    supplicant_settings,
)
from emulation.radio.airtime import phy_for
from emulation.radio.channel_plan import frequency_of
from emulation.radio.links import Links
from emulation.radio.propagation import SPEED_OF_LIGHT, path_loss_db
from emulation.radio.spec import Friis, LogDistance, RadioSpec, Shadowing, TwoRayGround, UnitDisk
from emulation.scenario.radio_settings import changed_settings
from emulation.scenario.scenario import Scenario
from emulation.wifi.settings import channel_number

NETWORK: Final = "testbed"
"""SSID, or mesh id."""
HEARD_DBM: Final = -90
"""Level from which wmediumd passes a broadcast on."""
CROSSOVER: Final = 4 * math.pi / (SPEED_OF_LIGHT / 20e6 / 1000)
"""Metres up to which wmediumd's two-ray ground is free space; beyond, it has no loss at all."""
CHANNELS: Final = 11
MODES: Final = {"b": "b", "g": "g", "n": "n2"}
"""Mininet-WiFi's names of the standards at 2.4 GHz; its "n" is at 5 GHz."""

MESH_CHANNEL: Final = 6
OTHER_MESH_CHANNEL: Final = 1
"""Second choice, if the stations' channel is too close: five channels apart do not overlap."""
SSID: Final = re.compile(r"[A-Za-z0-9 ._-]+")
"""SSIDs that Mininet-WiFi's shell commands pass on unchanged."""
HOSTAPD: Final = ("supported_rates", "basic_rates", "preamble", "ieee80211n", "wmm_enabled")
"""Settings of hostapd besides those that Mininet-WiFi makes."""


class NoEqualError(ValueError):
    """A scenario that Mininet-WiFi cannot run; the message says what to do."""


@dataclass(frozen=True)
class MeshSettings:
    """Settings of access points, and of stations that look for them."""

    ssid: str
    hostapd: str
    """Further settings of hostapd, separated by commas."""
    supplicant: str
    """Settings of wpa_supplicant's network, separated by commas."""
    tx_power_dbm: int
    """Transmit power of the mesh radios."""
    link: dict[str, Any]
    """Arguments of `addLink` for the mesh, besides the class of the link."""


@dataclass(frozen=True)
class Settings:
    """Settings of a radio for Mininet-WiFi."""

    propagation: dict[str, Any]
    """Arguments of `setPropagationModel`."""
    tx_power_dbm: int
    link: dict[str, Any]
    """Arguments of `addLink`, besides the class of the link."""
    mode: str
    channel: int
    departures: tuple[str, ...] = ()
    """How this differs from the scenario, one line each."""
    mesh: MeshSettings | None = None
    """None without access points."""


def settings_of(scenario: Scenario) -> Settings:
    """Return the settings for a scenario.  Raises `NoEqualError`."""
    radio = scenario.radio
    refused = changed_settings(radio, scenario.mesh_radio)
    if refused:
        raise NoEqualError(
            f"wmediumd has no {', '.join(refused)}: leave out what sets them, or "
            "run with --backend tap"
        )
    channel = mininet_wifi_channel(radio)
    propagation, departures = model_of(radio, scenario.area)
    power = power_dbm(radio, propagation)
    link: dict[str, Any] = {
        "ssid": NETWORK,
        "mode": MODES[radio.standard],
        "channel": channel,
        "txpower": power,
    }
    if radio.mode == "adhoc":
        # The argument goes into `iw ibss join` as it is.  A fixed frequency spares every station
        # the search for others, ten seconds each.
        link["ht_cap"] = "HT20 fixed-freq" if radio.standard == "n" else "fixed-freq"
        if radio.standard != "n":
            rates = " ".join(f"{rate.mbps:g}" for rate in phy_for(radio.standard).rates)
            link["bitrates"] = f"legacy-2.4 {rates}"
    elif radio.standard == "n":
        link["ht_cap"] = "HT20"
    mode = MODES[radio.standard]
    mesh = mesh_settings_of(scenario, propagation, channel)
    return Settings(propagation, power, link, mode, channel, departures, mesh)


def mesh_settings_of(
    scenario: Scenario, propagation: dict[str, Any], channel: int
) -> MeshSettings | None:
    """Return the settings of access points; stations use `channel`.  Raises `NoEqualError`."""
    radio, mesh_radio = scenario.radio, scenario.mesh_radio
    if mesh_radio is None:
        return None
    ssids = sorted({point.ssid for point in scenario.access_points})
    if len(ssids) > 1:
        raise NoEqualError(
            f"the mininet-wifi backend has one network, not {len(ssids)} ({', '.join(ssids)}): "
            "give all access points the same ssid"
        )
    if not SSID.fullmatch(ssids[0]):
        raise NoEqualError(
            f"Mininet-WiFi takes letters, digits, spaces and . _ - in an SSID, not {ssids[0]!r}: "
            "change it, or run with --backend hwsim"
        )
    if mesh_radio.propagation != radio.propagation:
        raise NoEqualError(
            "wmediumd has one propagation model for access and mesh radios: choose the same, or "
            "run with --backend hwsim"
        )
    mesh_channel = mininet_wifi_channel(mesh_radio)
    if mesh_channel == channel:  # two media on the other backends, whatever their frequency
        mesh_channel = MESH_CHANNEL if abs(channel - MESH_CHANNEL) >= 5 else OTHER_MESH_CHANNEL
        if abs(mesh_channel - channel) < 5:
            mesh_channel = CHANNELS
    frequency = frequency_of(mesh_channel)
    power = power_dbm(mesh_radio.model_copy(update={"frequency_mhz": frequency}), propagation)
    phy = phy_for(mesh_radio.standard)
    basic = ",".join(f"{rate.mbps:g}" for rate in phy.control_rates)
    width = "HT20" if mesh_radio.standard == "n" else "NOHT"
    link = {
        "ssid": NETWORK,
        "mode": MODES[mesh_radio.standard],
        "channel": mesh_channel,
        "txpower": power,
        # It goes into `iw mesh join` as it is.
        "ht_cap": f"{width} basic-rates {basic} mcast-rate {phy.basic_rate.mbps:g}",
    }
    often = max(1, round(scenario.association.scan_interval))
    return MeshSettings(
        ssid=ssids[0],
        hostapd=hostapd_lines(ssids[0], radio),
        supplicant=supplicant_lines(ssids[0], radio, Roaming(ALWAYS_DBM, often, often)),
        tx_power_dbm=power,
        link=link,
    )


def hostapd_lines(ssid: str, radio: RadioSpec) -> str:
    """Return the settings of hostapd that Mininet-WiFi does not make, separated by commas."""
    lines = hostapd_settings("none", ssid, radio, Path()).splitlines()
    return ",".join(line for line in lines if line.partition("=")[0] in HOSTAPD)


def supplicant_lines(ssid: str, radio: RadioSpec, roaming: Roaming) -> str:
    """Return the network that wpa_supplicant looks for, its lines separated by commas."""
    lines = supplicant_settings(ssid, radio, Path(), roaming).splitlines()
    return ",".join(line.strip() for line in lines if line.startswith("\t"))


def mininet_wifi_channel(radio: RadioSpec) -> int:
    """Return the channel's number.  Raises `NoEqualError` if Mininet-WiFi does not have it."""
    channel = channel_number(radio.frequency_mhz)
    if channel is None or channel > CHANNELS:
        raise NoEqualError(
            f"the mininet-wifi backend has channels 1 to {CHANNELS} (2412 to 2462 MHz), not "
            f"{radio.frequency_mhz:g} MHz: change frequency_mhz, or run with --backend hwsim"
        )
    return channel


def model_of(
    radio: RadioSpec, area: tuple[float, float, float, float]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return arguments of `setPropagationModel`, and departures.  Raises `NoEqualError`."""
    model = radio.propagation
    match model:
        case UnitDisk():
            raise NoEqualError(
                "wmediumd has no unit-disk propagation: choose another model "
                "(--set propagation=logDistance), or --backend tap or hwsim"
            )
        case Friis():
            return {"model": "friis", "sL": 1}, ()
        case TwoRayGround():
            x0, y0, x1, y1 = area
            if math.hypot(x1 - x0, y1 - y0) >= CROSSOVER:
                raise NoEqualError(
                    f"wmediumd's two-ray ground has no loss beyond {CROSSOVER:.0f} m, and the area "
                    "is larger: choose another model (--set propagation=logDistance), or "
                    "--backend hwsim"
                )
            return {"model": "twoRayGround", "sL": 1}, (
                f"wmediumd's two-ray ground is free space up to {CROSSOVER:.0f} m",
            )
        case LogDistance() | Shadowing():
            exponent = round(model.exponent, 1)
            departures = []
            if exponent != model.exponent:
                departures.append(
                    f"wmediumd takes one decimal of the path loss exponent: {exponent:g} instead "
                    f"of {model.exponent:g}"
                )
            if isinstance(model, LogDistance):
                return {"model": "logDistance", "exp": exponent}, tuple(departures)
            departures.append(
                "Mininet-WiFi draws shadowing for a sender, not for a link, and no known version "
                "passes it to wmediumd: links have the mean loss"
            )
            arguments = {
                "model": "logNormalShadowing",
                "exp": exponent,
                "sL": 1,
                "variance": model.sigma_db,
            }
            return arguments, tuple(departures)


def power_dbm(radio: RadioSpec, propagation: dict[str, Any]) -> int:
    """Return the transmit power with which broadcasts reach as far as in the scenario."""
    return HEARD_DBM + int(loss_db(radio, propagation, reach_of(radio)))


def reach_of(radio: RadioSpec) -> float:
    """Return how far a broadcast of 1,000 bytes reaches, metres; see `RadioSpec`."""
    if radio.range is not None:
        return radio.range
    budget = Links(radio, 1, 0).budget
    grid = np.geomspace(0.1, 1e6, 100_001)
    level = budget.tx_dbm + 2 * radio.antenna_gain_dbi - path_loss_db(radio, grid)
    heard = np.flatnonzero(level >= budget.sensitivity_dbm)
    return float(grid[heard[-1]]) if len(heard) else float(grid[0])


def loss_db(radio: RadioSpec, propagation: dict[str, Any], metres: float) -> float:
    """Return the loss as wmediumd computes it, before rounding down to an integer."""
    constant = 20 * math.log10(4 * math.pi * radio.frequency_mhz * 1e6 / SPEED_OF_LIGHT)
    if "exp" in propagation:
        return float(constant + 10 * propagation["exp"] * math.log10(metres))
    return constant + 20 * math.log10(metres)
