"""batman-adv on a script's radios: addresses, and what is said if a command fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulation.scripts.manet import start
from emulation.scripts.session import ScriptError, Session, SessionSpec


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
    with pytest.raises(ScriptError, match=f"{name} would be .*: call it by a number from 1 to 254"):
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
