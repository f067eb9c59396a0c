"""The settings of a wireless network: its radios and the association rule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from emulation.radio.airtime import Phy, phy_for
from emulation.radio.channel_plan import ChannelError, channel_of, frequency_of

Mode = Literal["managed", "wds", "master", "adhoc", "mesh", "ocb"]
"""A station, one that forwards for others (4 addresses), an access point, or a radio of an ad hoc
cell, of a mesh, or outside the context of a BSS."""
Standard = Literal["a", "b", "g", "n"]
Policy = Literal["sticky", "ssf", "llf"]
STATION_MODES: Final = ("managed", "wds")
_PHY_OF: Final[Mapping[Standard, Literal["b", "g", "n"]]] = MappingProxyType(
    {"a": "g", "b": "b", "g": "g", "n": "n"}
)
MAX_SSID: Final = 32
"""Bytes (802.11-2016, 9.4.2.2)."""

MAC = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BackgroundScan(_Frozen):
    """When a station looks for a better access point (wpa_supplicant's `bgscan` simple)."""

    threshold_dbm: float = Field(default=-60.0, ge=-120, le=0)
    short: float = Field(default=5.0, ge=0.1, le=86_400, description="seconds, below the threshold")
    long: float = Field(default=30.0, ge=0.1, le=86_400, description="seconds, above it")


class WlanSettings(_Frozen):
    """One radio of the node `node`; `interface` and `mac` are its own in the whole network."""

    node: str
    interface: str = Field(min_length=1, max_length=15)
    mac: MAC
    mode: Mode = "managed"
    standard: Standard = "g"
    channel: int | None = Field(default=None, description="1 if no frequency_mhz is given either")
    frequency_mhz: float | None = Field(default=None, ge=400, le=7125)
    tx_power_dbm: float = Field(default=14.0, ge=-100, le=100)
    antenna_gain_dbi: float = Field(default=5.0, ge=-20, le=40)
    range: float | None = Field(
        default=None, gt=0, le=100_000, description="metres, instead of tx_power_dbm"
    )
    ssid: str = Field(default="", max_length=MAX_SSID)
    security: Literal["open", "wep", "wpa", "wpa2", "wpa3"] = "open"
    passphrase: str = Field(default="", description="compared; nothing is encrypted")
    wps: bool = Field(default=False, description="an access point gives its passphrase by WPS")
    isolate: bool = Field(default=False, description="an access point does not relay")
    medium_id: int = Field(default=0, ge=0)
    bitrates: tuple[float, ...] = Field(
        default=(), description="Mb/s allowed for unicasts; empty: all of the standard"
    )
    background_scan: BackgroundScan | None = Field(
        default=None, description="of a station; without it, it stays with its access point"
    )
    reach: float | None = Field(
        default=None, ge=0, description="metres; of an access point, if stations join by range"
    )
    access_point: str | None = Field(
        default=None, description="interface or node: the only one that a station joins"
    )

    @model_validator(mode="after")
    def _on_a_channel(self) -> Self:
        if self.channel is not None and self.frequency_mhz is not None:
            raise ValueError("give a channel or a frequency_mhz, not both")
        try:
            if self.channel is not None:
                frequency_of(self.channel)
        except ChannelError as error:
            raise ValueError(str(error)) from None
        there = {rate.mbps for rate in self.phy.rates}
        if self.bitrates and not there.intersection(self.bitrates):
            known = ", ".join(f"{mbps:g}" for mbps in sorted(there))
            raise ValueError(f"bitrates: 802.11{self.standard} has none of these; it has {known}")
        if self.standard == "b" and self.frequency > 4900:
            raise ValueError(f"802.11b has no channel at {self.frequency:g} MHz")
        return self

    @property
    def phy(self) -> Phy:
        """Timing and rates of its standard at its frequency."""
        return phy_for(_PHY_OF[self.standard], self.frequency)

    @property
    def frequency(self) -> float:
        """Centre frequency of the channel, MHz."""
        if self.frequency_mhz is not None:
            return self.frequency_mhz
        if self.channel is not None:
            return frequency_of(self.channel)
        return frequency_of(36 if self.standard == "a" else 1)


class AssociationRule(_Frozen):
    """When stations change their access point; see `emulation.wifi.association`."""

    policy: Policy = "sticky"
    by_range: bool = Field(
        default=False,
        description="stations join within the access point's range, whatever their own range is",
    )
    hysteresis_db: float = Field(
        default=0.1, ge=0, le=60, description="ssf: how much stronger another access point must be"
    )
    scan_interval: float = Field(default=0.1, ge=0.01, le=60, description="seconds")


def channel_number(frequency_mhz: float) -> int | None:
    """Return the number of a channel; None if it has none."""
    try:
        return channel_of(frequency_mhz)
    except ChannelError:
        return None
