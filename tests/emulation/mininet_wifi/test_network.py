"""The order of the calls to Mininet-WiFi, by a double that records them; runs are in the guest."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import Any

import pytest

from emulation.mininet_wifi import network
from emulation.mininet_wifi.network import MininetWifiError, MininetWifiNetwork
from emulation.mininet_wifi.settings import settings_of
from topologies.catalog import make_scenario

MARK = {"PUBSUB_TESTBED_RUN": "1-2"}


class FakeNode:
    """An access point that records its calls; its namespace is that of the test."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self.pid = os.getpid()
        self.params: dict[str, Any] = {"wlan": [f"{name}-wlan1", f"{name}-wlan2"]}
        self.wmIfaces: list[Any] = [None, None]
        self.commands: list[str] = []

    def cmd(self, words: str) -> str:
        self.commands.append(words)
        return "type mesh point" if words.endswith("info") else ""


class FakeLink:
    """The mesh interface that Mininet-WiFi makes."""

    def __init__(self, node: FakeNode, arguments: dict[str, Any]) -> None:
        self.node = node
        self.arguments = arguments
        self.name = f"{node.name}-mp2"
        node.params["wlan"][1] = self.name
        node.commands.append(f"mesh on {arguments['intf']}")

    def rename(self, name: str) -> None:
        self.node.commands.append(f"{self.name} becomes {name}")
        self.name = name

    def configureMesh(self) -> None:  # noqa: N802
        self.node.commands.append("join")


class Recording:
    """The methods of Mininet_wifi that are called, with the mark that its children would carry."""

    def __init__(self, fails: bool = False, **arguments: Any) -> None:
        self.calls: list[tuple[str, str | None]] = []
        self.stations: list[Any] = []
        self.aps: list[Any] = []
        self.fails = fails

    def _note(self, name: str) -> None:
        self.calls.append((name, os.environ.get("PUBSUB_TESTBED_RUN")))

    def setPropagationModel(self, **arguments: Any) -> None:  # noqa: N802
        self._note("setPropagationModel")

    def addAccessPoint(self, name: str, **arguments: Any) -> Any:  # noqa: N802
        self._note(f"addAccessPoint {name}")
        point = FakeNode(name, arguments)
        self.aps.append(point)
        return point

    def addLink(self, node: Any, **arguments: Any) -> Any:  # noqa: N802
        self._note("addLink")
        return FakeLink(node, arguments)

    def configureNodes(self) -> None:  # noqa: N802
        self._note("configureNodes")
        if self.fails:
            raise SystemExit(1)  # as Mininet-WiFi does if radios are missing


def made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False
) -> tuple[MininetWifiNetwork, Recording]:
    monkeypatch.setattr(
        network, "enter_private_namespaces", lambda: os.open("/dev/null", os.O_RDONLY)
    )
    scenario = make_scenario(
        "roaming_field", "flooding", seed=1, duration=60, settings={"nodes": 8}
    )
    whole = MininetWifiNetwork(scenario.nodes, settings_of(scenario), MARK, tmp_path, tmp_path)
    whole.net = double = Recording(fails)
    return whole, double


def test_the_model_is_set_before_wmediumd_starts_and_all_carries_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUBSUB_TESTBED_RUN", raising=False)
    before = dict(os.environ)
    whole, double = made(tmp_path, monkeypatch)
    whole.start_radios()
    assert double.calls == [("setPropagationModel", "1-2"), ("configureNodes", "1-2")]
    assert dict(os.environ) == before  # no other child process may carry it


def test_its_exit_becomes_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = made(tmp_path, monkeypatch, fails=True)
    with pytest.raises(MininetWifiError, match="cannot make its radios: SystemExit: 1") as refused:
        whole.start_radios()
    assert "\n" not in str(refused.value)


@pytest.fixture
def their_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, dict[str, Any]] = {
        "mn_wifi": {},
        "mn_wifi.link": {"mesh": object(), "adhoc": object()},
        "mn_wifi.wmediumdConnector": {"DynamicIntfRef": lambda node, intf: (node.name, intf)},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)


def test_access_points_share_a_namespace_and_have_the_ports_of_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, their_modules: None
) -> None:
    monkeypatch.delenv("PUBSUB_TESTBED_RUN", raising=False)
    monkeypatch.setattr(network, "_access_point_class", lambda: object)
    monkeypatch.setattr(network, "disable_ipv6", lambda: None)
    monkeypatch.setattr(network, "network_namespace", lambda pid: nullcontext())
    scenario = make_scenario("mesh_grid", "flooding", seed=1, duration=60, settings={"side": 2})
    whole = MininetWifiNetwork(scenario.nodes, settings_of(scenario), MARK, tmp_path, tmp_path)
    whole.net = double = Recording()
    for spec in scenario.access_points:
        whole.addAccessPoint(spec.name, spec, environment=MARK)
    assert [point.arguments["home"] for point in double.aps] == [None, *[os.getpid()] * 3]
    first = double.aps[0]
    spec = scenario.access_points[0]
    assert first.arguments["mac"] == [spec.bssid, spec.mesh_mac]
    assert first.params["wlan"][0] == "ap1-wlan0"
    assert first.commands == [f"cd {tmp_path}"]  # so its files go there
    whole.join_mesh(first)
    assert first.commands[1:] == [
        "mesh on ap1-wlan2",
        "iw dev ap1-wlan2 del",
        "ap1-mp2 becomes ap1-mesh0",
        "join",
        "iw dev ap1-mesh0 set mesh_param mesh_fwding 0",
        "iw dev ap1-mesh0 info",
    ]
    assert first.params["wlan"] == ["ap1-wlan0", "ap1-mesh0"]
    assert first.wmIfaces[1] == ("ap1", "ap1-mesh0")  # the interface that wmediumd knows
    assert {mark for _, mark in double.calls} == {"1-2"}


def test_radios_of_an_earlier_run_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "RADIOS", tmp_path)
    monkeypatch.setattr(network, "RADIOS_LIMIT", 0.2)
    (tmp_path / "mn00000p00s00").mkdir()  # another process's
    network.await_no_radios()
    (own := tmp_path / f"mn{os.getpid():05d}p00s00").mkdir()
    with pytest.raises(MininetWifiError, match="radios of the previous run"):
        network.await_no_radios()
    monkeypatch.setattr(network, "RADIOS_LIMIT", 10.0)
    Timer(0.1, own.rmdir).start()
    network.await_no_radios()
    assert not own.exists()
