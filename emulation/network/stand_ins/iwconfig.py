"""Stand-in for `iwconfig` (wireless tools 30): see the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from emulation.network.stand_ins.medium import MediumSocket, ToolError, run

MODES: Final = {"managed": "managed", "ad-hoc": "adhoc", "master": "master"}
NAMES: Final = {"adhoc": "Ad-Hoc", "master": "Master", "mesh": "Auto", "ocb": "Auto"}
BEST: Final = 70
"""Of the quality of a link, which is the level above -110 dBm, as cfg80211 has it."""


def iwconfig(arguments: Sequence[str], medium: MediumSocket) -> str:
    """Return the output of a command.  Raises `ToolError`."""
    if not arguments:
        return "".join(map(_shown, medium.radios()))
    name, *settings = arguments
    found = [radio for radio in medium.radios() if radio["interface"] == name]
    if not found:
        raise ToolError(f"{name:<10}No such device")
    if not settings:
        return _shown(found[0])
    while settings:
        match settings:
            case ["essid", "off" | "any" as word, *settings]:
                medium.ask("disconnect" if word == "off" else "connect", interface=name)
            case ["essid", ssid, "ap", bssid, *settings]:
                _join(medium, found[0], ssid.strip('"'), bssid)
            case ["essid", ssid, *settings]:
                _join(medium, found[0], ssid.strip('"'), None)
            case ["ap", bssid, *settings]:
                medium.ask("connect", interface=name, bssid=bssid)
            case ["channel", channel, *settings] if channel.isdigit():
                medium.ask("set", interface=name, channel=int(channel))
            case ["txpower", power, *settings] if power.removesuffix("dBm").isdigit():
                dbm = float(power.removesuffix("dBm"))
                medium.ask("set", interface=name, tx_power_dbm=dbm)
            case ["rate", "auto", *settings]:
                medium.ask("set", interface=name, bitrates=[])
            case ["rate", rate, *settings] if rate.removesuffix("M").replace(".", "", 1).isdigit():
                medium.ask("set", interface=name, bitrates=[float(rate.removesuffix("M"))])
            case ["mode", mode, *settings] if mode.lower() in MODES:
                medium.ask("set", interface=name, mode=MODES[mode.lower()])
            case ["key" | "enc", "off", *settings]:
                pass
            case ["key" | "enc", key, *settings]:
                medium.ask("set", interface=name, passphrase=key.removeprefix("s:"))
            case _:
                raise ToolError(
                    f"iwconfig: the medium does not answer {' '.join(settings)!r}; it knows essid, "
                    "ap, channel, txpower, rate, mode and key"
                )
    return ""


def _join(medium: MediumSocket, radio: dict[str, Any], ssid: str, bssid: str | None) -> None:
    name = radio["interface"]
    if medium.radio(name)["mode"] == "managed":
        medium.ask("connect", interface=name, ssid=ssid, bssid=bssid)
    else:
        medium.ask("set", interface=name, ssid=ssid)


def _shown(radio: dict[str, Any]) -> str:
    name, mode = radio["interface"], NAMES.get(radio["mode"], "Managed")
    joined = radio["bssid"] is not None or radio["mode"] != "managed"
    ssid = f'"{radio["network"]}"' if joined else "off/any"
    power = f"Tx-Power={radio['tx_power_dbm']:.0f} dBm"
    frequency = f"Frequency:{radio['frequency_mhz'] / 1000:g} GHz"
    first = f"{name:<10}IEEE 802.11  ESSID:{ssid}  "
    if radio["bssid"] is not None:
        lines = [
            first,
            f"Mode:{mode}  {frequency}  Access Point: {radio['bssid'].upper()}   ",
            f"Bit Rate={radio['rate_mbps'] or 0:g} Mb/s   {power}   ",
        ]
    elif radio["mode"] == "managed":
        lines = [first, f"Mode:{mode}  Access Point: Not-Associated   {power}   "]
    else:
        cell = "  Cell: 02:FF:00:00:00:01   " if radio["mode"] == "adhoc" else "  "
        lines = [first, f"Mode:{mode}  {frequency}{cell}", f"{power}   "]
    lines.append("Retry short limit:7   RTS thr:off   Fragment thr:off")
    lines.append("Power Management:off")
    if radio["signal_dbm"] is not None:
        quality = max(0, min(BEST, round(radio["signal_dbm"]) + 110))
        level = f"Signal level={radio['signal_dbm']:.0f} dBm"
        lines.append(f"Link Quality={quality}/{BEST}  {level}  ")
        dropped = radio["counters"]["tx_failed"]
        lines.append("Rx invalid nwid:0  Rx invalid crypt:0  Rx invalid frag:0")
        lines.append(f"Tx excessive retries:{dropped}  Invalid misc:0   Missed beacon:0")
    return ("\n" + " " * 10).join(lines) + "\n\n"


if __name__ == "__main__":
    sys.exit(run(iwconfig, sys.argv[1:]))
