"""Links between radios, positions of nodes, and their devices, for `Mininet_wifi`."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from functools import cache
from ipaddress import ip_interface
from typing import Any, Final

from mininet.link import Link, TCLink

from capture.namespaces import network_namespace
from emulation.media import rtnetlink
from emulation.media.rtnetlink import IFA_F_NODAD
from emulation.mn.links import CELLS, ITSLink, _4address, adhoc, mesh
from emulation.mn.nodes import AP, RadioNode, Station
from emulation.mn.options import (
    CELL_LINK_OPTIONS,
    OVERRIDES,
    SHAPING,
    STATION_LINK_OPTIONS,
    WDS_LINK_OPTIONS,
    WIRE_OPTIONS,
)
from emulation.mn.radios import Radio
from emulation.mn.session import Options, ScriptError

EMULATED: Final = ("delay", "jitter", "loss", "max_queue_size")
"""Options of a wire that need the kernel's sch_netem."""
APART: Final = 1.0
"""Metres between nodes for which a script sets no position."""


def names_of(ssid: Any) -> list[str]:
    """Return the names of networks in a comma-separated string or a list of them."""
    if ssid is None:
        return [""]
    words = ssid if isinstance(ssid, list | tuple) else [ssid]
    return [name.strip() for word in words for name in str(word).split(",")]


def wire_class(link: Any) -> Any:
    """Return a network's class of wires; None for Mininet's own.

    Raises `ScriptError`.
    """
    if link is None or link in CELLS or link is Link:
        return None
    if callable(link) and (not isinstance(link, type) or issubclass(link, Link)):
        return link
    name = getattr(link, "__name__", repr(link))
    known = ", ".join(cell.__name__ for cell in CELLS)
    raise ScriptError(f"Mininet_wifi(link={name}): choose from {known} or Mininet's classes")


def rng(seed: Any, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}")


def add_link(
    net: Any, one: Any, other: Any, port1: int | None, port2: int | None, cls: Any,
    params: dict[str, Any],
) -> Any:  # fmt: skip
    """Add a link between radios, or a wire.  Raises `ScriptError`."""
    if cls in (adhoc, mesh, ITSLink):
        return _join(net, one, other, port1, port2, cls, params)
    if cls is _4address:
        return _four_addresses(net, one, other, port1, port2, params)
    refused = getattr(cls, "refused", None)
    if refused is not None:
        raise ScriptError(f"addLink(cls={cls.__name__}): {refused}")
    stations = [node for node in (one, other) if isinstance(node, Station)]
    points = [node for node in (one, other) if isinstance(node, AP)]
    wired = cls is not None and cls not in CELLS
    if stations and points and not wired:
        ports = (port1, port2) if one is stations[0] else (port2, port1)
        return _associate(net, stations[0], points[0], ports, params)
    if len(stations) == 2 and not wired and not any(map(_is_master, stations)):
        net.session.note("addLink of two stations adds a wire between them")
    if wired:  # the script's own class, which knows its options
        return net.wire(one, other, port1=port1, port2=port2, cls=cls, **params)
    checked = net.session.check_options("addLink of a wire", params, WIRE_OPTIONS)
    kept = {name: checked[name] for name in checked if WIRE_OPTIONS[name] is None}
    if set(kept) & set(EMULATED) and not _has_netem():
        words = ", ".join(name for name in EMULATED if name in kept)
        net.session.limit(f"addLink of a wire({words})", "this kernel has no sch_netem: ignored")
    shaped = TCLink if net.wire_class is None and set(kept) & set(SHAPING) else net.wire_class
    return net.wire(one, other, port1=port1, port2=port2, cls=shaped, **kept)


@cache
def _has_netem() -> bool:
    """Return whether the kernel can delay and lose packets of a wire."""
    words = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "0"]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False)
    return done.returncode == 0


def _is_master(node: Station) -> bool:
    return any(radio.kind == "master" for radio in node.wintfs.values())


def _associate(
    net: Any, station: Station, point: AP, ports: tuple[int | None, int | None],
    params: dict[str, Any],
) -> None:  # fmt: skip
    """Link a station to an access point."""
    checked = net.session.check_options("addLink", params, STATION_LINK_OPTIONS)
    radio, other = station.getNameToWintf(ports[0]), point.getNameToWintf(ports[1])
    if "intf" in params:
        radio = station.getNameToWintf(checked["intf"])
    radio.associate(other)
    _override(net, radio, other, checked)


def _override(net: Any, one: Radio, other: Radio, options: Options) -> None:
    """Apply the options that override what the medium computes for a link between radios."""
    wish: dict[str, Any] = {}
    if options.get("loss"):
        wish["loss"] = float(options["loss"]) / 100
    if options.get("error_prob") is not None:
        wish["loss"] = float(options["error_prob"])
    if options.get("bw"):
        wish["rate_mbps"] = one.rate_bound(float(options["bw"]), other)
    delay = options.get("delay"), options.get("latency")
    if any(delay):
        wish["delay"] = seconds_of(delay[0] or delay[1])
    if options.get("rssi"):
        wish["level_dbm"] = float(options["rssi"])
    if not wish:
        return

    def send() -> None:  # late: a mesh radio may yet be renamed
        net.air.ask({"op": "override", "one": one.name, "other": other.name, **wish})

    if net.air.running:
        send()
    else:
        net.overrides.append(send)


def seconds_of(delay: Any) -> float:
    """Return the seconds in Mininet's '10ms', '5us' or a number of milliseconds."""
    text = str(delay).strip()
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text) * 1e-3


def _join(
    net: Any, node: Any, other: Any, port1: int | None, port2: int | None, cls: Any,
    params: dict[str, Any],
) -> Any:  # fmt: skip
    """Make a radio a member of an ad hoc network, of a mesh, or of neither (OCB)."""
    call = f"addLink(cls={cls.__name__})"
    checked = net.session.check_options(call, params, CELL_LINK_OPTIONS)
    for end in (node, other):
        if not isinstance(end, RadioNode) and not (end is None and node is not None):
            raise ScriptError(f"{call}: {end} has no radio")
    radio = node.getNameToWintf(checked.get("intf", port1))
    kind, ssid = cls.kind, checked.get("ssid")
    if ssid and kind == "ocb":
        net.session.limit(f"{call}: ssid={ssid!r}", "802.11p has no networks with names")
    radio.join(kind, "" if kind == "ocb" else str(ssid or cls.ssid), checked)
    if kind == "mesh" and not net.air.running:
        _rename(radio, f"{node.name}-mp{radio.id + (isinstance(node, AP))}")
    bounds = [name for name in OVERRIDES if params.get(name) is not None]
    if bounds and other is None:
        net.session.limit(f"{call}: {', '.join(bounds)}", "it limits a link: name its second node")
    elif bounds:
        _override(net, radio, other.getNameToWintf(port2), checked)
    elif other is not None:
        net.session.note(f"{call} applies to {node} alone: {other} needs a link of its own to join")
    return radio


def _rename(radio: Radio, name: str) -> None:
    """Rename a radio, as Mininet-WiFi does with those of a mesh."""
    node = radio.node
    node.nameToIntf[name] = node.nameToIntf.pop(radio.name)
    node.params["wlan"][radio.id] = name
    radio.name = name


def _four_addresses(
    net: Any, point: Any, client: Any, port1: int | None, port2: int | None,
    params: dict[str, Any],
) -> Any:  # fmt: skip
    """Make an access point a station of another: a wireless bridge (WDS)."""
    call = "addLink(cls=_4address)"
    net.check_unbuilt(call)
    net.session.check_options(call, params, WDS_LINK_OPTIONS)
    for end in (point, client):
        if not isinstance(end, RadioNode):
            raise ScriptError(f"{call}: {end} has no radio")
    radio = client.add_radio(f"{client.name}-wds{len(client.wintfs)}", net.next_mac())
    radio.virtual = True
    first, served = client.getNameToWintf(port2), point.getNameToWintf(port1)
    radio.mode, radio.txpower, radio.antennaGain = first.mode, first.txpower, first.antennaGain
    radio.channel = served.channel
    radio.kind, radio.ssid = "wds", served.ssid
    radio.access_point = served
    return radio


def give_positions(net: Any) -> None:
    """Place nodes without a position beside their access point, or beside each other."""
    missing = [node for node in net.radio_nodes if not hasattr(node, "position")]
    for number, node in enumerate(missing):
        points = [r.access_point for r in node.wintfs.values() if r.access_point is not None]
        if points and hasattr(points[0].node, "position") and points[0].node not in missing:
            x, y, z = points[0].node.position
            node.position = (x + APART, y, z)
        else:
            node.position = (APART * number, 0.0, 0.0)
        node.position_was_missing = True
    if missing and len(missing) < len(net.radio_nodes):
        names = ", ".join(node.name for node in missing[:4]) + ("..." if len(missing) > 4 else "")
        net.session.note(f"{names}: no position, so placed {APART:g} m apart")


def borrow_passphrases(net: Any) -> None:
    """Give stations without a passphrase that of their access point, as Mininet-WiFi does."""
    points = [radio for radio in net.radios if radio.kind == "master" and radio.passwd]
    names = []
    for node in [*net.stations, *net.cars]:
        for radio in node.wintfs.values():
            if radio.kind != "managed" or radio.passwd or not points:
                continue
            own = radio.access_point
            if own is None:
                own = min(points, key=lambda point: node.get_distance_to(point.node))
            if own.passwd and not own.wps:
                radio.passwd, radio.encrypt = own.passwd, own.encrypt
                names.append(radio.name)
    if names:
        net.session.note(f"{', '.join(names)}: no passphrase, so the access point's is used")


def configure_devices(net: Any) -> None:
    """Bring up all radios' devices and set addresses; stations without a link stay unlinked."""
    for node in net.radio_nodes:
        configure_node(net, node)


def configure_node(net: Any, node: Any) -> None:
    """Bring up the devices of a node's radios and set addresses."""
    with network_namespace(node.pid):
        rtnetlink.send([rtnetlink.link_up("lo")], f"bringing up lo of {node.name}")
        for radio in node.wintfs.values():
            _configure_device(radio)
    alone = getattr(node, "position_was_missing", False) or not net.autoAssociation
    for radio in node.wintfs.values():
        if radio.kind == "managed" and radio.access_point is None and alone:
            radio.disconnect()


def _configure_device(radio: Radio) -> None:
    """Bring up a radio's device in the current namespace, and set its addresses.

    Raises `ScriptError`.
    """
    own = [f"{radio.ip}/{radio.prefixLen}"] if radio.ip else []
    addresses = []
    for text in [*own, *radio.addresses]:
        try:
            addresses.append(ip_interface(text))
        except ValueError:
            raise ScriptError(
                f"{radio.name}: {text} is not an address: give one like 10.0.0.1/8 or fd00::1/64"
            ) from None
    try:
        requests = [rtnetlink.link_up(radio.name)]
        for address in addresses:
            flags = IFA_F_NODAD if address.version == 6 else 0
            ip, length = str(address.ip), address.network.prefixlen
            requests.append(rtnetlink.address(radio.name, ip, length, flags))
        rtnetlink.send(requests, f"{radio.name}: {', '.join(own + radio.addresses)}")
    except OSError as error:  # without an errno if there is no such interface
        raise ScriptError(error.strerror or f"{radio.name}: {error}") from None


def build_from_topo(net: Any, topo: Any) -> None:
    """Add the nodes and links of a topology, `mn_wifi.topo.Topo` or Mininet's."""
    stations = topo.stations() if hasattr(topo, "stations") else []
    points = topo.aps() if hasattr(topo, "aps") else []
    if not net.controllers and net.controller:
        classes = net.controller if isinstance(net.controller, list) else [net.controller]
        for number, cls in enumerate(classes):
            net.addController(f"c{number}", cls)
    for name in stations:
        net.addStation(name, **_without(topo.nodeInfo(name), "isStation"))
    for name in points:
        net.addAccessPoint(name, **_without(topo.nodeInfo(name), "isAP"))
    for name in topo.nodes():
        info = _without(topo.nodeInfo(name), "isHost")
        if name in stations or name in points:
            continue
        if topo.isSwitch(name):
            net.addSwitch(name, **_without(info, "isSwitch"))
        else:
            net.addHost(name, **info)
    for _one, _other, info in topo.links(sort=True, withInfo=True):
        net.addLink(**info)


def _without(options: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """Return the options of a topology's node without the one that marks its kind."""
    return {name: value for name, value in options.items() if name != mark}
