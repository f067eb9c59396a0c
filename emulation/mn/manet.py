"""Routing daemons that a script chooses with `proto=`, if they are installed, with their options.

They run on the node's radio in its namespace and end with the network.  batman-adv is not a daemon
but a kernel module: if the kernel has it, it gets the radio.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from emulation.mn.session import ScriptError, Session
from emulation.network.processes import OWN_RUN_FOLDER

# `-w`: babeld asks for wireless extensions, which a TAP device lacks, and would take it for a wire.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "babel": ("babeld", "babeld -w {args} -I {state}.pid -S {state}.state {intf}"),
        "batmand": ("batmand", f"{shlex.join(OWN_RUN_FOLDER)} batmand {{args}} {{intf}}"),
        "olsrd": ("olsrd", "olsrd -i {intf} -d 0 {args}"),
        "olsrd2": ("olsrd2_static", "olsrd2_static {intf} {args}"),
    }
)
"""By protocol: the program, and the command that starts it."""
PACKAGES: Final[Mapping[str, str]] = MappingProxyType({"babeld": "babeld", "batmand": "batmand"})
"""Debian packages of the programs that Debian has."""
NOT_THERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "batman_adv": "this kernel lacks the module batman-adv; the virtual machine's has it",
        "aodv": "Mininet-WiFi's aodv is a kernel module from 2010, and the testbed's AODV routes "
        "its own datagrams, not IP: `run TOPOLOGY broker-aodv`",
    }
)
NO_MODULE: Final = ("Unknown device type", "Operation not supported")
"""Messages of iproute2 about a device type that the kernel lacks."""


def start(net: Any, radio: Any, params: Mapping[str, Any]) -> None:
    """Start the daemon that a link asks for on its radio; report a missing one as a limit."""
    name, arguments = str(params["proto"]), str(params.get("proto_args") or "")
    wish = f"proto={name!r}"
    if name == "batman_adv" and _batman(net, radio):
        return
    if name in NOT_THERE:
        net.session.limit(wish, f"no routing daemon is started: {NOT_THERE[name]}")
        return
    if name not in COMMANDS:
        raise ScriptError(f"{wish}: choose from " + ", ".join([*COMMANDS, *NOT_THERE]))
    program, command = COMMANDS[name]
    if shutil.which(program) is None:
        package = PACKAGES.get(program)
        advice = f"apt-get install {package}" if package else "Debian does not package it"
        net.session.limit(wish, f"no routing daemon is started: {program} is missing; {advice}")
        return
    state = net.session.spec.state / f"{radio.name}.{program}"
    words = command.format(args=arguments, intf=radio.name, state=state)
    radio.node.cmd("sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    log = net.session.logs / f"{radio.name}-{program}.log"
    radio.node.cmd(f"{words} >{log} 2>&1 &")


def _batman(net: Any, radio: Any) -> bool:
    """Add a radio to its node's batman-adv device; return False if the kernel lacks batman-adv.

    Raises `ScriptError` if a command fails, or if the node's address is not unique.
    """
    node = radio.node
    complaint = _complaint(node, "ip link add name bat0 type batadv")
    if any(reason in complaint for reason in NO_MODULE):
        return False
    if complaint and "File exists" not in complaint:  # another radio of the node created it
        raise ScriptError(f"proto='batman_adv': ip link add name bat0 at {node.name}: {complaint}")
    number = _number_of(net, node)
    for command in (
        f"ip link set dev {radio.name} master bat0",
        "ip link set dev bat0 up",
        f"ip addr replace 192.168.123.{number}/24 dev bat0",  # Mininet-WiFi's
    ):
        complaint = _complaint(node, command)
        if complaint:
            raise ScriptError(f"proto='batman_adv': {command} at {node.name}: {complaint}")
    return True


def _complaint(node: Any, command: str) -> str:
    """Return on one line the output of a command that should print nothing."""
    return " ".join(str(node.cmd(command)).split())


def _number_of(net: Any, node: Any) -> int:
    """Return the number in a node's name, the last byte of its address; 1 if it has none."""
    digits = re.search(r"\d+", node.name)
    number = int(digits.group()) if digits else 1
    advice = "give its name a number from 1 to 254 that no other node with batman_adv has"
    if not 1 <= number <= 254:
        raise ScriptError(
            f"proto='batman_adv': {node.name} would be 192.168.123.{number}: {advice}"
        )
    owner = net.batman_nodes.setdefault(number, node.name)
    if owner != node.name:
        raise ScriptError(
            f"proto='batman_adv': {node.name} would be 192.168.123.{number}, as {owner} is: "
            f"{advice}"
        )
    return number


class RoutingDaemon:
    """A class of `mn_wifi.manetRoutingProtocols`: one for each daemon's name."""

    name: ClassVar[str]
    session: ClassVar[Session]
    """The run; like `name`, set in a subclass (`emulation.mn.provided`)."""

    @classmethod
    def load_module(cls, interfaces: Any = None) -> None:
        """Report that no kernel module is loaded."""
        wish = f"{cls.name}.load_module({interfaces or ''})"
        cls.session.limit(wish, NOT_THERE.get(cls.name, "it is not a kernel module"))
