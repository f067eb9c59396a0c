"""The nodes of a script's network: how stations, access points and wired nodes are added."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, Final

from mininet.net import Mininet
from mininet.node import Controller, DefaultController, Node
from mininet.nodelib import NAT
from mininet.util import ipAdd, macColonHex

from emulation.mn import wireless
from emulation.mn.air import ScriptAir
from emulation.mn.nodes import AP, Car, Station, coordinates
from emulation.mn.options import MOTION_OPTIONS, NODE_OPTIONS, POINT_OPTIONS
from emulation.mn.radios import Radio
from emulation.mn.session import Options, ScriptError, Session
from emulation.mn.switches import (
    LocalController,
    ScriptSwitch,
    controller_class,
    switch_options,
)
from emulation.mn.unavailable import Unavailable
from emulation.network.switches import CONTROLLER_PORT

LEAST_SCAN: Final = 1.0
"""Least seconds between two background scans; scripts may ask for 0."""


FURTHER_PARAMS: Final = MappingProxyType({"band": 20, "freq": 2.4, "ieee80211w": None})
"""Parameters that nodes have in Mininet-WiFi, and that have no effect here."""
BRIDGE_OPTIONS: Final = ("failMode", "protocols", "stp", "dpid", "inband", "reconnectms")
"""Options of an access point that Mininet's bridges take."""


class Nodes(Mininet):  # type: ignore[misc]  # Mininet has no types
    """A Mininet network to which nodes with radios can be added."""

    session: ClassVar[Session]
    """The run; set in a subclass (`emulation.mn.provided`)."""
    opened: ClassVar[list[Any]]
    """Networks that have been created and not yet stopped."""
    openvswitch: ClassVar[ScriptSwitch]
    """The run's Open vSwitch; set with the session."""
    air: ScriptAir
    station: Any
    car: Any
    accessPoint: Any
    defaults: dict[str, Any]
    autoSetPositions: bool
    client_isolation: bool

    def prepare(self) -> None:
        """Create the containers for nodes; called before Mininet's constructor."""
        self.stations: list[Station] = []
        self.cars: list[Car] = []
        self.aps: list[AP] = []
        self.aircrafts: list[Any] = []
        self.satellites: list[Any] = []
        self.sensors: list[Any] = []
        self.apsensors: list[Any] = []
        self.modems: list[Any] = []
        self._macs = 0
        self._numbered = False
        self._next_x = {"station": 1.0, "ap": 1.0}  # for `autoSetPositions`, metres

    @property
    def radio_nodes(self) -> list[Any]:
        """All nodes with radios: stations, cars, access points."""
        return [*self.stations, *self.cars, *self.aps]

    @property
    def end_nodes(self) -> list[Any]:
        """All nodes that send and receive rather than forward: hosts, stations, cars."""
        return [*self.hosts, *self.stations, *self.cars]

    @property
    def radios(self) -> list[Radio]:
        return [radio for node in self.radio_nodes for radio in node.wintfs.values()]

    def radio_named(self, name: str) -> Radio:
        for radio in self.radios:
            if radio.name == name:
                return radio
        raise ScriptError(f"there is no radio {name}")

    def get_mn_wifi_nodes(self) -> list[Any]:
        return self.radio_nodes

    def addStation(self, name: str, cls: Any = None, **params: Any) -> Station:
        station: Station = self._add_mobile(name, cls or self.station, "addStation", params)
        self.stations.append(station)
        self._bring_up(station)
        return station

    def addCar(self, name: str, cls: Any = None, **params: Any) -> Car:
        car: Car = self._add_mobile(name, cls or self.car, "addCar", params)
        self.cars.append(car)
        self._bring_up(car)
        return car

    def _add_mobile(self, name: str, cls: Any, call: str, params: dict[str, Any]) -> Any:
        self._check_name(name)
        checked = self.session.check_options(call, params, NODE_OPTIONS)
        options = checked.over(self.defaults | {"ssid": None})  # the network's default is for APs
        if self.autoSetMacs and not (call == "addCar" and checked.get("mac")):
            options["mac"] = macColonHex(self.nextIP)  # Mininet-WiFi overrides the script's
        address = self._next_address()
        options.setdefault("ip", address)
        if self.autoSetPositions and "position" not in params:
            options["position"] = f"{self._next_x['station']:g},0,0"
            self._next_x["station"] += 2
        kept = {key: checked[key] for key in (*MOTION_OPTIONS, "privateDirs") if key in checked}
        node = cls(name, self, inNamespace=bool(checked.get("inNamespace", True)), **kept)
        node.params.update(self._shown(params, ("ip", "ip6", "mac"), options))
        self._give_radios(node, options, int(checked.get("wlans", 1)), 0)
        scan = self._background_scan(checked)
        for radio in list(node.wintfs.values()):
            radio.background_scan = scan
        for extra in range(int(checked.get("nvif", 0) or 0)):
            node.add_radio(f"{name}-wlan0{extra + 1}", self.next_mac()).virtual = True
            node.apply_options(options)
        first = node.wintfs[0]
        first.setIP(str(options["ip"]), 8)
        if options.get("ip6"):
            first.setIP6(str(options["ip6"]))
        if options.get("position") is not None:
            node.position = coordinates(options["position"])
        self.nameToNode[name] = node
        return node

    def _shown(
        self, params: Mapping[str, Any], names: Sequence[str], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what `node.params` holds in Mininet-WiFi: the options given, and defaults.

        Options in `names` have the values in use.
        """
        common = ("channel", "mode", "encrypt", "passwd")
        defaults = {name: self.defaults[name] for name in common} | FURTHER_PARAMS
        return {**defaults, **params} | {name: options[name] for name in names if options.get(name)}

    def _background_scan(self, params: Mapping[str, Any]) -> dict[str, float] | None:
        """Return a station's background scan settings; None if it does not scan."""
        module = params.get("bgscan_module")
        short = params.get("s_inverval", params.get("s_interval"))
        settings = params.get("bgscan_threshold"), short, params.get("l_interval")
        if not module:
            if any(settings):
                self.session.limit(
                    "addStation(bgscan_threshold, s_inverval, l_interval)",
                    "background scans need bgscan_module='simple'",
                )
            return None
        if module != "simple":
            self.session.limit(f"addStation(bgscan_module={module!r})", "scans follow 'simple'")
        try:
            numbers = [float(setting or 0) for setting in settings]
        except (TypeError, ValueError):
            numbers = [1.0]
        if numbers[0] > 0 or min(numbers[1:], default=-1) < 0:
            raise ScriptError(
                "addStation: give bgscan_threshold in dBm, s_inverval and l_interval in seconds"
            )
        return {
            "threshold_dbm": numbers[0],
            "short": max(numbers[1], LEAST_SCAN),
            "long": max(numbers[2], LEAST_SCAN),
        }

    def addAccessPoint(self, name: str, cls: Any = None, **params: Any) -> AP:
        self._check_name(name)
        checked = self.session.check_options("addAccessPoint", params, POINT_OPTIONS)
        options = checked.over(self.defaults)
        datapath = checked.get("datapath", "user")
        if datapath != "user":
            self.session.limit(
                f"addAccessPoint(datapath={datapath!r})",
                "Open vSwitch runs with its user-space datapath here",
            )
        if self.autoSetMacs:
            options["mac"] = macColonHex(self.nextIP)  # Mininet-WiFi takes a station's
            self.nextIP += 1
        if self.autoSetPositions and "position" not in params:
            options["position"] = f"{self._next_x['ap']:g},50,0"
            self._next_x["ap"] += 100
        self.openvswitch.start()
        kind = cls or self.accessPoint
        if isinstance(kind, Unavailable):
            raise kind.error()
        if not (isinstance(kind, type) and issubclass(kind, AP)):
            raise ScriptError(f"addAccessPoint(cls={kind!r}): it must be an access point class")
        limit = getattr(kind, "limit", None)
        if limit:
            self.session.limit(f"addAccessPoint({name!r}, cls={kind.__name__})", limit)
        bridge = {key: checked[key] for key in BRIDGE_OPTIONS if key in checked}
        alone = bool(checked.get("inNamespace"))
        if alone:
            self.session.limit(
                f"addAccessPoint({name!r}, inNamespace=True)",
                "it has no bridge: its radios are interfaces in its own namespace",
            )
        port = checked.get("listenPort", self.listenPort)
        point = kind(name, self, inNamespace=alone, listenPort=port, **bridge)
        if self.listenPort:
            self.listenPort += 1
        names = wireless.names_of(options.get("ssid"))
        self._give_radios(point, options, int(checked.get("wlans", 1)), 1)
        for radio in point.wintfs.values():
            radio.kind = "master"
            radio.ssid = names[min(radio.id, len(names) - 1)]
            radio.wps = str(params.get("wps_state") or 0) != "0"
            radio.isolate = bool(checked.get("client_isolation", self.client_isolation))
        self._add_virtual(point, options)
        point.params.update(self._shown(params, ("ssid", "ip", "ip6"), options))
        if alone:
            point.own_addresses_to(point.wintfs[0])
        if options.get("position") is not None:
            point.position = coordinates(options["position"])
        self.nameToNode[name] = point
        self.aps.append(point)
        self._bring_up(point)
        return point

    def _bring_up(self, node: Any) -> None:
        """If the network is running, add a node's radios to the medium, and bring them up."""
        if not self.air.running:
            return
        used = len([radio for radio in self.radios if not radio.virtual]) - len(node.wintfs)
        for number, radio in enumerate(node.wintfs.values(), start=used):
            radio.fit_power()
            if not (radio.has_own_mac or radio.virtual):
                radio.mac = hwsim_mac(number)
        wireless.give_positions(self)
        wireless.borrow_passphrases(self)
        try:
            self.air.add(node)
        except ScriptError:
            for group in (self.stations, self.cars, self.aps):
                if node in group:
                    group.remove(node)
            del self.nameToNode[node.name]
            node.terminate()
            raise
        wireless.configure_node(self, node)
        self.recording.added(node)

    def _add_virtual(self, point: AP, options: Mapping[str, Any]) -> None:
        """Add an interface for each further name (`vssids`) of an access point."""
        names = wireless.names_of(options.get("vssids"))
        first = point.wintfs[0]
        if not any(names):
            return
        for name in names:
            extra = point.add_radio(f"{first.name}-{len(first.vssid) + 1}", self.next_mac())
            extra.take_after(first)
            extra.virtual = True
            extra.ssid = name
            first.vssid.append(name)

    def _give_radios(self, node: Any, options: Options, count: int, base: int) -> None:
        own_mac = options.get("mac")
        if own_mac and not re.fullmatch("[0-9a-f]{1,2}(:[0-9a-f]{1,2}){5}", str(own_mac).lower()):
            raise ScriptError(
                f"{node.name}: mac={own_mac!r} is not an Ethernet address: give 02:00:00:00:00:01"
            )
        for number in range(count):
            mac = _whole(str(own_mac)) if own_mac and number == 0 else self.next_mac()
            radio = node.add_radio(f"{node.name}-wlan{number + base}", mac)
            radio.has_own_mac = bool(own_mac) and number == 0
        node.apply_options(options)

    def check_unbuilt(self, call: str) -> None:
        """Raise `ScriptError` if the medium, which creates all radios at once, is running."""
        if self.air.running:
            raise ScriptError(f"{call}: radios must be added before the network is built")

    def _check_name(self, name: str, interface: str = "-wlan0") -> None:
        if name in self.nameToNode:
            raise ScriptError(f"a node named {name} exists already")
        if any(name in net.nameToNode for net in self.opened if net is not self):
            raise ScriptError(
                f"another network has a node named {name}: call its stop(), or use another name"
            )
        longest = 15 - len(interface)
        if not 0 < len(name.encode()) <= longest:
            raise ScriptError(f"{name!r} is not a node name: use 1 to {longest} characters")

    def number_radios(self) -> None:
        """Give radios the addresses that mac80211_hwsim gives them: stations first, then the rest.

        Radios whose address the script sets keep it, but take a number.  Those with a range get the
        power for it.  A second call changes nothing.
        """
        if self._numbered:
            return
        self._numbered = True
        for radio in self.radios:
            radio.fit_power()
        radios = [radio for radio in self.radios if not radio.virtual]
        taken = {radio.mac.lower() for radio in radios if radio.has_own_mac}
        for number, radio in enumerate(radios):
            mac = hwsim_mac(number)
            if not radio.has_own_mac and mac not in taken:
                radio.mac = mac

    def next_mac(self) -> str:
        """Return an address that `number_radios` never assigns: its last byte is not 0."""
        self._macs += 1 + ((self._macs + 1) % 256 == 0)
        return f"02:00:00:00:{self._macs >> 8:02x}:{self._macs & 255:02x}"

    def _next_address(self) -> str:
        address = ipAdd(self.nextIP, ipBaseNum=self.ipBaseNum, prefixLen=self.prefixLen)
        self.nextIP += 1
        return f"{address}/{self.prefixLen}"

    def addHost(self, name: str, cls: Any = None, **params: Any) -> Node:
        self._check_name(name, "-eth0")
        return super().addHost(name, cls=cls, **params)

    def addSwitch(self, name: str, cls: Any = None, **params: Any) -> Node:
        """Add a wired switch: Open vSwitch, with the user-space datapath."""
        self.openvswitch.start()
        chosen = cls or self.switch
        return super().addSwitch(name, cls=cls, **switch_options(chosen, params))

    def addController(self, name: Any = "c0", controller: Any = None, **params: Any) -> Any:
        if isinstance(name, Controller):
            return super().addController(name, controller, **params)
        chosen = controller or params.pop("cls", None) or self.controller or DefaultController
        if chosen is DefaultController:
            chosen = Controller
        fitting = controller_class(chosen, self.session, name)
        if isinstance(fitting, type) and issubclass(fitting, LocalController):
            others = {
                other.port for net in self.opened if net is not self for other in net.controllers
            }
            params.setdefault("port", next(n for n in count(CONTROLLER_PORT) if n not in others))
        return super().addController(name, fitting, **params)

    def addNAT(
        self,
        name: str = "nat0",
        connect: Any = True,
        inNamespace: bool = False,
        linkTo: str | None = None,
        **params: Any,
    ) -> Any:
        """Add a gateway, and report that nothing lies behind it."""
        self.session.limit("addNAT", "the script's network is isolated and has no way out")
        nat = self.addHost(name, cls=NAT, inNamespace=inNamespace, subnet=self.ipBase, **params)
        if connect:
            points = self.switches + self.aps
            target = self.nameToNode.get(linkTo) if linkTo else None
            if isinstance(connect, Node):
                target = connect
            if target is None:
                if not points:
                    raise ScriptError("addNAT: there is no switch or access point to link to")
                target = points[0]
            self.addLink(nat, target)
            gateway = str(nat.params["ip"]).partition("/")[0]
            for node in self.end_nodes:
                if node.inNamespace:
                    node.params["defaultRoute"] = f"via {gateway}"
                    if self.built:
                        node.setDefaultRoute(f"via {gateway}")
        return nat


def hwsim_mac(number: int) -> str:
    """Return the address that mac80211_hwsim gives the radio with this number."""
    return f"02:00:00:{number >> 8:02x}:{number & 255:02x}:00"


def _whole(mac: str) -> str:
    """Return an Ethernet address with two digits for each byte, as `ip link` reads it."""
    return ":".join(f"{int(octet, 16):02x}" for octet in mac.split(":"))
