"""Meshes over several hops: paths, their metric, broken links, groups, hosts behind mesh radios."""

from __future__ import annotations

import math

from emulation.radio.air import Transmission
from emulation.radio.errors import log_survival
from emulation.wifi.packets import MOST_BROKEN, Packet, Perr
from emulation.wifi.radios import WlanChannel
from tests.emulation.wifi.lab import GROUP, Lab

MESH = {"mode": "mesh", "ssid": "m"}
BEHIND = b"\x02\xaa\x00\x00\x00\x01"
HERE = b"\x02\xaa\x00\x00\x00\x02"
HOP = 70.0
"""Metres: radios at exponent 4 hear each other up to some 80 m."""


def _chain(count: int) -> Lab:
    return Lab({f"m{i}": MESH for i in range(count)}, [(HOP * i, 0) for i in range(count)])


def _next_hop(lab: Lab, name: str, target: str) -> str | None:
    path = lab.network.mesh(lab.names.index(name)).paths.get(lab.address(target))  # type: ignore[union-attr]
    return None if path is None or path.next_hop is None else lab.names[path.next_hop]


def test_frames_go_over_several_hops_by_the_path_of_the_least_airtime() -> None:
    lab = _chain(5)
    assert lab.send("m0", lab.frame("m0", "m4")) == ["m4"]
    assert [_next_hop(lab, f"m{i}", "m4") for i in range(4)] == ["m1", "m2", "m3", "m4"]
    assert [_next_hop(lab, f"m{i}", "m0") for i in range(1, 5)] == ["m0", "m1", "m2", "m3"]
    assert lab.send("m4", lab.frame("m4", "m0")) == ["m0"]
    path = lab.network.mesh(0).paths[lab.address("m4")]  # type: ignore[union-attr]
    (channel,) = lab.network.channels
    table = channel.medium.table
    rate = table.phy.rates[table.unicast_rate(table.row(0), 1)]
    snr = 10 ** (table.row(0).snr_db[1] / 10)
    hop = (1 + 8192 / rate.mbps) / math.exp(8192 * float(log_survival(rate, snr)))
    assert path.hops == 4
    assert abs(path.metric - 4 * hop) < 0.05 * path.metric
    assert not lab.network.lost


def test_a_broken_link_is_gone_around_and_the_source_learns_of_it() -> None:
    lab = Lab(
        dict.fromkeys(("a", "b", "c", "d", "e"), MESH),
        [(0, 0), (60, 0), (120, 0), (60, 50), (60, -50)],
    )
    assert lab.send("a", lab.frame("a", "c")) == ["c"]
    assert _next_hop(lab, "a", "c") == "b"
    lab.network.fail(lab.now, lab.radio("b"), lab.radio("c"), failed=True)
    lab.send("a", lab.frame("a", "c"))  # lost where the link was, which tells the source
    assert _next_hop(lab, "a", "c") is None
    assert lab.send("a", lab.frame("a", "c")) == ["c"]
    assert _next_hop(lab, "a", "c") in ("d", "e", "b")
    lab.let_pass(10.0)
    assert not lab.network.mesh(0).paths[lab.address("c")].active(lab.now)  # type: ignore[union-attr]


def test_groups_reach_everybody_once_and_nobody_is_looked_for_without_end() -> None:
    lab = _chain(5)
    assert lab.send("m2", lab.frame("m2", GROUP)) == ["m0", "m1", "m3", "m4"]
    (channel,) = lab.network.channels
    assert channel.medium.counters.sent == [1] * 5
    lab.send("m0", lab.frame("m0", BEHIND))
    lab.let_pass(10.0)
    assert lab.network.lost["no path in the mesh"] == 1
    assert lab.network.next_event() == math.inf


def test_hosts_behind_mesh_radios_are_found_and_learned() -> None:
    lab = _chain(3)
    assert lab.send("m2", lab.frame(BEHIND, GROUP)) == ["m0", "m1"]
    assert lab.send("m0", lab.frame(HERE, BEHIND)) == ["m2"]
    assert lab.send("m2", lab.frame(BEHIND, HERE)) == ["m0"]
    late = _chain(3)
    late.send("m2", late.frame(BEHIND, "m2"))  # only now m2 knows who is behind it
    assert late.send("m0", late.frame(HERE, BEHIND)) == ["m2"], "m0 asked"


def test_meshes_of_different_names_do_not_mix() -> None:
    lab = Lab({"a": MESH, "b": MESH | {"ssid": "n"}, "c": MESH}, [(0, 0), (60, 0), (120, 0)])
    assert lab.send("a", lab.frame("a", "c")) == []
    assert lab.send("a", lab.frame("a", GROUP)) == []


def test_a_path_error_has_no_more_destinations_than_an_element_holds() -> None:
    lab = _chain(2)
    errors: list[Perr] = []

    def note(channel: WlanChannel, frame: Transmission) -> None:
        packet = frame.job.frame
        if isinstance(packet, Packet) and isinstance(packet.element, Perr):
            errors.append(packet.element)

    lab.network.on_air = note
    lab.network.listen(0)
    mesh = lab.network.mesh(0)
    assert mesh is not None
    broken = tuple((bytes((2, 0, 0, 0, 0, number)), 7) for number in range(MOST_BROKEN + 3))
    mesh._report(lab.now, broken)
    lab.let_pass(1.0)
    assert [len(each.broken) for each in errors] == [MOST_BROKEN, 3]
    assert errors[0].broken + errors[1].broken == broken
