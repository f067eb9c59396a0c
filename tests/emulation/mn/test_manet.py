"""Routing on a script's radios: batman-adv's addresses, daemons, and what is said without them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from emulation.mn.manet import start
from emulation.mn.session import ScriptError, Session, SessionSpec


class _Node:
    """A node on whose kernel commands end as they are told."""

    def __init__(self, name: str, said: Mapping[str, str]) -> None:
        self.name, self._said = name, said
        self.commands: list[str] = []

    def cmd(self, command: str) -> str:
        self.commands.append(command)
        return next((text for start, text in self._said.items() if command.startswith(start)), "")


class _Net:
    def __init__(self, folder: Path) -> None:
        script = folder / "script.py"
        self.session = Session(SessionSpec(script=script, folder=folder, state=folder))
        self.batman_nodes: dict[int, str] = {}

    def start(self, name: str, said: Mapping[str, str] | None = None) -> list[str]:
        """Give a new node's radio to batman-adv; return the commands."""
        node = _Node(name, said or {})
        radio: Any = SimpleNamespace(node=node, name=f"{name}-wlan0")
        start(self, radio, {"proto": "batman_adv"})
        return node.commands


def test_a_radio_goes_to_batman_with_the_address_of_its_nodes_number(tmp_path: Path) -> None:
    net = _Net(tmp_path)
    assert net.start("sta254")[1:] == [
        "ip link set dev sta254-wlan0 master bat0",
        "ip link set dev bat0 up",
        "ip addr replace 192.168.123.254/24 dev bat0",
    ]
    net.start("sta254", {"ip link add": "RTNETLINK answers: File exists"})  # its second radio
    assert net.session.limits == []


@pytest.mark.parametrize("name", ["sta0", "sta255", "car7", "car"])
def test_a_node_without_an_address_of_its_own_is_refused(name: str, tmp_path: Path) -> None:
    net = _Net(tmp_path)
    net.start("sta1")
    net.start("sta7")
    with pytest.raises(
        ScriptError, match=f"{name} would be .*: give its name a number from 1 to 254"
    ):
        net.start(name)


def test_a_kernel_without_the_module_is_a_limit_and_any_other_failure_an_error(
    tmp_path: Path,
) -> None:
    net = _Net(tmp_path)
    assert len(net.start("sta300", {"ip link add": "Error: Unknown device type.\r\n"})) == 1
    assert "this kernel lacks the module" in net.session.limits[0]
    for command in ("ip link add", "ip link set dev sta1-wlan0", "ip link set dev bat0", "ip addr"):
        with pytest.raises(ScriptError, match=f"{command}.* at sta1: RTNETLINK .* No such device"):
            net.start("sta1", {command: "RTNETLINK answers: No such device\r\n"})


class _Shell(_Node):
    """A node whose commands are run, but for those of the kernel's."""

    def cmd(self, command: str) -> str:
        self.commands.append(command)
        if not command.startswith("sysctl"):
            subprocess.run(["sh", "-c", f"{command.removesuffix('&')}"], check=True)
        return ""


DAEMONS: Final = {
    "babel": ("babeld", "-w -d 1 -I {state}.pid -S {state}.state sta1-wlan0"),
    "batmand": ("batmand", "-d 1 sta1-wlan0"),
    "olsrd": ("olsrd", "-i sta1-wlan0 -d 0 -d 1"),
    "olsrd2": ("olsrd2_static", "sta1-wlan0 -d 1"),
}


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(name, marks=[pytest.mark.root] * (name == "batmand")) for name in DAEMONS],
)
def test_a_daemon_gets_its_radio_its_arguments_and_forwarding(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, arguments = DAEMONS[protocol]
    stub = tmp_path / "bin" / program
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "started with $@"\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
    net, node = _Net(tmp_path), _Shell("sta1", {})
    net.session.logs.mkdir()
    radio: Any = SimpleNamespace(node=node, name="sta1-wlan0")
    start(net, radio, {"proto": protocol, "proto_args": "-d 1"})
    forwarding = "sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
    assert node.commands[0] == forwarding
    wanted = arguments.format(state=tmp_path / f"sta1-wlan0.{program}")
    log = net.session.logs / f"sta1-wlan0-{program}.log"
    assert log.read_text() == f"started with {wanted}\n"
    assert net.session.limits == []


@pytest.mark.parametrize("protocol", [*DAEMONS, "aodv"])
def test_a_daemon_that_is_missing_is_a_limit_with_advice(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    net, node = _Net(tmp_path), _Node("sta1", {})
    radio: Any = SimpleNamespace(node=node, name="sta1-wlan0")
    start(net, radio, {"proto": protocol})
    assert node.commands == []
    advice = {"babel": "babeld is missing; apt-get install babeld",
              "batmand": "batmand is missing; apt-get install batmand",
              "olsrd": "olsrd is missing; Debian does not package it",
              "olsrd2": "olsrd2_static is missing; Debian does not package it",
              "aodv": "a kernel module from 2010"}[protocol]  # fmt: skip
    (limit,) = net.session.limits
    assert limit.startswith(f"proto={protocol!r}: no routing daemon is started: ")
    assert advice in limit
    with pytest.raises(ScriptError, match="proto='rip': choose from babel, batmand"):
        start(net, radio, {"proto": "rip"})
