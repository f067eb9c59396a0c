"""What the kernel makes of rtnetlink requests, by the words of iproute2."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from capture.namespaces import network_namespace
from emulation.media import rtnetlink
from nodeapp.installation import PROJECT

MAC = "02:00:00:00:00:07"


@pytest.fixture
def namespaces() -> Iterator[tuple[int, int]]:
    """Two processes, each in a network namespace of its own."""
    with ExitStack() as ending:
        pids = []
        for _ in range(2):
            process = ending.enter_context(
                subprocess.Popen(
                    ["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE
                )
            )
            ending.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            pids.append(process.pid)
        yield pids[0], pids[1]


def shown(*words: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", "-json", *words], capture_output=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.root
def test_an_address_may_be_on_no_connected_network(namespaces: tuple[int, int]) -> None:
    one, other = namespaces
    with network_namespace(one):
        rtnetlink.send([rtnetlink.veth("radio", MAC, "far", other)], "a pair")
        flags = rtnetlink.IFA_F_NOPREFIXROUTE
        own = rtnetlink.address("radio", "10.0.0.7", 8, flags, "10.255.255.255")
        rtnetlink.send([own, rtnetlink.link_up("radio")], "setting up")
        (address,) = shown("-4", "address", "show", "radio")[0]["addr_info"]
        assert (address["prefixlen"], address["broadcast"]) == (8, "10.255.255.255")
        assert shown("-4", "route") == []


@pytest.mark.root
def test_the_kernel_has_what_was_requested(namespaces: tuple[int, int]) -> None:
    one, other = namespaces
    with network_namespace(one):
        rtnetlink.send([rtnetlink.veth("radio", MAC, "far", other)], "a pair")
        requests = [
            rtnetlink.link_up("lo"),
            rtnetlink.address("radio", "10.0.0.7", 8),
            rtnetlink.link_up("radio"),
            rtnetlink.address("radio", "fd00::7", 64, rtnetlink.IFA_F_NODAD),
        ]
        rtnetlink.send(requests, "setting up")
        index = socket.if_nametoindex("radio")
        entries = [rtnetlink.neighbour(index, f"10.0.1.{n}", MAC) for n in range(1, 200)]
        for _ in range(2):  # an entry that is there is replaced
            rtnetlink.send(entries, "entries")
        (link,) = shown("address", "show", "radio")
        assert link["address"] == MAC
        assert "UP" in link["flags"]
        addresses = [each for each in link["addr_info"] if each["family"] == "inet"]
        assert [(each["local"], each["prefixlen"]) for each in addresses] == [("10.0.0.7", 8)]
        (own,) = [each for each in link["addr_info"] if each["local"] == "fd00::7"]
        assert (own["prefixlen"], own["nodad"]) == (64, True)
        assert "tentative" not in own
        assert "UP" in shown("link", "show", "lo")[0]["flags"]
        neighbours = shown("neigh", "show", "nud", "permanent")
        assert len(neighbours) == 199
        assert {(each["dev"], each["lladdr"]) for each in neighbours} == {("radio", MAC)}
        with pytest.raises(OSError, match="setting up refused: File exists"):
            rtnetlink.send(requests, "setting up")
        with pytest.raises(OSError, match="no interface"):
            rtnetlink.link_up("nothing")
    with network_namespace(other):
        assert shown("link", "show", "far")[0]["operstate"] == "DOWN"


@pytest.mark.root
def test_a_radio_that_is_brought_up_keeps_its_flags(namespaces: tuple[int, int]) -> None:
    one, other = namespaces
    with network_namespace(one):
        rtnetlink.send([rtnetlink.veth("radio", MAC, "far", other)], "a pair")
        rtnetlink.bring_up("radio")
        assert {"UP", "MULTICAST", "BROADCAST"} <= set(shown("link", "show", "radio")[0]["flags"])


def test_a_run_loads_no_library_that_it_does_not_use() -> None:
    check = "import sys, emulation.network.net; print({'setuptools'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
