"""Stand-in for `iw` (output of iw 5.19): see the package."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from emulation.network.stand_ins.medium import (
    DEFAULT_DBM,
    NO_DEVICE,
    NO_DEVICE_CODE,
    MediumSocket,
    ToolError,
    become_monitor,
    become_radio,
    mode_name,
    rate_text,
    run,
)
from emulation.radio.airtime import HT_RATES
from emulation.radio.channel_plan import frequency_of

COMMANDS: Final = (
    "iw dev [X info|link|scan|station dump|station get MAC|mpath dump|mpp dump|disconnect|del]",
    "iw dev X connect SSID [FREQ] [BSSID] [key 0:PASSPHRASE]",
    "iw dev X set txpower auto|fixed MBM | channel N | freq MHZ | type managed|ibss|mesh|ocb",
    "iw dev X set type monitor",
    "iw dev X set bitrates [legacy-2.4|legacy-5 MBPS...] [ht-mcs-2.4|ht-mcs-5 INDEX...]",
    "iw dev X ibss join SSID FREQ | ibss leave | mesh join ID [freq MHZ] | mesh leave",
    "iw list | iw phy [phyN info | phyN interface add NAME type monitor] | iw reg get",
    "iw dev X ocb join FREQ WIDTH | ocb leave | interface add NAME type monitor",
)
TYPES: Final = {
    "managed": "managed",
    "station": "managed",
    "ibss": "adhoc",
    "adhoc": "adhoc",
    "mesh": "mesh",
    "mp": "mesh",
    "ocb": "ocb",
    "__ap": "master",
}
REGULATIONS: Final = (
    "global\ncountry 00: DFS-UNSET\n\t(2402 - 2472 @ 40), (N/A, 20), (N/A)\n"
    "\t(2457 - 2482 @ 20), (N/A, 20), (N/A)\n\t(5170 - 5250 @ 80), (N/A, 20), (N/A)\n"
    "\t(5735 - 5835 @ 80), (N/A, 20), (N/A)\n\n"
)
"""The kernel's world domain, which the medium does not enforce."""
CHANNELS: Final[Mapping[int, tuple[tuple[int, float], ...]]] = MappingProxyType(
    {
        1: tuple((number, frequency_of(number)) for number in range(1, 14)),
        2: tuple((number, frequency_of(number)) for number in (36, 40, 44, 48, 149, 153, 157, 161)),
    }
)
"""Channels that are shown, by band: number and MHz."""
MODES: Final = ("IBSS", "managed", "AP", "monitor", "mesh point", "outside context of a BSS")
NL80211: Final = (
    "new_interface",
    "set_interface",
    "start_ap",
    "connect",
    "disconnect",
    "set_channel",
)
RATES: Final = {
    "b": "1.0* 2.0* 5.5 11.0",
    "g": "6.0* 9.0 12.0* 18.0 24.0* 36.0 48.0 54.0",
}
MPATHS: Final = (
    "DEST ADDR         NEXT HOP          IFACE\tSN\tMETRIC\tQLEN\tEXPTIME\tDTIM\tDRET\tFLAGS"
    "\tHOP_COUNT\tPATH_CHANGE\n"
)
MPPS: Final = "DEST ADDR         PROXY NODE        IFACE\n"
ACTIVE, RESOLVING, SN_VALID, RESOLVED = 0x01, 0x02, 0x04, 0x10
"""Flags of a mesh path (nl80211, NL80211_MPATH_FLAG)."""


def iw(arguments: Sequence[str], medium: MediumSocket) -> str:
    """Return the output of a command.  Raises `ToolError`."""
    match arguments:
        case ["--version" | "-v"]:
            return "iw version 5.19 (stand-in of the testbed)\n"
        case [] | ["help" | "--help" | "-h"]:
            return "".join(f"{line}\n" for line in ("Usage:", *(f"\t{c}" for c in COMMANDS)))
        case ["dev"]:
            return _devices(medium)
        case ["list"] | ["phy"] | ["phy", _, "info"]:
            radios = [radio for radio in medium.radios() if _is_meant(radio, arguments)]
            if not radios and len(arguments) == 3:
                raise ToolError(NO_DEVICE, NO_DEVICE_CODE)
            return "".join(map(_phy, radios))
        case ["reg", "get"]:
            return REGULATIONS
        case ["reg", "set", _]:
            return ""
        case ["dev", name, "del"]:
            return _removed(medium, name)
        case ["dev", name, "interface", "add", new, "type", "monitor", *_]:
            medium.radio(name)
            return _added(medium, name, new)
        case ["phy", phy, "interface", "add", new, "type", "monitor", *_]:
            for radio in medium.radios():
                if _is_phy(radio, phy):
                    return _added(medium, radio["interface"], new)
            raise ToolError(NO_DEVICE, NO_DEVICE_CODE)
        case ["dev", name, *command]:
            return _of_device(medium, name, command)
        case [name, _, *_] if _index(name):  # a device's name needs no `dev` before it
            return iw(["dev", *arguments], medium)
    raise ToolError(_unknown(arguments))


def _unknown(arguments: Sequence[str]) -> str:
    return (
        f"iw {' '.join(arguments)}: the medium does not support this command; it knows\n"
        + "\n".join(f"  {line}" for line in COMMANDS)
    )


def _of_device(medium: MediumSocket, name: str, command: Sequence[str]) -> str:
    if name in [monitor["name"] for monitor in medium.monitors()]:
        if command[:2] == ["set", "type"] and command[2:] != ["monitor"]:
            become_radio(medium, name)
        else:
            return _of_monitor(name, command)
    radio = medium.radio(name)
    match command:
        case ["info"]:
            return "\n".join(_info(radio)) + "\n"
        case ["link"]:
            return _link(medium, radio)
        case ["scan", *_]:
            bss = medium.ask("scan", interface=name)["bss"]
            return "".join(_bss(radio, entry) for entry in bss)
        case ["station", "dump", *_]:
            return "".join(_station(radio, peer) for peer in _peers(medium, name))
        case ["station", "get", mac]:
            peers = [peer for peer in _peers(medium, name) if peer["mac"] == mac.lower()]
            if not peers:
                raise ToolError("command failed: No such file or directory (-2)", 254)
            return _station(radio, peers[0])
        case ["mpath", "dump"]:
            return MPATHS + _paths(medium, radio)
        case ["mpp", "dump"]:
            return MPPS + _proxies(medium, radio)
        case ["connect", *rest]:
            _connect(medium, name, [word for word in rest if word not in ("-w", "auth", "open")])
        case ["disconnect"]:
            medium.ask("disconnect", interface=name)
        case ["ibss", "join", ssid, frequency, *_]:
            _join(medium, name, "adhoc", ssid, frequency)
        case ["mesh", "join", ssid, *rest]:
            mhz = rest[rest.index("freq") + 1] if "freq" in rest[:-1] else None
            _join(medium, name, "mesh", ssid, mhz)
        case ["ocb", "join", frequency, *_]:
            _join(medium, name, "ocb", "", frequency)
        case ["ibss" | "mesh" | "ocb", "leave"]:
            medium.ask("set", interface=name, mode="managed", ssid="")
            medium.ask("disconnect", interface=name)
        case ["set", *setting]:
            _set(medium, name, setting, command)
        case _:
            raise ToolError(_unknown(["dev", name, *command]))
    return ""


def _of_monitor(name: str, command: Sequence[str]) -> str:
    match command:
        case ["info"]:
            return "".join(f"{line}\n" for line in _monitor(name))
        case ["link"]:
            return "Not connected.\n"
        case ["mpath", "dump"]:
            return MPATHS
        case ["mpp", "dump"]:
            return MPPS
    raise ToolError(_unknown(["dev", name, *command]))


# Commands that change settings.


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"{what} must be a number, not {text!r}", 2) from None


def _set(medium: MediumSocket, name: str, setting: Sequence[str], command: Sequence[str]) -> None:
    match setting:
        case ["txpower", "fixed" | "limit", power]:
            dbm = _number(power, "a power in mBm") / 100
            medium.ask("set", interface=name, tx_power_dbm=dbm)
        case ["txpower", "auto"]:
            medium.ask("set", interface=name, tx_power_dbm=DEFAULT_DBM)
        case ["channel", channel, *_]:
            medium.ask("set", interface=name, channel=int(_number(channel, "a channel")))
        case ["freq", frequency, *_]:
            medium.ask("set", interface=name, frequency_mhz=_number(frequency, "a frequency"))
        case ["type", "monitor"]:
            become_monitor(medium, name)
        case ["type", kind] if kind in TYPES:
            medium.ask("set", interface=name, mode=TYPES[kind])
        case ["bitrates", *words]:
            medium.ask("set", interface=name, bitrates=_bitrates(name, words))
        case ["4addr", "on" | "off" as on]:
            medium.ask("set", interface=name, mode="wds" if on == "on" else "managed")
        case _:
            raise ToolError(_unknown(["dev", name, *command]))


def _bitrates(name: str, words: Sequence[str]) -> list[float]:
    """Return the rates, Mb/s, that a command for an interface allows; none means all."""
    rates: list[float] = []
    kind = None
    for word in words:
        if word in ("legacy-2.4", "legacy-5", "ht-mcs-2.4", "ht-mcs-5"):
            kind = word
        elif kind is None:
            raise ToolError(_unknown(["dev", name, "set", "bitrates", *words]))
        elif kind.startswith("legacy"):
            rates.append(_number(word, "a rate in Mb/s"))
        else:
            index = _number(word, "an index")
            if index not in range(len(HT_RATES)):
                last = len(HT_RATES) - 1
                raise ToolError(
                    f"{kind} {word}: radios have one spatial stream; give indices from 0 to {last}",
                    2,
                )
            rates.append(HT_RATES[int(index)].mbps)
    return rates


def _connect(medium: MediumSocket, name: str, words: Sequence[str]) -> None:
    if not words:
        raise ToolError(_unknown(["dev", name, "connect"]))
    ssid, *rest = words
    bssid = next((word for word in rest if word.count(":") == 5), None)
    key = None
    if "key" in rest[:-1]:
        key = rest[rest.index("key") + 1].removeprefix("d:").partition(":")[2]
    medium.ask("connect", interface=name, ssid=ssid, bssid=bssid, passphrase=key)


def _join(medium: MediumSocket, name: str, mode: str, ssid: str, frequency: str | None) -> None:
    mhz = None if frequency is None else _number(frequency, "a frequency in MHz")
    medium.ask("set", interface=name, mode=mode, ssid=ssid, frequency_mhz=mhz)


def _added(medium: MediumSocket, name: str, new: str) -> str:
    medium.ask("monitor", interface=name, name=new, netns=medium.netns)
    return ""


def _removed(medium: MediumSocket, name: str) -> str:
    radios = [row["interface"] for row in medium.monitors() if row["name"] == name]
    if not radios:
        raise ToolError(
            f"command failed: {name} is not a monitor: radios cannot be removed (-16)", 240
        )
    medium.ask("unmonitor", interface=radios[0], name=name, netns=medium.netns)
    return ""


# Output.


def _is_phy(radio: Mapping[str, Any], phy: str) -> bool:
    return phy in (f"phy{radio['number']}", f"phy#{radio['number']}")


def _is_meant(radio: Mapping[str, Any], arguments: Sequence[str]) -> bool:
    return len(arguments) < 3 or _is_phy(radio, arguments[1])


def _phy(radio: Mapping[str, Any]) -> str:
    """Return what the medium knows of a radio's hardware."""
    band = 1 if radio["frequency_mhz"] < 4900 else 2
    words = RATES["b" if radio["standard"] == "b" else "g"].split()
    rates = [f"\t\t\t* {word.removesuffix('*')} Mbps" for word in words]
    channels = [
        f"\t\t\t* {mhz:g} MHz [{number}] ({radio['tx_power_dbm']:.1f} dBm)"
        for number, mhz in CHANNELS[band]
    ]
    modes = [f"\t\t * {mode}" for mode in MODES]
    commands = [f"\t\t * {command}" for command in NL80211]
    lines = [
        f"Wiphy phy{radio['number']}", "\tmax # scan SSIDs: 4",
        "\tRetry short limit: 7", "\tRetry long limit: 4", "\tCoverage class: 0 (up to 0m)",
        "\tSupported interface modes:", *modes,
        f"\tBand {band}:", "\t\tBitrates (non-HT):", *rates, "\t\tFrequencies:", *channels,
        "\tSupported commands:", *commands,
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def _index(name: str) -> int:
    with suppress(OSError):
        return socket.if_nametoindex(name)
    return 0


def _info(radio: dict[str, Any], indent: str = "") -> list[str]:
    lines = [
        f"Interface {radio['interface']}",
        f"\tifindex {_index(radio['interface'])}",
        f"\twdev 0x{(radio['number'] << 32) + 1:x}",
        f"\taddr {radio['mac']}",
    ]
    named = radio["mode"] in ("master", "adhoc") or radio["bssid"]  # iw shows no mesh's name
    if radio["network"] and named:
        lines.append(f"\tssid {radio['network']}")
    lines += [f"\ttype {mode_name(radio)}", f"\twiphy {radio['number']}"]
    if radio["bssid"] is not None or radio["mode"] != "managed":
        mhz = f"{radio['frequency_mhz']:g} MHz"
        width = "20 MHz" if radio["standard"] == "n" else "20 MHz (no HT)"
        lines.append(f"\tchannel {radio['channel']} ({mhz}), width: {width}, center1: {mhz}")
    lines.append(f"\ttxpower {radio['tx_power_dbm']:.2f} dBm")
    return [indent + line for line in lines]


def _monitor(name: str) -> list[str]:
    return [f"Interface {name}", f"\tifindex {_index(name)}", "\ttype monitor"]


def _devices(medium: MediumSocket) -> str:
    lines = []
    monitors = medium.monitors()
    for radio in medium.radios():
        lines.append(f"phy#{radio['number']}")
        for monitor in monitors:
            if monitor["interface"] == radio["interface"]:
                lines += [f"\t{line}" for line in _monitor(monitor["name"])]
        lines += [line for line in _info(radio, "\t") if "\twiphy " not in line]
    return "".join(f"{line}\n" for line in lines)


def _link(medium: MediumSocket, radio: dict[str, Any]) -> str:
    name = radio["interface"]
    if radio["mode"] == "adhoc":
        return (
            f"Joined IBSS 02:ff:00:00:00:01 (on {name})\n\tSSID: {radio['ssid']}\n"
            f"\tfreq: {radio['frequency_mhz']:g}\n"
        )
    if radio["bssid"] is None:
        return "Not connected.\n"
    traffic = radio["traffic"]
    lines = [
        f"Connected to {radio['bssid']} (on {name})",
        f"\tSSID: {radio['network']}",
        f"\tfreq: {radio['frequency_mhz']:g}",
        f"\tRX: {traffic['rx_bytes']} bytes ({traffic['rx_packets']} packets)",
        f"\tTX: {traffic['tx_bytes']} bytes ({traffic['tx_packets']} packets)",
        f"\tsignal: {radio['signal_dbm']:.0f} dBm",
    ]
    for way, rate in (("rx", radio["back_mbps"]), ("tx", radio["rate_mbps"])):
        if rate is not None:
            lines.append(f"\t{way} bitrate: {rate_text(rate)}")
    lines += ["", "\tbss flags:\tshort-slot-time", "\tdtim period:\t2", "\tbeacon int:\t100"]
    return "\n".join(lines) + "\n"


def _bss(radio: dict[str, Any], bss: dict[str, Any]) -> str:
    associated = " -- associated" if bss["associated"] else ""
    secret = bss["security"] != "open"
    standard = "b" if bss["standard"] == "b" else "g"
    short = standard != "b"
    lines = [
        f"BSS {bss['bssid']}(on {radio['interface']}){associated}",
        f"\tfreq: {bss['frequency_mhz']:g}",
        "\tbeacon interval: 100 TUs",
        f"\tcapability: ESS {'Privacy ' if secret else ''}{'ShortSlotTime ' if short else ''}"
        f"(0x{0x0001 | 0x0010 * secret | 0x0400 * short:04x})",
        f"\tsignal: {bss['signal_dbm']:.2f} dBm",
        "\tlast seen: 0 ms ago",
        f"\tSSID: {bss['ssid']}",
        f"\tSupported rates: {RATES[standard]} ",
        f"\tDS Parameter set: channel {bss['channel']}",
        f"\tBSS Load:\n\t\t * station count: {bss['stations']}",
    ]
    if bss["security"] == "wpa":
        lines.append(
            "\tWPA:\t * Version: 1\n\t\t * Group cipher: TKIP\n\t\t * Pairwise ciphers: TKIP\n"
            "\t\t * Authentication suites: PSK"
        )
    elif bss["security"] in ("wpa2", "wpa3"):
        suite = "SAE" if bss["security"] == "wpa3" else "PSK"
        lines.append(
            "\tRSN:\t * Version: 1\n\t\t * Group cipher: CCMP\n\t\t * Pairwise ciphers: CCMP\n"
            f"\t\t * Authentication suites: {suite}"
        )
    return "\n".join(lines) + "\n"


def _peers(medium: MediumSocket, name: str) -> list[dict[str, Any]]:
    peers: list[dict[str, Any]] = medium.ask("neighbours", interface=name)["neighbours"]
    return peers


def _station(radio: dict[str, Any], peer: dict[str, Any]) -> str:
    signal = f"{peer['signal_dbm']:.0f}"
    lines = [
        f"Station {peer['mac']} (on {radio['interface']})",
        f"\trx bytes:\t{peer['rx'][1]}",
        f"\trx packets:\t{peer['rx'][0]}",
        f"\ttx bytes:\t{peer['tx'][1]}",
        f"\ttx packets:\t{peer['tx'][0]}",
        f"\tsignal:  \t{signal} dBm",
        f"\tsignal avg:\t{signal} dBm",
    ]
    for way in ("tx", "rx"):
        if peer[f"{way}_mbps"] is not None:
            lines.append(f"\t{way} bitrate:\t{rate_text(peer[f'{way}_mbps'])}")
    if radio["mode"] == "mesh":
        lines.append("\tmesh plink:\tESTAB")
        if peer["airtime_us"] is not None:
            lines.append(f"\tmesh airtime link metric: {peer['airtime_us']}")
    lines += ["\tauthorized:\tyes", "\tauthenticated:\tyes", "\tassociated:\tyes"]
    if peer["connected_seconds"] is not None:
        lines.append(f"\tconnected time:\t{peer['connected_seconds']:.0f} seconds")
    return "\n".join(lines) + "\n"


def _paths(medium: MediumSocket, radio: dict[str, Any]) -> str:
    """Return the paths of a mesh, one per line; outside a mesh the kernel has none."""
    if radio["mode"] != "mesh":
        return ""
    name, lines = radio["interface"], ""
    for path in medium.ask("mpaths", interface=name)["paths"]:
        flags = (ACTIVE | SN_VALID | RESOLVED) if path["active"] else SN_VALID
        if path["requests"] and not path["active"]:
            flags = RESOLVING
        lines += (
            f"{path['destination']} {path['next_hop'] or '00:00:00:00:00:00'} {name}"
            f"\t{path['sequence']}\t{path['metric']}\t{path['waiting']}\t{path['expires_ms']}"
            f"\t0\t{path['requests']}\t0x{flags:x}\t{path['hops']}\t0\n"
        )
    return lines


def _proxies(medium: MediumSocket, radio: dict[str, Any]) -> str:
    if radio["mode"] != "mesh":
        return ""
    name = radio["interface"]
    proxies = medium.ask("mpaths", interface=name)["proxies"]
    return "".join(f"{entry['destination']} {entry['proxy']} {name}\n" for entry in proxies)


if __name__ == "__main__":
    sys.exit(run(iw, sys.argv[1:]))
