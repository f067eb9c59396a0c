"""Configuration of a wireless network's medium process (`emulation.media.wireless`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from emulation.media.config import MediumConfig, ProcessConfig
from emulation.radio.spec import RadioSpec, UnitDisk
from emulation.wifi.settings import AssociationRule, WlanSettings

THRESHOLD_DBM: float = -91.0
"""Lowest level at which Mininet-WiFi's radios receive (its `noise_th`)."""


class NodeConfig(MediumConfig):
    """A node: the process whose namespace it lives in, and its position: x, y, z, metres."""

    name: str
    pid: int = Field(ge=1)
    position: tuple[float, float] | tuple[float, float, float] = (0.0, 0.0)


class WirelessConfig(ProcessConfig):
    """The whole configuration.

    `radio` has what all radios share; standard, frequency, power, gain and range are set for each
    radio.
    """

    radio: RadioSpec = RadioSpec()
    fading_db: float = Field(default=0.0, ge=0, le=20, description="standard deviation")
    threshold_dbm: float | None = Field(
        default=THRESHOLD_DBM, description="sensitivity; null: from the noise figure"
    )
    seed: int
    nodes: tuple[NodeConfig, ...] = Field(min_length=1)
    radios: tuple[WlanSettings, ...] = Field(min_length=1)
    spare: int = Field(default=0, ge=0, le=256, description="radios that may be added later")
    association: AssociationRule = AssociationRule()
    control: Path
    captures: Path | None = Field(default=None, description="folder for captures of monitors")
    mtu: int = Field(default=1500, ge=68, le=65_521)
    ipv6: bool = Field(default=True, description="leave IPv6 on in the nodes")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.radio.propagation, UnitDisk) or self.radio.sense_range is not None:
            raise ValueError(
                "radios differ in power: choose a propagation with levels, and no sense_range"
            )
        names = [node.name for node in self.nodes]
        for what, values in (
            ("node", names),
            ("interface", [radio.interface for radio in self.radios]),
            ("address", [radio.mac.lower() for radio in self.radios]),
        ):
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                raise ValueError(f"{what} {twice[0]} appears twice")
        for radio in self.radios:
            if radio.node not in names:
                raise ValueError(f"{radio.interface}: there is no node {radio.node}")
        return self
