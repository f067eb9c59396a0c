"""Configuration of a medium process (`emulation.media.tap`, `emulation.media.hwsim`)."""

from __future__ import annotations

from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from capture.process import PriorityName
from emulation.errors import first_problem
from emulation.mobility.contacts import Contact
from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import RadioSpec
from emulation.radio.wire import WireSpec
from emulation.scenario.access_point import AssociationSpec

C = TypeVar("C", bound=BaseModel)

MAC = Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")


class MediumConfig(BaseModel):
    """A part of a configuration: immutable, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StationConfig(MediumConfig):
    """One station: the process whose namespace it lives in, its device, and its trajectory."""

    name: str
    pid: int = Field(ge=1)
    interface: str
    mac: str = MAC
    waypoints: tuple[Waypoint, ...] = Field(min_length=1)


class Port(MediumConfig):
    """A device: one radio of an access point."""

    interface: str
    mac: str = MAC


class AccessPointConfig(MediumConfig):
    """One access point: its two devices in the namespace of `pid`, and the host behind it."""

    name: str
    pid: int = Field(ge=1)
    access: Port
    mesh: Port
    host_mac: str = MAC
    position: tuple[float, float]


class ProcessConfig(MediumConfig):
    """What all medium processes' configurations have."""

    priority: PriorityName = "round-robin"
    parent: int | None = Field(default=None, description="process that must be alive")


class TapConfig(ProcessConfig):
    """The whole configuration.

    With access points, `radio` is for stations and access radios, `mesh_radio` for mesh radios.
    With `wire`, the stations are hosts on a switch, and `radio` is not used.
    """

    radio: RadioSpec
    seed: int
    stations: tuple[StationConfig, ...] = Field(min_length=1)
    access_points: tuple[AccessPointConfig, ...] = ()
    mesh_radio: RadioSpec | None = None
    wire: WireSpec | None = None
    contacts: tuple[Contact, ...] | None = None
    """Between stations, numbered by their place in `stations`, from 0."""
    association: AssociationSpec = AssociationSpec()
    control: Path
    losses: Path | None = Field(default=None, description="file for the log of lost frames")
    event_kinds: frozenset[int] = Field(
        default=frozenset(), description="kinds of messages that are in that log"
    )
    tick: float = Field(default=0.1, gt=0, le=60, description="seconds between position updates")
    mtu: int = Field(default=1500, ge=68, le=65_521)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.access_points) != (self.mesh_radio is not None):
            raise ValueError("access points and a mesh_radio go together: give both or neither")
        if self.wire is not None and len(self.wire.delays) != len(self.stations):
            raise ValueError("a switch needs a cable's delay for every host")
        return self

    @property
    def names(self) -> list[str]:
        """Names of the stations, then of the access points."""
        stations = [station.name for station in self.stations]
        return stations + [point.name for point in self.access_points]


class TapError(Exception):
    """A start that failed; the message is one line that says what to change."""


def load(model: type[C], path: Path) -> C:
    """Read a configuration of type `model`.  Raises `TapError`."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise TapError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise TapError(f"{path}: {first_problem(error, 'configuration')}") from None
