"""Stand-in for `iwconfig` (wireless tools 30): see the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from emulation.network.stand_ins.medium import (
    DEFAULT_DBM,
    NO_DEVICE_CODE,
    MediumSocket,
    ToolError,
    become_monitor,
    become_radio,
    run,
)

MODES: Final = {"managed": "managed", "ad-hoc": "adhoc", "master": "master"}
NAMES: Final = {
    **{"managed": "Managed", "wds": "Managed", "adhoc": "Ad-Hoc", "master": "Master"},
    **{"monitor": "Monitor", "mesh": "Auto", "ocb": "Auto"},
}
BEST: Final = 70
"""Best link quality, which is the level above -110 dBm, as in cfg80211."""
BREAK: Final = "\n" + " " * 10
CELL, NOWHERE = "02:FF:00:00:00:01", "Not-Associated"
DEVICES: Final = Path("/proc/net/dev")
NO_EXTENSIONS: Final = "no wireless extensions."
NO_EXTENSIONS_CODE: Final = 161
"""Exit code: -95, EOPNOTSUPP."""


def iwconfig(arguments: Sequence[str], medium: MediumSocket) -> str:
    """Return the output of a command.  Raises `ToolError`."""
    radios = {radio["interface"]: radio for radio in medium.radios()}
    for monitor in medium.monitors():
        radios[monitor["name"]] = radios[monitor["interface"]] | {
            "interface": monitor["name"],
            "mode": "monitor",
        }
    if not arguments:
        for name in _devices():
            if name not in radios:
                print(f"{name:<8.16}  {NO_EXTENSIONS}\n", file=sys.stderr)
        return "".join(map(_shown, radios.values()))
    name, *settings = arguments
    if name not in radios and name in _devices():
        raise ToolError(f"{name:<8.16}  {NO_EXTENSIONS}\n", NO_EXTENSIONS_CODE)
    if name not in radios:
        raise ToolError(f"{name:<8.16}  No such device\n", NO_DEVICE_CODE)
    if not settings:
        return _shown(radios[name])
    while settings:
        match settings:
            case ["essid", "off" | "any" as word, *settings]:
                medium.ask("disconnect" if word == "off" else "connect", interface=name)
            case ["essid", ssid, "ap", bssid, *settings]:
                _join(medium, name, ssid.strip('"'), bssid)
            case ["essid", ssid, *settings]:
                _join(medium, name, ssid.strip('"'), None)
            case ["ap", bssid, *settings]:
                medium.ask("connect", interface=name, bssid=bssid)
            case ["channel", channel, *settings] if channel.isdigit():
                medium.ask("set", interface=name, channel=int(channel))
            case ["txpower", "auto", *settings]:
                medium.ask("set", interface=name, tx_power_dbm=DEFAULT_DBM)
            case ["txpower", power, *settings] if power.removesuffix("dBm").isdigit():
                dbm = float(power.removesuffix("dBm"))
                medium.ask("set", interface=name, tx_power_dbm=dbm)
            case ["rate", "auto", *settings]:
                medium.ask("set", interface=name, bitrates=[])
            case ["rate", rate, *settings] if rate.removesuffix("M").replace(".", "", 1).isdigit():
                medium.ask("set", interface=name, bitrates=[float(rate.removesuffix("M"))])
            case ["mode", "monitor" | "Monitor", *settings]:
                become_monitor(medium, name)
            case ["mode", mode, *settings] if mode.lower() in MODES:
                become_radio(medium, name)
                medium.ask("set", interface=name, mode=MODES[mode.lower()])
            case ["key" | "enc", "off", *settings]:
                pass
            case ["key" | "enc", key, *settings]:
                medium.ask("set", interface=name, passphrase=key.removeprefix("s:"))
            case _:
                raise ToolError(
                    f"iwconfig: the medium does not support {' '.join(settings)!r}; it knows "
                    "essid, ap, channel, txpower, rate, mode and key"
                )
    return ""


def _devices() -> list[str]:
    """Return the network devices of this namespace, as the kernel lists them."""
    lines = DEVICES.read_text(encoding="utf-8").splitlines()[2:]
    return [line.partition(":")[0].strip() for line in lines]


def _join(medium: MediumSocket, name: str, ssid: str, bssid: str | None) -> None:
    if medium.radio(name)["mode"] == "managed":
        medium.ask("connect", interface=name, ssid=ssid, bssid=bssid)
    else:
        medium.ask("set", interface=name, ssid=ssid)


def _shown(radio: dict[str, Any]) -> str:
    """Return the lines about an interface, in the format of the real program.

    cfg80211 shows name, frequency and address of a network only to stations and members of cells.
    """
    mode = NAMES[radio["mode"]]
    power = f"Tx-Power={radio['tx_power_dbm']:.0f} dBm   "
    first = f"{radio['interface']:<8.16}  IEEE 802.11  "
    frequency = f"Frequency:{radio['frequency_mhz'] / 1000:g} GHz  "
    if mode == "Ad-Hoc":
        ssid, cell = f'"{radio["network"]}"', CELL
        if not radio["network"]:
            ssid, cell = "off/any", NOWHERE
        lines = [f"{first}ESSID:{ssid}  ", f"Mode:{mode}  {frequency}Cell: {cell}   ", power]
    elif mode == "Managed" and radio["bssid"] is None:
        lines = [f"{first}ESSID:off/any  ", f"Mode:{mode}  Access Point: {NOWHERE}   {power}"]
    elif mode == "Managed":
        lines = [
            f'{first}ESSID:"{radio["network"]}"  ',
            f"Mode:{mode}  {frequency}Access Point: {radio['bssid'].upper()}   ",
            f"Bit Rate:{_rate(radio['rate_mbps'])}   {power}",
        ]
    else:
        lines = [f"{first}Mode:{mode}  {power}"]
    lines.append("Retry short limit:7   RTS thr:off   Fragment thr:off")
    if mode in ("Managed", "Ad-Hoc"):
        lines.append("Encryption key:off")  # with WPA too, whose keys these tools do not show
    lines.append("Power Management:off")
    if radio["mode"] == "monitor" or radio["signal_dbm"] is None:
        return BREAK.join([*lines, ""]) + "\n"
    quality = max(0, min(BEST, round(radio["signal_dbm"]) + 110))
    lines += [
        f"Link Quality={quality}/{BEST}  Signal level={radio['signal_dbm']:.0f} dBm  ",
        "Rx invalid nwid:0  Rx invalid crypt:0  Rx invalid frag:0",
        f"Tx excessive retries:{radio['counters']['tx_failed']}  Invalid misc:0   Missed beacon:0",
    ]
    return BREAK.join(lines) + "\n\n"


def _rate(mbps: float | None) -> str:
    return f"{mbps:g} Mb/s" if mbps else "0 kb/s"


if __name__ == "__main__":
    sys.exit(run(iwconfig, sys.argv[1:]))
