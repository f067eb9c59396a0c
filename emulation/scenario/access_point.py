"""Mesh access points in a scenario.

An access point is a bridge with three ports: a radio for the stations (`<name>-wlan0`), a radio for
the mesh (`<name>-mesh0`), and a wire (`<name>-eth0`) to the host on which its broker runs.  The
access radios of all access points share one channel with the stations, the mesh radios another.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

ACCESS: Final = "wlan0"
MESH: Final = "mesh0"
WIRED: Final = "eth0"
"""Ports of an access point, after its name."""
MESH_CHANNEL: Final = "mesh"
"""Name of the channel of mesh radios."""


class AccessPointSpec(BaseModel):
    """One access point: its id, which determines its addresses, its position, its broker's id."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: int = Field(ge=1, le=2**24 - 2)
    name: str = Field(
        pattern=r"^[a-z][a-z0-9]{0,8}$", description="interface <name>-mesh0 must fit"
    )
    position: tuple[float, float] = Field(description="x, y, metres")
    broker: int = Field(description="id of the node at the wired port")
    ssid: str = Field(default="mesh", min_length=1, max_length=32)

    @property
    def bssid(self) -> str:
        """Locally administered Ethernet address of the access radio."""
        return self._address(1)

    @property
    def mesh_mac(self) -> str:
        """Locally administered Ethernet address of the mesh radio."""
        return self._address(2)

    def _address(self, radio: int) -> str:
        # Nodes have 02:00 (`emulation.scenario.scenario.NodeSpec.mac`).
        octets = bytes((2, radio)) + self.id.to_bytes(4, "big")
        return ":".join(f"{octet:02x}" for octet in octets)

    @property
    def datapath_id(self) -> int:
        """OpenFlow datapath id of the bridge."""
        return self.id

    def port(self, kind: str) -> str:
        """Return the interface of a port: `ACCESS`, `MESH` or `WIRED`."""
        return f"{self.name}-{kind}"


class AssociationSpec(BaseModel):
    """When stations change their access point; see `emulation.wifi.association`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    hysteresis_db: float = Field(
        default=5.0, ge=0, le=60, description="how much stronger another access point must be"
    )
    scan_interval: float = Field(default=1.0, ge=0.05, le=60, description="seconds")
