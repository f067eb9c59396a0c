"""Requests to a wireless network, without devices: what they answer, and what they refuse."""

from __future__ import annotations

import os
from typing import Any

import pytest

from emulation.media.control import ControlError
from emulation.media.wireless_config import NodeConfig
from emulation.media.wireless_requests import Requests
from tests.emulation.wifi.lab import Lab


def _requests(lab: Lab) -> Requests:
    nodes = [NodeConfig(name=name, pid=os.getpid()) for name in lab.names]
    return Requests(lab.network, nodes)


def test_a_radio_that_has_never_been_on_a_channel_has_facts_too() -> None:
    (facts,) = _requests(Lab({"a": {}}, [(0, 0)])).answer({"op": "radios"}, 0.0)["radios"]
    assert facts["connected_to"] is None
    assert facts["counters"]["tx_frames"] == 0
    assert facts["range"] > 0


def test_several_nodes_move_at_once_and_links_are_overridden_both_ways() -> None:
    lab = Lab({"ap": {"mode": "master", "ssid": "x"}, "a": {}}, [(0, 0), (0, 0)])
    requests = _requests(lab)
    requests.answer({"op": "move", "positions": {"ap": [0, 0], "a": [3, 0, 900]}}, lab.now)
    lab.let_pass(1.0)
    asked: dict[str, Any] = {"op": "associations"}
    assert requests.answer(asked, lab.now) == {"associations": {"a": None}}
    requests.answer({"op": "override", "one": "a", "other": "ap", "level_dbm": -50}, lab.now)
    lab.let_pass(1.0)
    assert requests.answer(asked, lab.now) == {"associations": {"a": "ap"}}
    (facts,) = requests.answer({"op": "radios", "node": "a"}, lab.now)["radios"]
    assert facts["signal_dbm"] == -50
    assert requests.answer({"op": "events", "after": 2}, lab.now)["events"][0]["new"] == "ap"


def test_levels_of_many_radios_without_access_points_are_those_of_the_strongest() -> None:
    def senders(count: int) -> dict[str, list[str]]:
        # On a line, 1 m apart, in turn of two cells; and one outside of any.
        radios = {f"r{number}": {"mode": "adhoc", "ssid": "xy"[number % 2]}
                  for number in range(count - 1)}  # fmt: skip
        lab = Lab(radios | {"o": {"mode": "ocb"}}, [(float(x), 0) for x in range(count)])
        found: dict[str, list[str]] = {}
        for receiver, sender, level in _requests(lab).answer({"op": "levels"}, 0.0)["levels"]:
            found.setdefault(receiver, []).append(sender)
            assert -91 <= level < 0
        return found

    few = senders(30)
    assert set(few) == {f"r{number}" for number in range(29)}
    assert few["r0"] == [f"r{number}" for number in range(2, 29, 2)]
    many = senders(31)
    assert many["r0"] == [f"r{number}" for number in range(2, 17, 2)]
    assert many["r15"] == [f"r{number}" for number in (7, 9, 11, 13, 17, 19, 21, 23)]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"op": "fly"}, "unknown request 'fly'"),
        ({"op": "move", "positions": {"a": "here"}}, r"a position is \[x, y\] or \[x, y, z\]"),
        ({"op": "override", "one": "a", "other": "a"}, "a link has two different ends"),
        ({"op": "override", "one": "a", "other": "ap", "loss": 2}, "a share from 0 to 1"),
        ({"op": "set", "interface": "a", "mac": "x"}, "the mac of a radio cannot change"),
        ({"op": "set", "interface": "a", "power": 3}, "power: there is no such field"),
        ({"op": "policy", "policy": "best"}, "policy: must be one of 'sticky', 'ssf' or 'llf'"),
        ({"op": "connect", "interface": "a", "to": "a"}, "a is not an access point"),
        ({"op": "connect", "interface": "ap"}, "ap is not a station: mode master"),
        ({"op": "mpaths", "interface": "a"}, "a is not in a mesh: its mode is managed"),
        ({"op": "events", "after": []}, "after must be a number"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(request_: dict[str, Any], message: str) -> None:
    lab = Lab({"ap": {"mode": "master", "ssid": "x"}, "a": {}}, [(0, 0), (0, 0)])
    with pytest.raises(ControlError, match=message) as refused:
        _requests(lab).answer(request_, lab.now)
    assert "\n" not in str(refused.value)
