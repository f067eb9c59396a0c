"""Shortest paths over the links of a medium."""

from __future__ import annotations

import errno
import itertools
import random
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from emulation.backends.realtime import routing
from emulation.network.routes import Routes, links_between, next_hops


def test_a_chain_is_walked_and_islands_are_apart() -> None:
    hops = next_hops(5, [(0, 1, 0.0), (1, 2, 0.0), (3, 4, 0.0)])
    assert hops[0, 2] == 1
    assert hops[2, 0] == 1
    assert hops[0, 1] == 1
    assert hops[3, 4] == 4
    assert len(hops) == 6 + 2


def test_two_good_hops_are_better_than_a_bad_one() -> None:
    triangle = [(0, 1, 0.0), (1, 2, 0.0), (0, 2, 0.6)]
    assert next_hops(3, triangle)[0, 2] == 1
    assert next_hops(3, [*triangle[:2], (0, 2, 0.4)])[0, 2] == 2


def test_nobody_routes_over_what_nobody_hears() -> None:
    assert next_hops(2, [(0, 1, 0.995)]) == {}
    assert next_hops(2, [(0, 1, 0.95)]) == {(0, 1): 1, (1, 0): 0}, "better than none"


def test_the_run_waits_while_nobody_says_who_hears_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "links_between", lambda *_: None)
    helpers = SimpleNamespace(check=lambda: None, wait=lambda condition, _limit: condition())
    daemons: Any = SimpleNamespace(
        _kind="babel", _nodes=[{"name": "sta1", "pid": 1}], _medium=None, _brokers=0,
        _helpers=helpers,
    )  # fmt: skip
    late = routing.IpRouting.await_routes(daemons)
    assert late == "babel has not found all routes within 60 s: those of sta1 are incomplete"


def test_a_route_by_which_the_kernel_refuses_packets_is_none() -> None:
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"
    near = "sta1-wlan0 0300000A 0200000A 0007 0 0 0 FFFFFFFF 0 0 0"
    lost = "* 0500000A 00000000 0205 0 0 0 FFFFFFFF 0 0 0"
    net = "sta1-wlan0 0000000A 00000000 0001 0 0 0 000000FF 0 0 0"
    assert routing.usable("\n".join((head, near, lost, net))) == 1


@pytest.mark.parametrize("seed", range(3))
def test_paths_are_as_short_as_those_of_a_search(seed: int) -> None:
    rng = random.Random(seed)
    links = [pair for pair in itertools.combinations(range(20), 2) if rng.random() < 0.12]
    hops = next_hops(20, [(*pair, 0.0) for pair in links])
    expected: dict[tuple[int, int], int] = {}
    for start in range(20):
        ring, distance = {start}, {start: 0}
        while ring:
            near = {y for x, y in (*links, *((y, x) for x, y in links)) if x in ring}
            ring = near - distance.keys()
            distance |= dict.fromkeys(ring, max(distance.values()) + 1)
        expected |= {(start, end): steps for end, steps in distance.items() if steps}
    assert hops.keys() == expected.keys()
    for one, to in hops:
        at, steps = one, 0
        while at != to:
            at, steps = hops[at, to], steps + 1
        assert steps == expected[one, to]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0, 1))
def test_paths_cost_what_those_of_another_implementation_do(
    seed: int, count: int, density: float
) -> None:
    rng = random.Random(seed)
    pairs = [pair for pair in itertools.combinations(range(count), 2) if rng.random() < density]
    links = [(one, other, 0.8 * rng.random()) for one, other in pairs]
    graph = np.zeros((count, count))
    for one, other, loss in links:
        graph[one, other] = graph[other, one] = 1 / (1 - loss)
    costs = dijkstra(csr_array(graph))
    hops = next_hops(count, links)
    apart = itertools.permutations(range(count), 2)
    assert hops.keys() == {pair for pair in apart if np.isfinite(costs[pair])}
    for (at, to), hop in hops.items():
        assert graph[at, hop] > 0
        assert costs[at, to] == pytest.approx(graph[at, hop] + costs[hop, to])


def test_a_device_that_was_down_gets_its_routes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    refused: list[int] = []

    def send(batch: list[bytes], what: str) -> None:
        sent.append(len(batch))
        if refused:
            raise OSError(refused[0], what)

    monkeypatch.setattr("emulation.network.routes.network_namespace", lambda pid: nullcontext())
    monkeypatch.setattr("emulation.network.routes.rtnetlink.send", send)
    monkeypatch.setattr("socket.if_nametoindex", lambda name: 1)
    routes = Routes(
        [{"name": x, "pid": 1, "interface": x, "address": f"10.0.0.{x}"} for x in "123"]
    )
    chain = [(0, 1, 0.0), (1, 2, 0.0)]
    routes.update(chain)
    assert sent == [2, 2, 2]
    refused.append(errno.ENETDOWN)
    for _ in range(3):  # it is the turn of each
        routes.update(chain)
    assert sent[3:] == [2, 2, 2]
    refused[:] = [errno.EPERM]
    with pytest.raises(PermissionError):
        routes.update(chain)


LINKS = [
    {"name": "ap1", "neighbour": "ap2", "loss": 0.1, "channel": "mesh"},
    {"name": "ap2", "neighbour": "ap1", "loss": 0.1, "channel": "mesh"},
    {"name": "sta1", "neighbour": "ap2", "loss": 0.0, "channel": "access"},
    {"name": "sta1", "neighbour": "sta2", "loss": 0.0, "channel": "access"},
]


@pytest.mark.parametrize(
    ("associated", "links"),
    [
        ({"sta1": "ap1", "sta2": "ap2"}, [(0, 1, 0.1), (0, 2, 0.0), (1, 3, 0.0)]),
        ({"sta1": "ap1", "sta2": None}, [(0, 1, 0.1), (0, 2, 0.0)]),
        (None, None),  # the medium is about to end
    ],
)
def test_stations_have_a_link_to_the_broker_of_their_access_point_alone(
    associated: dict[str, str | None] | None,
    links: list[tuple[int, int, float]] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "links": {"links": LINKS},
        "associations": {} if associated is None else {"associations": associated},
    }
    monkeypatch.setattr("emulation.network.routes.ask", lambda _, request: answers[request["op"]])
    numbers = {"br1": 0, "br2": 1, "sta1": 2, "sta2": 3}
    assert links_between(Path(), numbers, {"ap1": "br1", "ap2": "br2"}) == links
