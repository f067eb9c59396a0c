"""Names of Mininet-WiFi that a script may import but not use here.

Many scripts carry unused imports, so importing such a name is harmless.  Its first use (a call, an
attribute, a subclass) ends the script with its line and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from emulation.mn.session import ScriptError

_BUILT: Final = "the medium has positions, levels and rates: use node.position, node.wintfs[0]"
_TRACI: Final = "sumo runs without TraCI: its positions are read as it writes them"
_MODES: Final = "set a radio's mode by net.addLink(cls=...), setMasterMode() or setManagedMode()"

MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mobility": "set motion by net.setMobilityModel(), startMobility() and mobility()",
        "propagationModels": "set propagation by net.setPropagationModel()",
        "associationControl": "set the policy by ac_method: ssf or llf",
        "plot": "there is no window: use --live for a page; the report has a map",
        "vanet": "cars move by net.mobility(), net.setMobilityModel() or SUMO",
        "devices": _BUILT,
        "frequency": _BUILT,
        "energy": "there is no energy model",
        "module": "no kernel module is loaded: the radios are TAP devices",
        "nodelib": "access points are Open vSwitch bridges",
        **dict.fromkeys(("sumo.traci", "sumo.function", "sumo.sumolib"), _TRACI),
        "sumo.sumolib.sumolib": _TRACI,
    }
)
"""Modules of which every name is unavailable, and why."""
NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "node": {
            "physicalAP": "needs a physical wireless card",
            "CPULimitedStation": "shares of the processor are not limited",
            "Aircraft": "aircraft positions need a live service on the Internet",
            "Satellite": "satellite orbits need a live service on the Internet",
            "AccessPoint": "access points are made by net.addAccessPoint()",
        },
        "link": {
            **dict.fromkeys(("master", "managed", "VirtualMaster", "phyAP", "Association"), _MODES),
            **dict.fromkeys(("WirelessIntf", "LinkAttrs", "wirelessLink"), _BUILT),
            **dict.fromkeys(("TCLinkWirelessAP", "TCLinkWirelessStation"), _BUILT),
            "HostapdConfig": "there is no hostapd to configure",
        },
        "replaying": {
            "replayingMobility": "it is called ReplayingMobility, with the positions in node.p",
        },
        "telemetry": {"parseData": "what telemetry asks for is recorded, and drawn in the report"},
        "wmediumdConnector": dict.fromkeys(
            (
                *("w_server", "w_pos", "w_cst", "w_txpower", "w_gain", "w_height", "w_medium"),
                *("wmediumd_mode", "spec_prob", "SNRLink", "ERRPROBLink", "DynamicIntfRef"),
            ),
            "there is no wmediumd: give links their error_prob, loss or rssi",
        ),
    }
)
"""Names of other modules that are unavailable, and why."""


class Unavailable(type):
    """The metaclass of such names, which support `isinstance` and nothing else."""

    wish: str
    refused: str

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Unavailable:
        """Create the placeholder of a name.  Raises `ScriptError` for a subclass of one."""
        for base in bases:
            raise base.error()  # type: ignore[attr-defined]  # it is one of these
        return super().__new__(mcs, name, bases, namespace)

    def error(cls) -> ScriptError:
        return ScriptError(f"{cls.wish}: {cls.refused}")

    def __call__(cls, *_arguments: Any, **_options: Any) -> Any:
        raise cls.error()

    def __getattr__(cls, name: str) -> Any:
        """Refuse an attribute."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise cls.error()

    def __setattr__(cls, name: str, value: Any) -> None:
        """Refuse to be changed."""
        raise cls.error()


def unavailable(module: str, name: str, reason: str) -> Unavailable:
    return Unavailable(name, (), {"wish": f"{module}.{name}", "refused": reason})
