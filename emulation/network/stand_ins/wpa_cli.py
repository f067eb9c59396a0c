"""Stand-in for `wpa_cli` (wpa_supplicant 2.10): see the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from emulation.network.stand_ins.medium import MediumSocket, ToolError, interface_and_words, run

COMMANDS: Final = (
    "status, scan, scan_results, signal_poll, roam BSSID, disconnect, reconnect, reassociate, "
    "list_networks, ping, wps_pin BSSID|any PIN, wps_pbc [BSSID|any]"
)
KEYS: Final = {"open": "NONE", "wep": "NONE", "wpa": "WPA-PSK", "wpa2": "WPA2-PSK", "wpa3": "SAE"}
FLAGS: Final = {
    "open": "[ESS]",
    "wep": "[WEP][ESS]",
    "wpa": "[WPA-PSK-TKIP][ESS]",
    "wpa2": "[WPA2-PSK-CCMP][ESS]",
    "wpa3": "[WPA2-SAE-CCMP][ESS]",
}


def wpa_cli(arguments: Sequence[str], medium: MediumSocket) -> str:
    """Return the output of a command.  Raises `ToolError`."""
    name, words = interface_and_words("wpa_cli", arguments)
    prefix = ""
    if name is None:
        stations = [station for station in medium.radios() if station["mode"] in ("managed", "wds")]
        if not stations:
            raise ToolError("Failed to connect to non-global ctrl_ifname: (nil)", 255)
        name = stations[0]["interface"]
        prefix = f"Selected interface '{name}'\n"
    try:
        radio = medium.radio(name)
    except ToolError:
        message = f"Failed to connect to non-global ctrl_ifname: {name}  error: No such file"
        raise ToolError(message, 255) from None
    return prefix + _answer(medium, radio, words)


def _answer(medium: MediumSocket, radio: dict[str, Any], words: list[str]) -> str:
    name = radio["interface"]
    match words:
        case ["ping"]:
            return "PONG\n"
        case ["status"]:
            return _status(medium, radio)
        case ["scan"]:
            return "OK\n"
        case ["scan_results"]:
            lines = ["bssid / frequency / signal level / flags / ssid"]
            for bss in medium.ask("scan", interface=name)["bss"]:
                mhz, dbm = f"{bss['frequency_mhz']:g}", f"{bss['signal_dbm']:.0f}"
                flags = FLAGS[bss["security"]]
                lines.append("\t".join((bss["bssid"], mhz, dbm, flags, bss["ssid"])))
            return "\n".join(lines) + "\n"
        case ["signal_poll"]:
            if radio["signal_dbm"] is None:
                return "FAIL\n"
            return (
                f"RSSI={radio['signal_dbm']:.0f}\nLINKSPEED={radio['rate_mbps'] or 0:.0f}\n"
                f"NOISE=9999\nFREQUENCY={radio['frequency_mhz']:g}\n"
            )
        case ["list_networks"]:
            state = "[CURRENT]" if radio["bssid"] else ""
            head = "network id / ssid / bssid / flags\n"
            return head + f"0\t{radio['network']}\tany\t{state}\n"
        case ["roam", bssid]:
            return medium.tell("connect", interface=name, bssid=bssid)
        case ["wps_pin", bssid, pin]:
            chosen = None if bssid == "any" else bssid
            return medium.tell("enrol", done=pin, interface=name, pin=pin, bssid=chosen)
        case ["wps_pbc", *rest]:
            chosen = rest[0] if rest and rest[0] != "any" else None
            return medium.tell("enrol", interface=name, bssid=chosen)
        case ["reconnect" | "reassociate"]:
            return medium.tell("connect", interface=name)
        case ["disconnect"]:
            return medium.tell("disconnect", interface=name)
    raise ToolError(
        f"wpa_cli {' '.join(words)}: the medium does not support this command; it knows {COMMANDS}",
        255,
    )


def _status(medium: MediumSocket, radio: dict[str, Any]) -> str:
    if radio["bssid"] is None:
        return f"wpa_state=DISCONNECTED\naddress={radio['mac']}\n"
    bss = medium.ask("scan", interface=radio["interface"])["bss"]
    own = next((entry for entry in bss if entry["associated"]), None)
    security = own["security"] if own is not None else radio["security"]
    cipher = "NONE" if security == "open" else "CCMP"
    pairs = {
        "bssid": radio["bssid"],
        "freq": f"{radio['frequency_mhz']:g}",
        "ssid": radio["network"],
        "id": "0",
        "mode": "station",
        "pairwise_cipher": cipher,
        "group_cipher": cipher,
        "key_mgmt": KEYS[security],
        "wpa_state": "COMPLETED",
        "address": radio["mac"],
    }
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


if __name__ == "__main__":
    sys.exit(run(wpa_cli, sys.argv[1:]))
