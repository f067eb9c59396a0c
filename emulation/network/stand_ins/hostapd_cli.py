"""Stand-in for `hostapd_cli` (output of hostapd 2.10): see the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from emulation.network.stand_ins.medium import MediumSocket, ToolError, interface_and_words, run

COMMANDS: Final = (
    "ping, status, list_sta, all_sta, sta ADDRESS, deauthenticate ADDRESS, disassociate ADDRESS, "
    "chan_switch COUNT FREQ, enable, disable, wps_pin any PIN [SECONDS], wps_pbc, "
    "wps_ap_pin set PIN|disable"
)


def hostapd_cli(arguments: Sequence[str], medium: MediumSocket) -> str:
    """Return the output of a command.  Raises `ToolError`."""
    name, words = interface_and_words("hostapd_cli", arguments)
    prefix = ""
    points = [radio for radio in medium.radios() if radio["mode"] == "master"]
    chosen = [point for point in points if name in (None, point["interface"])]
    if not chosen:
        raise ToolError("Failed to connect to hostapd - wpa_ctrl_open: No such file", 255)
    if name is None:
        prefix = f"Selected interface '{chosen[0]['interface']}'\n"
    return prefix + _answer(medium, chosen[0], words)


def _answer(medium: MediumSocket, point: dict[str, Any], words: list[str]) -> str:
    name = point["interface"]
    match words:
        case ["ping"]:
            return "PONG\n"
        case ["status"]:
            return (
                f"state={'ENABLED' if point['up'] else 'DISABLED'}\n"
                f"freq={point['frequency_mhz']:g}\nchannel={point['channel']}\n"
                f"bss[0]={name}\nbssid[0]={point['mac']}\nssid[0]={point['ssid']}\n"
                f"num_sta[0]={len(point['stations'])}\n"
            )
        case ["list_sta"]:
            return "".join(f"{station['mac']}\n" for station in _stations(medium, name))
        case ["all_sta"]:
            return "".join(_station(station) for station in _stations(medium, name))
        case ["sta", address]:
            stations = [peer for peer in _stations(medium, name) if peer["mac"] == address.lower()]
            return "".join(map(_station, stations)) or "FAIL\n"
        case ["deauthenticate" | "disassociate", address, *_]:
            stations = [peer for peer in _stations(medium, name) if peer["mac"] == address.lower()]
            if not stations:
                return "FAIL\n"
            return medium.tell("disconnect", interface=stations[0]["interface"])
        case ["chan_switch", _, frequency, *_] if frequency.isdigit():
            return medium.tell("set", interface=name, frequency_mhz=float(frequency))
        case ["enable" | "disable" as wish]:
            return medium.tell("set", interface=name, up=wish == "enable")
        case ["wps_pin", _, pin, *rest]:
            seconds = {"seconds": float(rest[0])} if rest and rest[0].isdigit() else {}
            return medium.tell("wps", done=pin, interface=name, enter=pin, **seconds)
        case ["wps_pbc"]:
            return medium.tell("wps", interface=name, button=True)
        case ["wps_ap_pin", "set", pin, *_]:
            return medium.tell("wps", done=pin, interface=name, own=pin)
        case ["wps_ap_pin", "disable"]:
            return medium.tell("wps", interface=name, own=None)
    raise ToolError(
        f"hostapd_cli {' '.join(words)}: the medium does not support this command; it knows "
        f"{COMMANDS}",
        255,
    )


def _stations(medium: MediumSocket, name: str) -> list[dict[str, Any]]:
    stations: list[dict[str, Any]] = medium.ask("neighbours", interface=name)["neighbours"]
    return stations


def _station(peer: dict[str, Any]) -> str:
    return (
        f"{peer['mac']}\nflags=[AUTH][ASSOC][AUTHORIZED]\n"
        f"rx_packets={peer['rx'][0]}\ntx_packets={peer['tx'][0]}\n"
        f"rx_bytes={peer['rx'][1]}\ntx_bytes={peer['tx'][1]}\nsignal={peer['signal_dbm']:.0f}\n"
        f"connected_time={peer['connected_seconds'] or 0:.0f}\n"
    )


if __name__ == "__main__":
    sys.exit(run(hostapd_cli, sys.argv[1:]))
