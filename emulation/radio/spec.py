"""The radio of a scenario: standard, power, propagation.  Only data, without the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from emulation.radio.airtime import Phy, Rate, ht_rates, phy_for
from emulation.radio.channel_plan import may_be_wide

NEVER: Final = 2347
"""A `RadioSpec.rts_threshold` that no frame exceeds: the default of dot11RTSThreshold."""
EnergyName = Literal["intel-5300", "esp32-s2"]
"""Names of `emulation.radio.energy.PROFILES`."""
LONGEST_AGGREGATE: Final = 65_535
"""Bytes of an A-MPDU of 802.11n (802.11-2016, 9.4.2.56.3)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Model(_Frozen):
    """A propagation model, with its names in Mininet-WiFi's `setPropagationModel`."""

    mininet_wifi: ClassVar[str]
    keywords: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Its keywords in `setPropagationModel`, with their fields here."""


class Friis(_Model):
    """Free space (Friis 1946)."""

    mininet_wifi = "friis"
    keywords = MappingProxyType({"sL": "system_loss_db"})

    model: Literal["friis"] = "friis"
    system_loss_db: float = Field(default=0.0, ge=0)


class LogDistance(_Model):
    """Path loss that grows with 10 n log10(d / d0) over free space at d0 (Rappaport, 4.9)."""

    mininet_wifi = "logDistance"
    keywords = MappingProxyType({"exp": "exponent"})

    model: Literal["log-distance"] = "log-distance"
    exponent: float = Field(default=3.0, ge=1, le=8)
    reference_distance: float = Field(default=1.0, gt=0, description="d0, metres")


class Shadowing(_Model):
    """Log-distance with a log-normal term per link, symmetric and fixed by the seed."""

    mininet_wifi = "logNormalShadowing"
    keywords = MappingProxyType({"exp": "exponent", "variance": "sigma_db"})

    model: Literal["shadowing"] = "shadowing"
    exponent: float = Field(default=3.0, ge=1, le=8)
    reference_distance: float = Field(default=1.0, gt=0, description="d0, metres")
    sigma_db: float = Field(default=4.0, ge=0, le=20)


class TwoRayGround(_Model):
    """Free space up to the cross-over distance, then h_t^2 h_r^2 / d^4 (as in ns-2)."""

    mininet_wifi = "twoRayGround"
    keywords = MappingProxyType({"antennaHeight": "antenna_height"})

    model: Literal["two-ray-ground"] = "two-ray-ground"
    antenna_height: float = Field(default=1.5, gt=0, description="metres, both ends")


class UnitDisk(_Model):
    """Every frame arrives up to `RadioSpec.range` (by default 250 m), none beyond."""

    mininet_wifi = "unitDisk"

    model: Literal["unit-disk"] = "unit-disk"
    collisions: bool = Field(default=True, description="false: frames that overlap all arrive")


Propagation = Annotated[
    Friis | LogDistance | Shadowing | TwoRayGround | UnitDisk, Field(discriminator="model")
]

PROPAGATION_MODELS: Final[
    Mapping[str, type[Friis | LogDistance | Shadowing | TwoRayGround | UnitDisk]]
] = MappingProxyType(
    {model.mininet_wifi: model for model in (TwoRayGround, Friis, LogDistance, Shadowing, UnitDisk)}
)
"""Propagation models by their names in Mininet-WiFi, the default first."""


class RadioSpec(_Frozen):
    """One radio, the same in every station of a scenario.

    With `range`, the transmit power is set so that a broadcast of 1,000 bytes at the basic rate is
    lost once in ten times at that distance; without it, `tx_power_dbm` applies.  Rates are checked
    against the standard.
    """

    standard: Literal["b", "g", "n"] = "g"
    mode: Literal["adhoc", "mesh"] = Field(
        default="adhoc",
        description="of stations without access points, if 802.11 is the kernel's (hwsim): "
        "an IBSS, or peer links of 802.11s, over one hop as well: the nodes do the routing",
    )
    frequency_mhz: float = Field(default=2412.0, ge=400, le=7125)
    range: float | None = Field(default=None, gt=0, le=100_000, description="metres")
    tx_power_dbm: float = Field(default=20.0, ge=-40, le=50)
    antenna_gain_dbi: float = Field(default=0.0, ge=-20, le=40)
    noise_figure_db: float = Field(default=7.0, ge=0, le=30)
    propagation: Propagation = LogDistance()
    carrier_sense_dbm: float | None = Field(
        default=None,
        ge=-120,
        le=-20,
        description="preamble detection; by default 3 dB below reliable reception, never above it",
    )
    sense_range: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="metres up to which a frame is sensed, instead of carrier_sense_dbm",
    )
    reception: Literal["bit-errors", "threshold"] = Field(
        default="bit-errors",
        description="threshold: as in ns-2, a frame arrives from up to `range`, unless another "
        "that is sensed overlaps it and is not weaker by the capture threshold, or began before",
    )
    capture_threshold_db: float = Field(default=10.0, ge=0, le=60)
    data_rate_mbps: float | None = Field(
        default=None, gt=0, description="of unicasts; by default the fastest that the link sustains"
    )
    basic_rate_mbps: float | None = Field(
        default=None,
        gt=0,
        description="of broadcasts, RTS, CTS and ACK; by default those of the standard",
    )
    rts_threshold: int = Field(
        default=NEVER,
        ge=0,
        le=NEVER,
        description="bytes of an 802.11 frame above which a unicast follows an RTS and a CTS",
    )
    retry_limit: int = Field(
        default=7,
        ge=0,
        le=255,
        description="transmissions of an RTS, or a unicast without one, after the first",
    )
    long_retry_limit: int = Field(
        default=3,
        ge=0,
        le=255,
        description="transmissions of a unicast with an RTS after the first",
    )
    width_mhz: Literal[20, 40] = Field(default=20, description="of 802.11n")
    streams: int = Field(default=1, ge=1, le=4, description="spatial streams, of 802.11n")
    guard_interval: Literal["long", "short"] = Field(default="long", description="of 802.11n")
    mcs: int | None = Field(
        default=None, ge=0, le=31, description="of unicasts of 802.11n, instead of data_rate_mbps"
    )
    ampdu: int = Field(
        default=LONGEST_AGGREGATE,
        ge=0,
        le=LONGEST_AGGREGATE,
        description="bytes of 802.11n's longest A-MPDU; 0: every frame on its own",
    )
    rate_control: Literal["ideal", "minstrel"] = Field(
        default="ideal",
        description="of unicasts without a fixed rate; minstrel: 802.11n learns it from losses",
    )
    queue_frames: int = Field(default=128, ge=1, le=100_000)
    queue_order: Literal["fifo", "routing-first"] = Field(
        default="fifo",
        description="routing-first: as in ns-2, frames of the routing protocol overtake all that "
        "wait, and if the queue is full, its last one is dropped",
    )
    energy: EnergyName | None = Field(
        default=None, description="whose figures the energy of stations is counted with; none: not"
    )
    battery: float | None = Field(
        default=None, gt=0, le=1e9, description="joules that each station has; none: enough"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.sense_range is not None and self.sense_range < (self.range or 0.0):
            raise ValueError(
                f"sense_range is {self.sense_range:g} m, less than range ({self.range:g} m): "
                "a station senses all that it receives"
            )
        if self.battery is not None and self.energy is None:
            raise ValueError(
                "a battery needs to know what the radio takes: add energy="
                + " or energy=".join(get_args(EnergyName))
            )
        if self.standard != "n":
            self._without_ht()
        if self.mcs is not None and self.mcs >= 8 * self.streams:
            raise ValueError(
                f"mcs: {self.mcs} has {self.mcs // 8 + 1} streams and streams is {self.streams}: "
                f"choose 0 to {8 * self.streams - 1}, or more streams"
            )
        if self.mcs is not None and self.data_rate_mbps is not None:
            raise ValueError("give mcs or data_rate, not both")
        fixed = self.mcs is not None or self.data_rate_mbps is not None
        if fixed and self.rate_control == "minstrel":
            raise ValueError("rate_control: minstrel chooses the rate: leave out mcs and data_rate")
        if self.width_mhz == 40 and not may_be_wide(self.frequency_mhz):
            raise ValueError(
                "channel_width: no channel of 40 MHz has its primary one at "
                f"{self.frequency_mhz:g} MHz: choose, for example, 2412 or 5180, or 20 MHz"
            )
        rates = [rate.mbps for rate in self.phy.rates]
        for name in ("data_rate", "basic_rate"):
            chosen = getattr(self, f"{name}_mbps")
            if chosen is not None and chosen not in rates:
                raise ValueError(
                    f"{name}: {chosen:g} Mb/s is not a rate of 802.11{self.standard}; it has "
                    + ", ".join(f"{rate:g}" for rate in rates)
                )
        return self

    def _without_ht(self) -> None:
        """Raise ValueError for settings that only 802.11n has."""
        for field, name in HT_FIELDS.items():
            value = getattr(self, field)
            if value != type(self).model_fields[field].default:
                raise ValueError(
                    f"{name}: 802.11{self.standard} does not have {value}: leave it out, or set "
                    "standard to n"
                )

    @property
    def phy(self) -> Phy:
        """Timing and rates of its standard; without a basic rate of its own."""
        ht = ht_rates(self.streams, self.width_mhz, self.guard_interval == "short")
        return phy_for(self.standard, self.frequency_mhz, ht)

    @property
    def fixed_rate(self) -> Rate | None:
        """The rate of unicasts if `data_rate_mbps` or `mcs` fixes it."""
        mbps, mcs = self.data_rate_mbps, self.mcs
        return next((rate for rate in self.phy.rates if mbps == rate.mbps or mcs == rate.mcs), None)


HT_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "width_mhz": "channel_width",
        "streams": "streams",
        "guard_interval": "guard_interval",
        "mcs": "mcs",
        "ampdu": "ampdu",
        "rate_control": "rate_control",
    }
)
"""Fields of `RadioSpec` that 802.11n alone has, with their names in `--set`."""
