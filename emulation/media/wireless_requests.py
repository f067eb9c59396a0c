"""The requests that a wireless network answers: what they change and what they return.

Names are those of interfaces or, if a request says so, of nodes; times are seconds of
CLOCK_MONOTONIC.

    move {name, x, y [, z]}     move a node; or
    move {positions}            several at once: {node: [x, y]} or, above the plane, [x, y, z]
    position [{name}]           {"positions": {node: [x, y, z]}} in metres
    fail {name [, other]}       take down a radio or a node, or the link between two of these
    heal {name [, other]}       undo that
    set {interface, ...}        change settings of a radio: those of `WlanSettings`, and `up`
    connect {interface [, ssid] [, to] [, bssid] [, passphrase]}
                                join the strongest access point of a network, or one (`to`: its
                                interface or node)
    wps {interface [, enter [, seconds]] [, own]}
                                accept stations' PINs, have its own, or (neither) push the button
    enrol {interface [, pin] [, bssid]}     join by WPS: with a PIN, or by the button
    disconnect {interface}      leave its access point, and stay away until `connect`
    override {one, other [, level_dbm] [, loss] [, rate_mbps] [, delay] [, one_way]}
                                override these properties of a link between radios or nodes; none:
                                end the override
    policy {policy [, hysteresis_db] [, scan_interval]}
                                how stations choose
    associations [{name}]       {"associations": {station: access point or null}}, interfaces
    events {after}              {"events": [{number, time, interface, old, new}], "next"}:
                                association changes from that number on
    radios [{interface} | {node} | {netns}]
                                {"radios": [...]}: settings and state; `netns`: inode of a namespace
    scan {interface}            {"bss": [...]}: access points that it hears, strongest first
    neighbours {interface}      {"neighbours": [...]}: radios that it communicates with; `tx`, `rx`:
                                frames and bytes delivered
    levels                      {"levels": [[receiver, sender, dBm]]} of radios without access
                                points that hear each other; interfaces, mean levels;
                                if many, the strongest of each (peer_levels)
    traffic                     {"traffic": [{source, receiver, frames, bytes}]}: of each hop
    mpaths {interface}          {"paths": [...], "proxies": [...]} of a mesh radio
    links [{name}]              {"links": [...]} as of `emulation.media.scenario`, interfaces:
                                what `name` hears of `neighbour`
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from emulation.errors import first_problem
from emulation.media.control import ControlError, number_of
from emulation.media.peer_levels import peer_levels
from emulation.media.positions import position_of
from emulation.media.wireless_config import NodeConfig
from emulation.wifi.membership import MembershipError
from emulation.wifi.network import Network
from emulation.wifi.radios import Override, WlanRadio
from emulation.wifi.settings import AssociationRule, WlanSettings, channel_number

COUNTERS: Final = {
    "tx_frames": "sent",
    "tx_retries": "retries",
    "tx_failed": "retry_drops",
    "tx_dropped": "queue_drops",
    "rx_frames": "received",
    "collisions": "collisions",
    "noise_losses": "noise_losses",
    "airtime": "airtime",
}
"""Counters of a radio, with their names in `emulation.radio.counters`."""


class Requests:
    """Answers for a network whose nodes are `nodes`."""

    def __init__(self, network: Network, nodes: Sequence[NodeConfig]) -> None:
        self.network = network
        self._nodes = list(nodes)
        self._node_index = {node.name: index for index, node in enumerate(nodes)}
        self._positions = np.array([(*node.position, 0.0)[:3] for node in nodes], dtype=np.float64)
        self._by_name = {radio.interface: radio for radio in network.radios}
        self._operations = {
            "move": self._move, "position": self._position, "fail": self._fail, "heal": self._fail,
            "override": self._override, "set": self._set, "connect": self._connect,
            "wps": self._wps, "enrol": self._enrol, "disconnect": self._disconnect,
            "policy": self._policy, "associations": self._associations, "events": self._events,
            "radios": self._radios, "scan": self._scan, "neighbours": self._neighbours,
            "levels": self._levels, "mpaths": self._mpaths, "traffic": self._traffic,
            "links": self._links,
        }  # fmt: skip

    def tell_positions(self, now: float) -> None:
        """Pass the nodes' positions to the network."""
        self.network.set_positions(now, self._positions)

    def add(self, now: float, node: NodeConfig, radios: Sequence[WlanSettings]) -> None:
        """Add a node and its radios.  Raises `ControlError` if there is no room for them."""
        for name in (node.name, *(radio.interface for radio in radios)):
            if name in self._node_index or name in self._by_name:
                raise ControlError(f"add: there is a {name} already")
        if len(radios) > self.network.spare:
            raise ControlError(
                f"add: no room for {len(radios)} more radios while the network runs: add "
                f"{node.name} before it is built"
            )
        self._node_index[node.name] = len(self._nodes)
        self._nodes.append(node)
        self._positions = np.vstack([self._positions, (*node.position, 0.0)[:3]])
        for settings in radios:
            radio = self.network.add(now, settings, self._node_index[node.name])
            self._by_name[radio.interface] = radio
        self.tell_positions(now)

    def answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        """Answer a request.  Raises `ControlError`."""
        operation = self._operations.get(request["op"])
        if operation is None:
            raise ControlError(f"unknown request {request['op']!r}")
        try:
            return operation(request, now)
        except MembershipError as error:
            raise ControlError(str(error)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A defect, or a malformed request: the network must survive it.
            traceback.print_exc()
            raise ControlError(f"{request['op']}: cannot be answered: {error!r}") from None

    # Names.

    def radio(self, request: Mapping[str, Any]) -> WlanRadio:
        """Return the radio that a request names.  Raises `ControlError`."""
        name = request.get("interface")
        if not isinstance(name, str) or name not in self._by_name:
            there = ", ".join(self._by_name)
            raise ControlError(f"no such wireless interface: {name}; there are {there}")
        return self._by_name[name]

    def radios_of(self, request: Mapping[str, Any], key: str) -> list[WlanRadio]:
        """Return the radios of a node, or the one with that interface."""
        name = request.get(key)
        if isinstance(name, str) and name in self._node_index:
            return [radio for radio in self.network.radios if radio.node == name]
        if isinstance(name, str) and name in self._by_name:
            return [self._by_name[name]]
        raise ControlError(f"no such node: {name}; there are {', '.join(self._node_index)}")

    def _node(self, name: object) -> int:
        if not isinstance(name, str) or name not in self._node_index:
            raise ControlError(f"no such node: {name}; there are {', '.join(self._node_index)}")
        return self._node_index[name]

    # Positions and failures.

    def _move(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        moved = request.get("positions")
        if moved is None:
            axes = "xyz" if "z" in request else "xy"
            moved = {request.get("name"): [number_of(request, axis) for axis in axes]}
        if not isinstance(moved, dict):
            raise ControlError("move: positions must be an object {node: [x, y]}")
        wanted = [(self._node(name), position_of(at)) for name, at in moved.items()]
        for index, at in wanted:
            self._positions[index] = at
        self.tell_positions(now)
        return {}

    def _position(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        name = request.get("name")
        names = list(self._node_index) if name is None else [self._nodes[self._node(name)].name]
        return {
            "positions": {name: self._positions[self._node_index[name]].tolist() for name in names}
        }

    def _fail(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        failed = request["op"] == "fail"
        ones = self.radios_of(request, "name")
        if request.get("other") is None:
            for radio in ones:
                self.network.fail(now, radio, None, failed=failed)
            return {}
        others = self.radios_of(request, "other")
        if set(ones) & set(others):
            raise ControlError(f"{request['op']}: a link has two different ends")
        for radio in ones:
            for other in others:
                self.network.fail(now, radio, other, failed=failed)
        return {}

    def _override(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        values = {
            key: number_of(request, key)
            for key in ("level_dbm", "loss", "rate_mbps", "delay")
            if request.get(key) is not None
        }
        if not 0 <= values.get("loss", 0.0) <= 1:
            raise ControlError("override: loss is a share from 0 to 1")
        if values.get("delay", 0.0) < 0 or values.get("rate_mbps", 1.0) <= 0:
            raise ControlError("override: a delay is not negative, a rate is positive")
        override = Override(**values)
        ones, others = self.radios_of(request, "one"), self.radios_of(request, "other")
        if set(ones) & set(others):
            raise ControlError("override: a link has two different ends")
        for one in ones:
            for other in others:
                self.network.override(now, one, other, override)
                if not request.get("one_way"):
                    self.network.override(now, other, one, override)
        return {}

    # Radios.

    def _set(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        radio = self.radio(request)
        changes = {key: value for key, value in request.items() if key not in ("op", "interface")}
        up = changes.pop("up", radio.up)
        if not isinstance(up, bool):
            raise ControlError("set: up must be true or false")
        for fixed in ("node", "mac"):
            if fixed in changes:
                raise ControlError(f"set: the {fixed} of a radio cannot change")
        settings = radio.settings().model_dump() | changes
        if changes.get("channel") is not None:
            settings["frequency_mhz"] = changes.get("frequency_mhz")
        try:
            new = WlanSettings.model_validate(settings)
            key = radio.key._replace(frequency_mhz=new.frequency)
            self.network.channels.spec(key, new.standard)
        except ValidationError as error:
            raise ControlError(f"set: {first_problem(error)}") from None
        except ValueError as error:
            raise ControlError(f"set: {error}") from None
        self.network.configure(now, radio, new)
        if up != radio.up:
            radio.up = up
            self.network.retune(now, radio)
        return {}

    def _point(self, request: dict[str, Any]) -> WlanRadio | None:
        """Return the access point with a request's `bssid`; None if it has none."""
        if request.get("bssid") is None:
            return None
        bssid = str(request["bssid"]).lower()
        for radio in self.network.radios:
            if radio.mac.hex(":") == bssid and radio.mode == "master":
                return radio
        raise ControlError(f"{request['op']}: no access point has the address {bssid}")

    def _connect(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        only = self._point(request)
        if request.get("to") is not None:
            points = [radio for radio in self.radios_of(request, "to") if radio.mode == "master"]
            if not points:
                raise ControlError(f"connect: {request['to']} is not an access point")
            only = points[0]
        self.network.members.connect(
            now,
            self.radio(request),
            ssid=request.get("ssid"),
            only=only,
            passphrase=request.get("passphrase"),
        )
        return {}

    def _wps(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        seconds = number_of(request, "seconds") if "seconds" in request else math.inf
        pins: dict[str, Any] = {key: request[key] for key in ("enter", "own") if key in request}
        self.network.enrolment.change(now, self.radio(request), pins, seconds or math.inf)
        return {}

    def _enrol(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        ends = self.radio(request), self._point(request)
        self.network.enrolment.enrol(now, *ends, request.get("pin"))
        return {}

    def _disconnect(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        radio = self.radio(request)
        if not radio.is_station:
            raise ControlError(f"{radio.interface} is not a station: its mode is {radio.mode}")
        self.network.members.disconnect(now, radio)
        return {}

    def _policy(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        rule = self.network.members.rule.model_dump()
        rule |= {key: value for key, value in request.items() if key != "op"}
        try:
            self.network.members.rule = AssociationRule.model_validate(rule)
        except ValidationError as error:
            raise ControlError(f"policy: {first_problem(error)}") from None
        self.network.members.changed(now, at_once=True)
        return {}

    # State.

    def _interface(self, index: int | None) -> str | None:
        return None if index is None else self.network.radios[index].interface

    def _associations(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        chosen = self.network.radios
        if request.get("name") is not None:
            chosen = self.radios_of(request, "name")
        return {
            "associations": {
                radio.interface: self._interface(radio.access_point)
                for radio in chosen
                if radio.is_station
            }
        }

    def _events(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        after = int(number_of(request, "after")) if "after" in request else 0
        changes = self.network.members.changes
        return {
            "events": [
                {
                    "number": number,
                    "time": change.time if math.isfinite(change.time) else None,
                    "interface": self._interface(change.station),
                    "old": self._interface(change.old),
                    "new": self._interface(change.new),
                }
                for number, change in enumerate(changes[max(after, 0) :], start=max(after, 0))
            ],
            "next": len(changes),
        }

    def _radios(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        chosen = self.network.radios
        if request.get("interface") is not None:
            chosen = [self.radio(request)]
        elif request.get("node") is not None:
            chosen = self.radios_of(request, "node")
        elif request.get("netns") is not None:
            here = self.nodes_in(request["netns"])
            chosen = [radio for radio in chosen if radio.node in here]
        counters = self._counters()
        return {"radios": [self._facts(radio, now, counters) for radio in chosen]}

    def _counters(self) -> dict[str, list[float]]:
        """Return the counters of each radio, summed over all channels, by `COUNTERS`."""
        totals: dict[str, list[float]] = {name: [0] * len(self.network.radios) for name in COUNTERS}
        for channel in self.network.channels:
            for name, ours in COUNTERS.items():
                counted = getattr(channel.medium.counters, ours)
                totals[name] = list(map(add, totals[name], counted))
        return totals

    def nodes_in(self, netns: object) -> set[str]:
        """Return the nodes in a network namespace, by its inode."""
        names = set()
        for node in self._nodes:
            with suppress(OSError):  # its process is gone
                if Path(f"/proc/{node.pid}/ns/net").stat().st_ino == netns:
                    names.add(node.name)
        return names

    def _facts(
        self, radio: WlanRadio, now: float, counters: Mapping[str, Sequence[float]]
    ) -> dict[str, Any]:
        channels = self.network.channels
        channel = channels.of(radio.index)
        tuned = radio.key if channel is None else channel.key
        point = None if radio.access_point is None else self.network.radios[radio.access_point]
        return {
            "number": radio.index,
            **radio.settings().model_dump(exclude={"channel", "range", "frequency_mhz"}),
            "frequency_mhz": tuned.frequency_mhz,
            "channel": channel_number(tuned.frequency_mhz),
            "range": channels.range(radio) if radio.reach is None else radio.reach,
            "up": radio.up and not radio.failed,
            "bssid": None if point is None else point.mac.hex(":"),
            "network": radio.ssid if point is None else point.ssid,
            "connected_to": self._interface(radio.access_point),
            "connected_seconds": _since(radio, now),
            "signal_dbm": None if point is None else self._level(point, radio),
            "rate_mbps": None if point is None else channels.rate_mbps(radio.index, point.index),
            "back_mbps": None if point is None else channels.rate_mbps(point.index, radio.index),
            "stations": [station.interface for station in self.network.members.stations_of(radio)],
            "counters": {name: values[radio.index] for name, values in counters.items()},
        }

    def _level(self, source: WlanRadio, receiver: WlanRadio) -> float:
        """Return the level at which a radio hears another, dBm."""
        channel = self.network.channels.at(source.key, source.standard)
        levels = channel.medium.table.levels([source.index], [receiver.index])
        return round(float(levels[0, 0]), 2)

    def _scan(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        radio = self.radio(request)
        return {
            "bss": [
                {
                    "interface": point.interface,
                    "bssid": point.mac.hex(":"),
                    "ssid": point.ssid,
                    "frequency_mhz": point.frequency_mhz,
                    "channel": channel_number(point.frequency_mhz),
                    "signal_dbm": round(level, 2),
                    "security": point.security,
                    "standard": point.standard,
                    "associated": radio.access_point == point.index,
                    "stations": len(self.network.members.stations_of(point)),
                }
                for point, level, *_ in self.network.members.heard(radio)
            ]
        }

    def _neighbours(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        radio, channels = self.radio(request), self.network.channels
        channel = channels.of(radio.index)
        if channel is None:
            return {"neighbours": []}
        return {
            "neighbours": [
                {
                    "interface": peer.interface,
                    "node": peer.node,
                    "mac": peer.mac.hex(":"),
                    "signal_dbm": self._level(peer, radio),
                    "tx_mbps": channels.rate_mbps(radio.index, peer.index),
                    "rx_mbps": channels.rate_mbps(peer.index, radio.index),
                    "tx": self.network.traffic.get((radio.index, peer.index), (0, 0)),
                    "rx": self.network.traffic.get((peer.index, radio.index), (0, 0)),
                    "connected_seconds": _since(peer if radio.mode == "master" else radio, now),
                    "airtime_us": channels.airtime(radio.index, peer.index),
                }
                for peer in self.network.peers(radio)
            ]
        }

    def _levels(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        return {"levels": peer_levels(self.network)}

    def _mpaths(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        radio = self.radio(request)
        mesh = self.network.mesh(radio.index)
        if mesh is None:
            raise ControlError(f"{radio.interface} is not in a mesh: its mode is {radio.mode}")
        return {
            "paths": [
                {
                    "destination": address.hex(":"),
                    "next_hop": None
                    if path.next_hop is None
                    else self.network.radios[path.next_hop].mac.hex(":"),
                    "sequence": path.sequence or 0,
                    "metric": path.metric,
                    "waiting": len(path.waiting),
                    "expires_ms": max(0, round(1000 * (path.expires - now)))
                    if math.isfinite(path.expires)
                    else 0,
                    "requests": path.requests,
                    "hops": path.hops,
                    "active": path.active(now),
                }
                for address, path in mesh.paths.items()
            ],
            "proxies": [
                {"destination": address.hex(":"), "proxy": proxy.hex(":")}
                for address, proxy in mesh.proxies.items()
            ],
        }

    def _traffic(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        return {
            "traffic": [
                {
                    "source": self._interface(source),
                    "receiver": self._interface(receiver),
                    "frames": frames,
                    "bytes": size,
                }
                for (source, receiver), (frames, size) in self.network.traffic.items()
            ]
        }

    def _links(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        chosen = {radio.index for radio in self.network.radios}
        if request.get("name") is not None:
            chosen = {radio.index for radio in self.radios_of(request, "name")}
        rows = []
        for sender in self.network.radios:
            channel = self.network.channels.of(sender.index)
            for link in channel.medium.links(sender.index) if channel is not None else ():
                if link.neighbour in chosen:
                    assert channel is not None
                    row = link._asdict() | {"name": self._interface(link.neighbour)}
                    row |= {"neighbour": sender.interface, "channel": channel.name}
                    rows.append((link.neighbour, row))
        return {"links": [row for _, row in sorted(rows, key=itemgetter(0))]}


def _since(radio: WlanRadio, now: float) -> float | None:
    if radio.since is None:
        return None
    return round(now - radio.since, 3) if math.isfinite(radio.since) else 0.0
