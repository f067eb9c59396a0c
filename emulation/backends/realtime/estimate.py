"""Estimates, before a run starts, whether this machine can keep it in real time."""

from __future__ import annotations

import os
from typing import Final

import numpy as np
import numpy.typing as npt
import psutil

from emulation.backends.base import BackendError
from emulation.mobility.contacts import Contacts
from emulation.scenario.scenario import NOMINAL_RANGE, Scenario
from nodeapp.pubsub import registry
from nodeapp.pubsub.base import Service

STATION_SECONDS: Final = 0.02
"""Seconds until one more node is ready, on two cores; 1,000 took 16 s (docs/backends.md)."""
A_CORE: Final = 250
"""Nodes with the default scenario's traffic for which one core keeps real time: two cores did with
500; with 1,000 the clients were somewhat late (docs/backends.md)."""
RECEPTION: Final = 1e-4
"""Processor seconds for each frame that a node receives: medium, captures, node app.

0.09 to 0.12 ms for beacons with 12 neighbours (tests/benchmarks/tap_load.py)."""
CARRIED: Final = 0.7
"""Share of the processors that beacons and flooded events may take: clients, other frames and other
programs need the rest.  On two cores it amounts to 14,000 receptions a second."""
WINDOW: Final = 10.0
"""Seconds over which events are counted: sockets cannot buffer bursts for longer."""
FEWER: Final = "use fewer"
ELSEWHERE: Final = f"{FEWER}, or --backend virtual, which needs no processes"


def beacons_received(scenario: Scenario) -> float:
    """Return how many beacons all nodes receive a second at their first positions.

    0 if the protocol has none; all nodes within radio range are taken to hear each other.
    """
    interval = scenario.protocol.parameters.get("hello_interval")
    if not isinstance(interval, int | float) or interval <= 0 or scenario.access_points:
        return 0.0
    return float(_hear(scenario).sum() / interval)


def events_received(scenario: Scenario) -> float:
    """Return how many frames with events all nodes receive a second at the peak of publishing.

    Each node that an event can reach sends it `repeat` times, and all its neighbours receive it.
    0 if the protocol does not flood: where its frames go is not known in advance.
    """
    protocol = registry.SYSTEMS.get(scenario.protocol.name)
    if protocol is None or not protocol.floods:
        return 0.0
    if scenario.access_points or scenario.wire is not None:
        return 0.0
    hear = _hear(scenario)
    degrees = hear.sum(axis=1)
    frames = np.zeros(len(degrees))  # of an event of each node
    left = np.ones(len(degrees), dtype=bool)
    while left.any():
        part = np.zeros(len(degrees), dtype=bool)
        frontier = part | (np.arange(len(degrees)) == left.argmax())
        while frontier.any():
            part |= frontier
            frontier = hear[frontier].any(axis=0) & ~part
        frames[part] = degrees[part].sum()
        left &= ~part
    of_node = {node.id: count for node, count in zip(scenario.nodes, frames, strict=True)}
    published = [operation for operation in scenario.workload if operation.action == "publish"]
    published.sort(key=lambda operation: operation.time)
    times = np.array([operation.time for operation in published])
    so_far = np.cumsum([0.0, *(of_node[operation.node] for operation in published)])
    ends = np.searchsorted(times, times + min(WINDOW, scenario.duration))
    most = max(so_far[ends] - so_far[:-1], default=0.0)
    repeat = scenario.protocol.parameters.get("repeat", 1)
    return float(repeat * most / min(WINDOW, scenario.duration))


def _hear(scenario: Scenario) -> npt.NDArray[np.bool_]:
    """Return which nodes are initially in range, or in contact, nodes by nodes."""
    xy = scenario.trace().positions(0.0)
    reach = scenario.radio.range or NOMINAL_RANGE
    near = np.empty((len(xy), len(xy)), dtype=bool)
    for row, here in zip(near, xy, strict=True):  # a matrix of all distances would be large
        row[:] = np.hypot(*(xy - here).T) <= reach
    if scenario.contacts is not None:
        near[:] = False
        for one, other in Contacts(scenario.contacts, [node.id for node in scenario.nodes]).at(0.0):
            near[one, other] = near[other, one] = True
    np.fill_diagonal(near, val=False)
    return near


def check(
    nodes: int,
    available: int | None = None,
    cores: int | None = None,
    received: float = 0.0,
    events: float = 0.0,
    service: type[Service] = Service,
) -> str | None:
    """Return a warning if a run of so many nodes is unlikely to keep real time, else None.

    `available` is memory in bytes and `cores` their number: this machine's unless given; `received`
    are beacons a second and `events` frames with events, of all nodes; `service` is what nodes run.
    Raises `BackendError` if there is not enough memory.
    """
    if available is None:
        available = psutil.virtual_memory().available
    needed = nodes * service.node_memory
    elsewhere = FEWER if service.ports else ELSEWHERE
    if needed > available:
        raise BackendError(
            f"{nodes:,} nodes need about {needed / 1e9:.1f} GB of memory, and "
            f"only {available / 1e9:.1f} GB are free: {elsewhere}"
        )
    cores = cores or len(os.sched_getaffinity(0))
    both = received + events
    if both * RECEPTION > cores * CARRIED:
        kinds = {"beacons": received, "flooded events": events}
        what = " and ".join(name for name, rate in kinds.items() if rate)
        less = "publish less often" if events > received else "raise hello_interval"
        return (
            f"{what} alone are received {both:,.0f} times a second, which takes about "
            f"{both * RECEPTION:.1f} of {cores} cores: the run is unlikely to keep real time; "
            f"{less}, or {elsewhere}"
        )
    if nodes <= cores * A_CORE:
        return None
    return (
        f"{nodes:,} nodes keep real time on {cores} cores only if they send little: with the "
        f"default scenario's traffic only about {cores * A_CORE} do; this run takes about "
        f"{needed / 1e9:.1f} GB of memory and {nodes * STATION_SECONDS:.0f} s to start: {elsewhere}"
    )
