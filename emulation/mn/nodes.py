"""Nodes of a script: stations, cars and access points, with Mininet-WiFi's attributes.

They are Mininet nodes (a shell in a network namespace); access points are Open vSwitch bridges with
the user-space datapath, in the script's own network namespace (in Mininet-WiFi: in the root
namespace).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from mininet.node import Node, OVSSwitch

from emulation.mn.options import TC_OPTIONS
from emulation.mn.radios import Radio
from emulation.mn.session import ScriptError
from emulation.mobility import base

RADIO_OPTIONS: Final = (
    *("ssid", "mode", "channel", "txpower", "antennaGain", "antennaHeight"),
    *("encrypt", "passwd", "range"),
)
"""Options of a node that apply to its radios: one value for all, or a list with one each."""


def coordinates(position: Any) -> tuple[float, float, float]:
    """Return the metres of a position, as `base.coordinates` does.  Raises `ScriptError`."""
    try:
        return base.coordinates(position)
    except ValueError as error:
        raise ScriptError(str(error)) from None


def _not_drawn(call: str) -> Callable[..., None]:
    """Return a method that would only change Mininet-WiFi's window: here it reports a limit."""

    def method(self: RadioNode, *_arguments: Any, **_options: Any) -> None:
        self.net.session.limit(call, "there is no window; the report draws nodes its own way")

    method.__doc__ = "Report that nothing is drawn while the script runs."
    return method


class RadioNode:
    """Behaviour that stations and access points share; mixed into a Mininet node."""

    net: Any
    """The network, `emulation.mn.network.Mininet_wifi`."""
    name: str
    params: dict[str, Any]
    wintfs: dict[int, Radio]
    position: tuple[float, float, float]
    """Metres; unset until known, as in Mininet-WiFi."""

    def add_radio(self, name: str, mac: str) -> Radio:
        radio = Radio(name, self, len(self.wintfs), mac)
        self.wintfs[radio.id] = radio
        self.params.setdefault("wlan", []).append(name)
        return radio

    def apply_options(self, options: Mapping[str, Any]) -> None:
        for radio in self.wintfs.values():
            for name in RADIO_OPTIONS:
                value = options.get(name)
                if value is None:
                    continue
                setting = _share(value, radio.id)
                if name == "range":
                    radio.wanted_range = float(int(float(setting))) or None
                else:
                    numbers = ("txpower", "antennaGain", "antennaHeight")
                    setattr(radio, name, float(setting) if name in numbers else str(setting))

    # -- Mininet-WiFi's methods ------------------------------------------------------------------

    def getNameToWintf(self, intf: str | Radio | int | None = None) -> Radio:
        """Return a radio by name; the first by default."""
        if isinstance(intf, Radio):
            return intf
        if intf is None or intf in self.wintfs:
            return self.wintfs[intf or 0]
        for radio in self.wintfs.values():
            if radio.name == intf:
                return radio
        known = ", ".join(radio.name for radio in self.wintfs.values())
        raise ScriptError(f"{self.name} has no radio {intf!r}; it has {known}")

    def get_wlan(self, intf: str) -> int:
        return self.getNameToWintf(intf).id

    def setPosition(self, pos: Any) -> None:
        """Put it at 'x,y,z', metres."""
        self.net.set_position(self, coordinates(pos))

    def getxyz(self) -> tuple[float, float, float]:
        """Return its position, metres."""
        return self.position

    def get_distance_to(self, dst: RadioNode) -> float:
        """Return the distance to another node, metres, to the centimetre."""
        return round(math.dist(self.position, dst.position), 2)

    def setRange(self, range: float, intf: Any = None) -> None:
        """Set the transmit power so that it reaches this far, metres."""
        self.getNameToWintf(intf).setRange(range)

    def setTxPower(self, txpower: float, intf: Any = None) -> None:
        """Set the transmit power, dBm."""
        self.getNameToWintf(intf).setTxPower(txpower)

    def setAntennaGain(self, gain: float, intf: Any = None) -> None:
        """Set the antenna's gain, dBi."""
        self.getNameToWintf(intf).setAntennaGain(gain)

    def setAntennaHeight(self, height: float, intf: Any = None) -> None:
        """Set the antenna's height, metres."""
        self.getNameToWintf(intf).setAntennaHeight(height)

    def getAntennaHeight(self, intf: Any = None) -> float:
        """Return the antenna's height, metres."""
        return self.getNameToWintf(intf).getAntennaHeight()

    def get_txpower(self, intf: Any = None) -> float:
        """Return the transmit power, dBm."""
        radio = self.getNameToWintf(intf)
        return float(radio.state.get("tx_power_dbm", radio.txpower))

    def setChannel(self, channel: int | str, intf: Any = None) -> None:
        self.getNameToWintf(intf).setChannel(channel)

    def setMode(self, mode: str, intf: Any = None) -> None:
        """Change the standard."""
        self.getNameToWintf(intf).setMode(mode)

    def setTC(self, intf: Any = None, **options: Any) -> None:
        """Limit the link to its access point, as `Radio.config_tc` does."""
        checked = self.net.session.check_options("setTC", options, TC_OPTIONS, closed=True)
        self.getNameToWintf(intf).config_tc(**checked)

    def setMediumId(self, medium_id: int, intf: Any = None) -> None:
        """Put a radio on a medium; all radios by default."""
        for radio in [self.getNameToWintf(intf)] if intf else list(self.wintfs.values()):
            radio.setMediumId(medium_id)

    def setManagedMode(self, intf: Any = None) -> None:
        """Make a radio that of a station."""
        self.getNameToWintf(intf).setManagedMode()

    def setMasterMode(self, intf: Any = None, **params: Any) -> None:
        """Make a radio that of an access point."""
        self.getNameToWintf(intf).setMasterMode(**params)

    def setAdhocMode(self, intf: Any = None, **params: Any) -> None:
        """Make a radio a member of an ad hoc network."""
        self.getNameToWintf(intf).setAdhocMode(**params)

    def setMeshMode(self, intf: Any = None, **params: Any) -> None:
        """Make a radio a member of a mesh."""
        self.getNameToWintf(intf).setMeshMode(**params)

    def setOCBMode(self, intf: Any = None, **params: Any) -> None:
        """Let a radio send outside the context of a BSS."""
        self.getNameToWintf(intf).setOCBMode(**params)

    def setAssociation(self, ap: RadioNode, intf: Any = None, ap_intf: Any = None) -> None:
        """Associate a radio with an access point."""
        self.getNameToWintf(intf).associate(ap.getNameToWintf(ap_intf))

    def roam(self, bssid: str, intf: Any = None) -> None:
        """Let a radio roam to the access point with this address."""
        self.getNameToWintf(intf).roam(bssid)

    def setMaxVelocity(self, v: float) -> None:
        """Set the node's maximum speed in mobility models, metres a second."""
        self.params["max_v"] = float(v)

    def setMinVelocity(self, v: float) -> None:
        """Set the node's minimum speed in mobility models, metres a second."""
        self.params["min_v"] = float(v)

    def setIP6(self, ip: str, prefixLen: int = 64, intf: Any = None, **params: Any) -> Any:
        """Add an IPv6 address to a radio."""
        self.net.session.check_options("setIP6", params, {})
        return self.getNameToWintf(intf).setIP6(ip, prefixLen)

    def show(self) -> None:
        """Bring its radios up again."""
        self._bring(up=True)

    def stop_(self) -> None:
        """Bring its radios down, as if its hostapd had ended."""
        self._bring(up=False)

    def start_(self) -> None:
        """Bring its radios up again."""
        self._bring(up=True)

    def hide(self) -> None:
        """Bring its radios down."""
        self._bring(up=False)
        self.showNode(show=False)

    def _bring(self, *, up: bool) -> None:
        """Bring its radios up or down, once the network is built."""
        if not self.net.air.running:
            self.net.overrides.append(lambda: self._bring(up=up))
            return
        for radio in self.wintfs.values():
            if up:
                radio.ipLink("up")
            radio.change(up=up)
            if not up:
                radio.ipLink("down")

    def showNode(self, show: bool = True) -> None:
        """Report that hidden nodes are drawn all the same."""
        if not show:
            self.net.session.limit("showNode(False)", "the report draws all nodes")

    set_text = _not_drawn("set_text")
    set_text_pos = _not_drawn("set_text_pos")
    set_circle_center = _not_drawn("set_circle_center")
    set_circle_radius = _not_drawn("set_circle_radius")
    update_graph = _not_drawn("update_graph")

    def set_circle_color(self, color: str) -> None:
        """Report that the report has its own colours."""
        self.net.session.limit(f"set_circle_color({color!r})", "the report has its own colours")


def _share(value: Any, number: int) -> Any:
    """Return a radio's part of an option: an item of a list or of a comma-separated string."""
    parts = value.split(",") if isinstance(value, str) and "," in value else value
    if isinstance(parts, list | tuple):
        return parts[min(number, len(parts) - 1)]
    return parts


class Station(RadioNode, Node):  # type: ignore[misc]  # Mininet has no types
    """A station: a shell in a network namespace, with radios."""

    def __init__(self, name: str, net: Any, inNamespace: bool = True, **params: Any) -> None:
        self.net = net
        self.wintfs = {}
        super().__init__(name, inNamespace=inNamespace, **params)


class Car(Station):
    """A vehicle: a station under another name."""


class AP(RadioNode, OVSSwitch):  # type: ignore[misc]
    """An access point: a bridge of Open vSwitch, with radios among its ports."""

    kind: ClassVar[str] = "OVSAP"

    def __init__(self, name: str, net: Any, dpid: str | None = None, **params: Any) -> None:
        self.net = net
        self.wintfs = {}
        params["datapath"] = "user"
        number = re.search(r"\d+", name)
        if number is None and dpid is None and not params.get("inNamespace"):
            raise ScriptError(f"{name}: it has no number, so give its dpid, or call it ap1")
        self.number = int(number.group()) if number else 1
        super().__init__(name, dpid=dpid or f"1{self.number:015x}", **params)

    @classmethod
    def setup(cls) -> None:
        """Do nothing: the run has its own Open vSwitch."""

    @classmethod
    def isOldOVS(cls) -> bool:
        """Return False: any version of Open vSwitch can do what is needed here."""
        return False

    def start(self, controllers: Any) -> None:
        """Make the bridge with its ports, and connect it to the controllers."""
        self.net.started(self)
        if self.inNamespace:
            return  # no bridge: its radios are interfaces in its own namespace
        super().start(controllers)
        for name, length in (("ip", 8), ("ip6", 64)):
            if self.params.get(name):
                address = str(self.params[name])
                whole = address if "/" in address else f"{address}/{length}"
                self.cmd(f"ip addr replace {whole} dev {self.name}; ip link set {self.name} up")

    def own_addresses_to(self, radio: Radio) -> None:
        """Give a radio the addresses that the bridge would have, as there is no bridge."""
        if self.params.get("ip"):
            radio.setIP(str(self.params["ip"]), 8)
        if self.params.get("ip6"):
            radio.setIP6(str(self.params["ip6"]), 64)

    def IP(self, intf: Any = None) -> str | None:
        """Return its own address, on its bridge; None if the script sets none."""
        address = self.params.get("ip")
        return str(address).partition("/")[0] if address else None

    def defaultIntf(self) -> Radio:
        """Return its first radio: port 0 is the loopback device."""
        return self.wintfs[0]

    def stop(self, deleteIntfs: bool = False) -> None:
        """Remove the bridge; its radios stay."""
        if self.inNamespace:
            return
        super().stop(deleteIntfs=False)

    @classmethod
    def batchShutdown(cls, switches: Any, run: Any = None) -> list[Any]:
        """Return no switches: none are shut down in batches."""
        return []
