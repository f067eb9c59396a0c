"""The package `mn_wifi` that a script finds when it runs under `mn`, and nowhere else.

It is made in memory: every module holds names of ours, some of them bound to the run.  What is not
there says so: a script that imports it ends with one line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final

from mininet.net import Mininet

from emulation.mn import cli, links, manet, nodes, radios, replaying, topo
from emulation.mn.network import Mininet_wifi
from emulation.mn.session import ScriptError, Session
from emulation.mn.unavailable import MODULES, NAMES, unavailable

NAME: Final = "mn_wifi"
NO_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sixLoWPAN": "IEEE 802.15.4 radios need the kernel's mac802154_hwsim",
        "wwan": "WWAN modems need the kernel's wwan_hwsim",
        "btvirt": "Bluetooth needs the kernel's btvirt",
        "bmv2": "P4 switches need BMv2 (simple_switch)",
        "aviation": "aircraft positions need a live service on the Internet",
    }
)
"""Modules that there are not, and why: their import ends a script."""


class OVSBridgeAP(nodes.AP):
    """An access point whose bridge learns by itself."""

    def __init__(self, name: str, net: Any, **params: Any) -> None:
        params["failMode"] = "standalone"
        super().__init__(name, net, **params)


class UserAP(nodes.AP):
    """An access point of another switch in user space, which is Open vSwitch here."""

    limit = "it is a bridge of Open vSwitch, which has no dpctl"


class Cleanup:
    """Nothing: a script's namespaces, medium and Open vSwitch are its own, and new."""

    @classmethod
    def cleanup_wifi(cls) -> None:
        """Find nothing to clean."""


def modules(session: Session, opened: list[Any]) -> dict[str, ModuleType]:
    """Return the modules by name; networks that are made are put into `opened`."""
    bound = type("Mininet_wifi", (Mininet_wifi,), {"session": session, "opened": opened})
    controlled = type("MininetWithControlWNet", (bound,), {})

    def telemetry(**options: Any) -> None:
        """Record: `telemetry` outside a network.  Raises `ScriptError` if there is none yet."""
        if not opened:
            raise ScriptError("telemetry: there is no network yet: call it after Mininet_wifi()")
        for net in opened:
            net.telemetry(**options)

    kinds: dict[str, Any] = {
        **dict.fromkeys(("AP", "OVSAP", "OVSKernelAP", "OVSSwitchAP"), nodes.AP),
        **{"Station": nodes.Station, "Car": nodes.Car, "Node_wifi": nodes.RadioNode},
        **{"UserAP": UserAP, "OVSBridgeAP": OVSBridgeAP},
    }
    contents: dict[str, dict[str, Any]] = {
        "": {},
        "net": {"Mininet_wifi": bound, "Mininet": bound, "MininetWithControlWNet": controlled}
        | kinds,
        "cli": {"CLI": cli.CLI, "CLI_wifi": cli.CLI},
        "node": kinds,
        "link": {
            name: getattr(links, name)
            for name in (
                *("wmediumd", "WirelessLink", "TCWirelessLink", "adhoc", "mesh", "ITSLink"),
                *("_4address", "physicalMesh", "WifiDirectLink", "PhysicalWifiDirectLink"),
            )
        }
        | {"IntfWireless": radios.Radio, "TCLinkWireless": links.TCWirelessLink}
        | {"wifiDirectLink": links.WifiDirectLink},
        "wmediumdConnector": {
            name: getattr(links, name) for name in ("interference", "snr", "error_prob")
        },
        "manetRoutingProtocols": {
            name: type(name, (getattr(manet, name),), {"session": session})
            for name in ("batman_adv", "aodv", "batmand", "olsrd", "olsrd2", "babel")
        },
        "replaying": {
            name: getattr(replaying, name)
            for name in (
                *("ReplayingMobility", "ReplayingBandwidth", "ReplayingNetworkConditions"),
                "ReplayingRSSI",
            )
        }
        | {
            "replayingBandwidth": replaying.ReplayingBandwidth,
            "replayingNetworkConditions": replaying.ReplayingNetworkConditions,
            "replayingRSSI": replaying.ReplayingRSSI,
        },
        "telemetry": {"telemetry": telemetry, "run_telemetry": telemetry},
        "clean": {"Cleanup": Cleanup, "cleanup_wifi": Cleanup.cleanup_wifi},
        "topo": {name: getattr(topo, name) for name in topo.__all__},
        "sumo": {},
        "sumo.runner": {"sumo": _sumo},
        **{name: {} for name in MODULES},
    }
    for name, reasons in NAMES.items():
        for each, reason in reasons.items():
            contents[name][each] = unavailable(f"{NAME}.{name}", each, reason)
    made: dict[str, ModuleType] = {}
    for name, names in contents.items():
        whole = f"{NAME}.{name}" if name else NAME
        module: ModuleType = Provided(whole)
        vars(module).update(names)
        if name in ("", "sumo"):
            module.__path__ = []
        made[whole] = module
    for whole, module in made.items():
        parent, _, last = whole.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    return made


class Provided(ModuleType):
    """A module of ours."""

    def __getattr__(self, name: str) -> Any:
        """Return the placeholder of a name, if there is none of this module that can be used."""
        reason = MODULES.get(self.__name__.removeprefix(f"{NAME}."))
        if reason is None or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no {name!r}")
        return unavailable(self.__name__, name, reason)


class Refuser:
    """Finds no module: explains those of `mn_wifi` that there are not."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Say why a module is missing.  Raises `ScriptError`."""
        first, _, rest = name.partition(".")
        if first == NAME and rest:
            reason = NO_MODULES.get(rest.partition(".")[0])
            if reason is not None:
                raise ScriptError(f"import {name}: {reason}")


def provide(session: Session, opened: list[Any]) -> None:
    """Let this process find our `mn_wifi` from now on."""
    Mininet.inited = True  # it would change limits of the machine
    sys.modules.update(modules(session, opened))
    sys.meta_path.insert(0, Refuser())


def _sumo(net: Any, **options: Any) -> None:
    from emulation.mn.vanet import Sumo

    Sumo(net, options).start()
