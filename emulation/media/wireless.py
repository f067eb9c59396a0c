"""The medium of a wireless network whose radios differ: TAP devices, and a network in between.

    python -m emulation.media.wireless CONFIG.json

Theory of operation.  The process opens every radio's TAP device inside the namespace of its node:
a frame read from a device is sent by the radio, and a frame that arrives at a radio is written to
its device.  In between lies `emulation.wifi.network`.  Behind an access point's device is whatever
its node puts there, usually a bridge, which learns from a layer 2 update where a station that has
just associated is.

CONFIG.json is a `WirelessConfig`.  Requests are those of `emulation.media.wireless_requests` and

    add {node, radios}          add a node (`NodeConfig`) with its radios (`WlanSettings`)
    monitor {interface, name [, netns | node]}
                                make a monitor of a radio in the radio's namespace or another
    unmonitor {name [, netns | node]}
    monitors                    {"monitors": [{name, interface, netns}]}
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emulation.errors import first_problem
from emulation.media.config import TapError
from emulation.media.control import ControlError
from emulation.media.device import DeviceError, Tap
from emulation.media.monitors import Monitors
from emulation.media.service import serve
from emulation.media.taps import TapService
from emulation.media.wireless_config import NodeConfig, WirelessConfig
from emulation.media.wireless_requests import Requests
from emulation.wifi.layer2_update import layer2_update
from emulation.wifi.network import Network
from emulation.wifi.settings import WlanSettings


class WirelessMedium(TapService):
    """The devices and the network.  Raises `DeviceError`, `ControlError` and `TapError`."""

    def __init__(self, config: WirelessConfig) -> None:
        self.config = config
        self._pids = {node.name: node.pid for node in config.nodes}
        try:
            self._network = Network(
                [node.name for node in config.nodes],
                config.radios,
                config.radio,
                lambda purpose: random.Random(f"{config.seed}/{purpose}"),
                config.association,
                config.threshold_dbm,
                config.fading_db,
                config.spare,
            )
        except ValueError as error:
            raise TapError(str(error)) from None
        self._requests = Requests(self._network, config.nodes)
        self._monitors = Monitors(self._network, config.captures)
        self._announced = 0
        """Number of association changes announced to the bridges."""
        self._requests.tell_positions(time.monotonic())
        super().__init__(config.control)

    @property
    def size(self) -> int:
        return len(self._network.radios)

    def devices(self) -> Iterator[Tap]:
        return (self._device(radio, self._pids[radio.node]) for radio in self.config.radios)

    def _device(self, radio: WlanSettings, pid: int) -> Tap:
        config, queue = self.config, self.config.radio.queue_frames
        return Tap(pid, radio.interface, radio.mac, config.mtu, queue, ipv6=config.ipv6)

    def close_devices(self) -> None:
        self._monitors.close()
        super().close_devices()

    def send(self, now: float, number: int, frame: bytes) -> None:
        self._network.send(now, number, frame)

    def gone(self, now: float, number: int) -> str:
        radio = self._network.radios[number]
        self._network.fail(now, radio, None, failed=True)
        return radio.interface

    def pass_time(self, now: float) -> float:
        self.catch_up(now)
        return self._network.next_event()

    def catch_up(self, now: float) -> None:
        for arrival in self._network.advance(now):
            self.write(self.fds[arrival.radio], arrival.frame)
            self.lateness.add(time.monotonic() - arrival.time)
        changes = self._network.members.changes
        while self._announced < len(changes):
            change = changes[self._announced]
            self._announced += 1
            if change.new is not None:
                frame = layer2_update(self._network.radios[change.station].mac)
                self.write(self.fds[change.new], frame)

    # Requests.

    def answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        match request["op"]:
            case "add":
                self._add(request, now)
            case "monitor":
                self._monitor(request)
            case "unmonitor":
                pids = {self._pids[node] for node in self._nodes_meant(request)}
                self._monitors.remove(str(request.get("name")), pids)
            case "monitors":
                return {
                    "monitors": [
                        {"name": name, "interface": radio.interface, "netns": _netns(pid)}
                        for name, pid, radio in self._monitors.names()
                    ]
                }
            case "radios":
                answer = self._requests.answer(request, now)
                for facts in answer["radios"]:
                    index = self._index(facts["interface"])
                    names = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")
                    facts["traffic"] = dict(zip(names, self.taps[index].traffic(), strict=True))
                return answer
            case _:
                return self._requests.answer(request, now)
        return {}

    def _add(self, request: Mapping[str, Any], now: float) -> None:
        try:
            node = NodeConfig.model_validate(request.get("node"))
            radios = [WlanSettings.model_validate(radio) for radio in request.get("radios", ())]
        except ValidationError as error:
            raise ControlError(f"add: {first_problem(error)}") from None
        devices: list[Tap] = []
        try:
            for radio in radios:
                devices.append(self._device(radio, node.pid))
            self._requests.add(now, node, radios)
        except (ControlError, DeviceError) as error:
            for device in devices:
                device.close()
            raise ControlError(str(error)) from None
        self._pids[node.name] = node.pid
        for device in devices:
            self.take(device)

    def _index(self, interface: str) -> int:
        return self._requests.radio({"interface": interface}).index

    def _nodes_meant(self, request: Mapping[str, Any]) -> set[str]:
        """Return the nodes whose namespaces a request means."""
        if request.get("netns") is not None:
            return self._requests.nodes_in(request["netns"])
        if request.get("node") is not None:
            return {radio.node for radio in self._requests.radios_of(request, "node")}
        return set(self._pids)

    def _monitor(self, request: Mapping[str, Any]) -> None:
        radio = self._requests.radio(request)
        name = request.get("name")
        if not isinstance(name, str):
            raise ControlError("monitor: a name for the device is missing")
        named = "netns" in request or "node" in request
        nodes = sorted(self._nodes_meant(request)) if named else [radio.node]
        if not nodes:
            raise ControlError("monitor: there is no such node")
        self._monitors.add(radio, name, self._pids[nodes[0]])

    def own_statistics(self) -> dict[str, Any]:
        counters: dict[str, list[float]] = {}
        for channel in self._network.channels:
            for name, values in channel.medium.counters.as_dict().items():
                sums = counters.setdefault(name, [0] * len(values))
                counters[name] = [one + other for one, other in zip(sums, values, strict=True)]
        changes = self._network.members.changes
        interfaces = [radio.interface for radio in self._network.radios]
        return {
            "names": interfaces,
            "counters": {name: sums[: self.size] for name, sums in counters.items()},
            "lost": dict(self._network.lost),
            "tap_drops": dict(zip(interfaces, self.drops(), strict=True)),
            "handovers": sum(None not in (change.old, change.new) for change in changes),
            "monitor_drops": self._monitors.drops,
        }


def _netns(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None


def main(arguments: list[str]) -> int:
    """Run the medium; return the exit code."""
    return serve(arguments, "emulation.media.wireless", WirelessConfig, WirelessMedium)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
