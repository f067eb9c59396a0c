"""`mn_wifi.topo`: Mininet's topologies with stations and access points."""

from __future__ import annotations

from typing import Any

from mininet.topo import LinearTopo, SingleSwitchTopo
from mininet.topo import Topo as WiredTopo


class Topo(WiredTopo):  # type: ignore[misc]  # Mininet has no types
    """A topology; override `build` and add nodes and links there."""

    def addStation(self, name: str, **opts: Any) -> str:
        return str(self.addNode(name, isStation=True, **opts))

    def addAccessPoint(self, name: str, **opts: Any) -> str:
        return str(self.addNode(name, isAP=True, **opts))

    def addPort(
        self, src: str, dst: str, sport: int | None = None, dport: int | None = None
    ) -> tuple[int | None, int | None]:
        """Return the ports of a link; a node with radios picks the next one itself (None).

        Its radios take ports that a topology does not know of: a wire with such a number would
        replace a radio.  But a station's first links to access points use its radios in turn.
        """
        one, other = self._port(src, dst, sport), self._port(dst, src, dport)
        self.ports[src][len(self.ports[src]) if one is None else one] = dst, other
        self.ports[dst][len(self.ports[dst]) if other is None else other] = src, one
        return one, other

    def _port(self, name: str, peer: str, port: int | None) -> int | None:
        used, info = self.ports.setdefault(name, {}), self.nodeInfo(name)
        if port is not None or info.get("isAP"):
            return port
        if info.get("isStation"):
            free = self.nodeInfo(peer).get("isAP") and len(used) < int(info.get("wlans", 1))
            return len(used) if free else None
        return len(used) + bool(info.get("isSwitch"))

    def stations(self, sort: bool = True) -> list[str]:
        return [name for name in self.nodes(sort) if self.nodeInfo(name).get("isStation")]

    def aps(self, sort: bool = True) -> list[str]:
        """Return the names of the access points."""
        return [name for name in self.nodes(sort) if self.nodeInfo(name).get("isAP")]

    def hosts(self, sort: bool = True) -> list[str]:
        """Return the names of the wired hosts."""
        wireless = {*self.stations(), *self.aps()}
        return [name for name in super().hosts(sort) if name not in wireless]


class SingleAPTopo(Topo):
    """One access point with `k` stations."""

    def build(self, k: int = 2, **_opts: Any) -> None:
        """Add them."""
        self.addAccessPoint("ap1")
        for number in range(1, k + 1):
            self.addLink(self.addStation(f"sta{number}"), "ap1")


class MinimalWirelessTopo(SingleAPTopo):
    """One access point with two stations."""

    def build(self, k: int = 2, **_opts: Any) -> None:
        """Add them: always two stations."""
        super().build(k=2)


class LinearWirelessTopo(Topo):
    """`k` access points in a row, with `n` stations each."""

    def build(self, k: int = 2, n: int = 1, **_opts: Any) -> None:
        """Add them."""
        last = None
        for number in range(1, k + 1):
            point = self.addAccessPoint(f"ap{number}", ssid=f"ssid_ap{number}")
            for member in range(1, n + 1):
                name = f"sta{number}" if n == 1 else f"sta{member}ap{number}"
                self.addLink(self.addStation(name), point)
            if last is not None:
                self.addLink(point, last)
            last = point


__all__ = [  # noqa: RUF022  # Mininet's first
    "LinearTopo",
    "SingleSwitchTopo",
    "LinearWirelessTopo",
    "MinimalWirelessTopo",
    "SingleAPTopo",
    "Topo",
]
