"""The package `mn_wifi` as scripts that run under `mn` import it.

It exists in memory only: its modules hold our classes, some of them bound to the run.  Importing a
module that is not supported ends a script with one line.
"""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any, Final

import mininet.cli
import mininet.node
from mininet.link import Intf, Link, TCIntf
from mininet.net import Mininet

from emulation.mn import cli, links, manet, nodes, radios, replaying, topo
from emulation.mn.network import Mininet_wifi
from emulation.mn.session import ScriptError, Session
from emulation.mn.switches import ScriptSwitch
from emulation.mn.unavailable import MODULES, NAMES, unavailable

NAME: Final = "mn_wifi"
BACK_END: Final = "MPLBACKEND"
NO_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sixLoWPAN": "IEEE 802.15.4 radios need the kernel's mac802154_hwsim",
        "wwan": "WWAN modems need the kernel's wwan_hwsim",
        "btvirt": "Bluetooth needs the kernel's btvirt",
        "bmv2": "P4 switches need BMv2 (simple_switch)",
        "aviation": "aircraft positions need a live service on the Internet",
    }
)
"""Modules that are not supported, and why: importing one ends a script."""


class OVSBridgeAP(nodes.AP):
    """An access point whose bridge learns addresses itself."""

    def __init__(self, name: str, net: Any, **params: Any) -> None:
        params["failMode"] = "standalone"
        super().__init__(name, net, **params)


class UserAP(nodes.AP):
    """An access point on another user-space switch; here it is Open vSwitch too."""

    limit = "it is an Open vSwitch bridge, which has no dpctl"


class Cleanup:
    """Nothing to do: every script gets fresh namespaces, medium and Open vSwitch."""

    @classmethod
    def cleanup_wifi(cls) -> None:
        """Do nothing."""


def modules(session: Session, opened: list[Any]) -> dict[str, ModuleType]:
    """Return the modules by name; networks add themselves to `opened`."""
    shared = {"session": session, "opened": opened, "openvswitch": ScriptSwitch(session)}
    bound = type("Mininet_wifi", (Mininet_wifi,), shared)
    controlled = type("MininetWithControlWNet", (bound,), {})

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
        | {"Intf": Intf, "TCIntf": TCIntf, "Link": Link}
        | {"IntfWireless": radios.Radio, "TCLinkWireless": links.TCWirelessLink}
        | {"wifiDirectLink": links.WifiDirectLink},
        "wmediumdConnector": {
            name: getattr(links, name) for name in ("interference", "snr", "error_prob")
        },
        "manetRoutingProtocols": {
            name: type(name, (manet.RoutingDaemon,), {"name": name, "session": session})
            for name in (*manet.COMMANDS, *manet.NOT_THERE)
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
        "telemetry": dict.fromkeys(("telemetry", "run_telemetry"), _telemetry(session, opened)),
        "clean": {"Cleanup": Cleanup, "cleanup_wifi": Cleanup.cleanup_wifi},
        "topo": {name: getattr(topo, name) for name in topo.__all__},
        "sumo": {},
        "sumo.runner": {"sumo": _sumo},
        **{name: {} for name in MODULES},
    }
    for name, reasons in NAMES.items():
        for member, reason in reasons.items():
            contents[name][member] = unavailable(f"{NAME}.{name}", member, reason)
    return _modules_of(contents)


def _telemetry(session: Session, opened: list[Any]) -> Callable[..., None]:
    """Return the module's `telemetry`, which applies to all networks."""

    def telemetry(nodes: Any = None, **options: Any) -> None:
        if not opened:
            session.limit("telemetry", "there is no network yet: call it after Mininet_wifi()")
        for net in opened:
            net.telemetry(**options | ({} if nodes is None else {"nodes": nodes}))

    return telemetry


def _modules_of(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    """Return a module for each name, set as an attribute of its package too."""
    by_name: dict[str, ModuleType] = {}
    for name, names in contents.items():
        whole = f"{NAME}.{name}" if name else NAME
        module: ModuleType = Provided(whole)
        vars(module).update(names)
        if name in ("", "sumo", "sumo.sumolib"):
            module.__path__ = []
        by_name[whole] = module
    for whole, module in by_name.items():
        parent, _, last = whole.rpartition(".")
        if parent:
            setattr(by_name[parent], last, module)
    return by_name


class Provided(ModuleType):
    """A module of our `mn_wifi`."""

    def __getattr__(self, name: str) -> Any:
        """Return a placeholder for a name, if every name of this module is unavailable."""
        reason = MODULES.get(self.__name__.removeprefix(f"{NAME}."))
        if reason is None or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no {name!r}")
        return unavailable(self.__name__, name, reason)


class Refuser:
    """An import finder that finds nothing, but explains missing modules of `mn_wifi`.

    Where there is no display, it has matplotlib load `emulation.mn.plotting`.
    """

    def __init__(self) -> None:
        self._chosen = False

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Raise a `ScriptError` that says why a module is missing."""
        first, _, rest = name.partition(".")
        if name == "matplotlib" and not any(map(os.environ.get, ("DISPLAY", BACK_END))):
            os.environ[BACK_END] = "module://emulation.mn.plotting"
            self._chosen = True
        elif name == "matplotlib.pyplot" and self._chosen:  # matplotlib has read it by now
            self._chosen = False
            os.environ.pop(BACK_END, None)  # not for the script's processes
        if first == NAME and rest:
            reason = NO_MODULES.get(rest.partition(".")[0])
            if reason is not None:
                raise ScriptError(f"import {name}: {reason}")


def provide(session: Session, opened: list[Any]) -> None:
    """Make our `mn_wifi` importable in this process."""
    Mininet.inited = True  # it would change limits of the machine
    # What a shell prints need not be text: telnet shows the first message of a remote controller.
    mininet.node.getincrementaldecoder = partial(getincrementaldecoder("utf-8"), "replace")
    mininet.cli.CLI = cli.CLI  # which many scripts import
    sys.modules.update(modules(session, opened))
    sys.meta_path.insert(0, Refuser())


def _sumo(net: Any, **options: Any) -> None:
    from emulation.mn.vanet import Sumo

    Sumo(net, options).start()


_sumo.takes_network = True  # type: ignore[attr-defined]  # rather than cars and access points
