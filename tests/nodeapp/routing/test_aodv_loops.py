"""AODV routes never loop, though frames are lost or late and links break; all frames arrive."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodeapp.routing.aodv_lab import AodvStation, Graph

PAUSES = (0.001, 0.003, 0.01, 0.05, 0.3, 0.3, 1.0, 1.0, 2.5)


OPTIONS = st.fixed_dictionaries(
    {
        "local_repair": st.booleans(),
        "max_repair_ttl": st.sampled_from([0, 1, 30]),
        "my_route_timeout": st.sampled_from([0.0, 10.0]),
        "rev_route_life": st.sampled_from([0.0, 0.5, 6.0]),
        "salvage": st.booleans(),
        "blacklist": st.booleans(),
        "reply_ack": st.booleans(),
        "adaptive_timeout": st.booleans(),
        "max_rreq_timeout": st.sampled_from([0.0, 1.0]),
        "buffer_timeout": st.sampled_from([0.0, 0.5]),
    }
)
"""What the parameters that are off by default, or ns-2's, may be."""


def random_graph(rng: random.Random, count: int, density: float, **parameters: Any) -> Graph:
    """Return a graph whose links are a random share of all."""
    every = itertools.combinations(range(1, count + 1), 2)
    links = [pair for pair in every if rng.random() < density]
    return Graph(count, links, seed=rng.randrange(2**32), **parameters)


@pytest.mark.slow
@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 8),
    st.floats(0.2, 0.7),
    st.sampled_from([0.0, 0.1, 0.4, 0.6]),
    st.sampled_from([0.0, 0.01, 0.3]),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.booleans(),
    st.booleans(),
    OPTIONS,
)
@settings(max_examples=400, deadline=None)
def test_routes_never_loop(
    seed: int,
    count: int,
    density: float,
    loss: float,
    jitter: float,
    timeout: float,
    one_way: bool,
    feedback: bool,
    options: dict[str, Any],
) -> None:
    rng = random.Random(seed)
    graph = random_graph(
        rng,
        count,
        density,
        latency=0.004,
        jitter=jitter,
        active_route_timeout=timeout,
        link_feedback=feedback,
        **options,
    )
    graph.loss = loss
    graph.after_event = graph.check
    favourites = rng.sample(range(1, count + 1), min(count, 3))
    for _ in range(50):
        one, other = rng.sample(range(1, count + 1), 2)
        what = rng.random()
        if what < 0.5:
            to = rng.choice(favourites)
            if to != one:
                graph.send(one, to)
        elif what < 0.65:
            if (one, other) in graph.links:
                graph.cut(one, other)
            elif rng.random() < density:
                graph.connect(one, other)
        elif what < 0.7 and one_way:
            graph.links ^= {(one, other)}
        else:
            graph.run(rng.choice(PAUSES))


@pytest.mark.slow
@given(
    st.integers(2, 14),
    st.floats(0.0, 0.4),
    st.sampled_from([0.0, 0.01]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=200, deadline=None)
def test_every_frame_arrives_once_in_a_connected_graph(
    count: int, density: float, jitter: float, gratuitous: bool, only: bool, seed: int
) -> None:
    rng = random.Random(seed)
    graph = random_graph(
        rng, count, density, jitter=jitter, gratuitous_reply=gratuitous, destination_only=only
    )
    for node in range(2, count + 1):
        graph.connect(node, rng.randrange(1, node))
    expected = Counter[tuple[int, int]]()
    for number in range(10):
        one, other = rng.sample(range(1, count + 1), 2)
        graph.send(one, other, number)
        expected[other, number] += 1
        graph.run(rng.choice(PAUSES))
    graph.run(10.0)
    arrived = Counter(
        (node, frame.sequence)
        for node, station in graph.stations.items()
        for frame in station.arrived
    )
    assert arrived == expected


def test_a_grey_zone_that_lasts_longer_than_delete_period_makes_no_loop() -> None:
    # 3 sends to 4 by 1 and 2; 5 keeps 2 saying hello.  Then 2 loses 4, and between 1 and 2 only
    # broadcasts pass: 1 is never told, and its hellos keep its route over 2 alive.
    graph = Graph(5, [(3, 1), (1, 2), (2, 4), (5, 2)])
    graph.after_event = graph.check
    graph.send(3, 4)
    graph.run(1.0)
    assert graph.stations[4].arrived
    carried = graph.transmit

    def transmit(sender: AodvStation, to: int, datagram: bytes) -> None:
        if {sender.node_id, to} != {1, 2}:
            carried(sender, to, datagram)

    graph.transmit = transmit  # type: ignore[method-assign]
    graph.cut(2, 4)
    for _ in range(26):
        graph.send(3, 4)
        graph.send(5, 2)
        graph.run(1.0)
    assert graph.stations[1].route(4) is not None
    graph.connect(2, 3)
    graph.send(2, 4)
    graph.run(1.0)
    assert graph.stations[2].route(4) is None
