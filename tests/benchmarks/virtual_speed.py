"""Speed of the virtual clock, side by side with what others use for it.

    python -m tests.benchmarks.virtual_speed [core] [aodv] [large] [cells] [--seconds 60]

core    The event core against SimPy and against an asyncio loop whose clock jumps: 1,000 nodes
        that do something about once a second and each time move a timeout that never fires.
aodv    60 mobile nodes with AODV and broker-like traffic against ns-3 (`tests.benchmarks.ns3`):
        the same trajectories, datagrams and radio.  ns-3's AODV sends several times as many
        frames, so the ratio by frames on the air is printed beside that by simulated seconds.
large   3,000 static nodes with mean degree 45, beacons once a second: time and peak memory.
cells   As many with `georendezvous`, 20 topics, events and all: `uniform_field`, without captures.

Runs alternate; the results are medians and their ratios.  Seconds are processor time, which on an
idle machine is wall-clock time: neither side uses more than one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import random
import resource
import selectors
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import LogDistance, Propagation, RadioSpec, UnitDisk
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.virtual.clock import Clock, VirtualTimer
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Service
from nodeapp.routing.aodv import AodvParameters
from nodeapp.wire import BROADCAST, Frame
from tests.benchmarks.ns3 import ours, peer, traffic
from topologies.catalog import make_scenario

FEW: Final = 60
"""Nodes of the network that ns-3 runs too."""
NODES: Final = 1000
TIMEOUT: Final = 3.0
CORE_SECONDS: Final = 100.0
DELAYS: Final = [random.Random(1).uniform(0.75, 1.25) for _ in range(10_007)]
LARGE: Final = 3000
DEGREE: Final = 45
MBPS: Final = 6.0


def machine() -> str:
    """Return how busy the machine is."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


def ratio(of: float, to: float) -> str:
    """Return a ratio as text."""
    return f"{of / to:.2f} x"


# The event core.  Each of these returns how many calls were made, cancelled timeouts not counted.


def with_clock() -> int:
    clock = Clock()
    delays = itertools.cycle(DELAYS)
    calls = 0
    timeouts: list[VirtualTimer | None] = [None] * NODES

    def act(node: int) -> None:
        nonlocal calls
        calls += 1
        pending = timeouts[node]
        if pending is not None:
            pending.cancel()
        timeouts[node] = clock.call_later(TIMEOUT, act, node)
        clock.call_later(next(delays), act, node)

    for node in range(NODES):
        clock.call_later(next(delays), act, node)
    clock.run(CORE_SECONDS)
    return calls


class _JumpingSelector(selectors.SelectSelector):
    """Waits in no time: it adds the time that it would have waited to the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.now += timeout
        return []


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def with_asyncio() -> int:
    loop = _VirtualLoop()
    delays = itertools.cycle(DELAYS)
    calls = 0
    timeouts: list[asyncio.TimerHandle | None] = [None] * NODES

    def act(node: int) -> None:
        nonlocal calls
        calls += 1
        pending = timeouts[node]
        if pending is not None:
            pending.cancel()
        timeouts[node] = loop.call_later(TIMEOUT, act, node)
        loop.call_later(next(delays), act, node)

    for node in range(NODES):
        loop.call_later(next(delays), act, node)
    loop.call_later(CORE_SECONDS, loop.stop)
    loop.run_forever()
    loop.close()
    return calls


def with_simpy() -> int:
    import simpy

    environment = simpy.Environment()
    delays = itertools.cycle(DELAYS)
    calls = 0
    timeouts: list[Any] = [None] * NODES

    def node_process(node: int) -> Generator[Any, Any, None]:
        nonlocal calls

        def too_late(_: Any) -> None:
            raise AssertionError("a timeout that was moved")

        while True:
            yield environment.timeout(next(delays))
            calls += 1
            if timeouts[node] is not None:
                timeouts[node].callbacks.clear()
            timeouts[node] = environment.timeout(TIMEOUT)
            timeouts[node].callbacks.append(too_late)

    for node in range(NODES):
        environment.process(node_process(node))
    environment.run(until=CORE_SECONDS)
    return calls


def core() -> None:
    """Compare the event cores."""
    contenders: Mapping[str, Callable[[], int]] = {
        "emulation.virtual": with_clock,
        "asyncio, virtual clock": with_asyncio,
        "SimPy": with_simpy,
    }
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    counts: dict[str, int] = {}
    for _ in range(5):
        for name, run in contenders.items():
            began = time.process_time()
            try:
                counts[name] = run()
            except ImportError:
                continue
            speeds[name].append(counts[name] / (time.process_time() - began))
    if len(set(counts.values())) != 1:
        raise AssertionError(f"not the same work: {counts}")
    print(f"event core, {counts['emulation.virtual']:,} calls; {machine()}")
    own = statistics.median(speeds["emulation.virtual"])
    for name, results in speeds.items():
        if results:
            speed = statistics.median(results)
            print(f"  {name:24} {speed:12,.0f} calls/s; ours is {ratio(own, speed)}")
        else:
            print(f"  {name:24} not installed: ./run_testbed.sh setup test")


# AODV.


def aodv(
    seconds: float, runs: int, model: Propagation, *, reply: bool = True, nodes: int = FEW
) -> None:
    """Compare mobile nodes with ns-3: `FEW` on 1 km², or others at the same density."""
    side = 1000.0 * math.sqrt(nodes / FEW)
    scenario = traffic.network(nodes, side, duration=seconds)
    scenario = scenario.model_copy(
        update={"radio": scenario.radio.model_copy(update={"propagation": model})}
    )
    datagrams = traffic.broker_traffic(len(scenario.nodes), seconds)
    who = "any node with a route replies" if reply else "only destinations reply"
    print(
        f"{nodes:,} mobile nodes, AODV ({who}), {model.model}, {len(datagrams):,} datagrams, "
        f"{seconds:g} s; {machine()}"
    )
    extra = () if reply else ("--intermediate=0",)
    played: dict[str, list[peer.DatagramsPlayed]] = {"ns-3": [], "ours": []}
    for _ in range(runs):
        parameters = AodvParameters(destination_only=not reply)
        result, _ = ours.play_datagrams(scenario, datagrams, seconds, MBPS, parameters)
        played["ours"].append(result)
        try:
            played["ns-3"].append(
                peer.play_datagrams(
                    scenario.radio, scenario.nodes, datagrams, seconds, MBPS, extra=extra
                )
            )
        except peer.MissingError as missing:
            print(f"  {missing}")
            break
    speed: dict[str, tuple[float, float]] = {}
    for name, results in played.items():
        if not results:
            continue
        first = results[0]
        cpu = statistics.median(result.cpu for result in results)
        frames = first.unicasts + first.broadcasts + first.acks
        speed[name] = seconds / cpu, frames / cpu
        events = f", {first.events / seconds:,.0f} events/s simulated" if first.events else ""
        print(
            f"  {name}: {seconds / cpu:7.2f} simulated s/s; {frames / seconds:,.0f} frames on the "
            f"air a simulated s, {frames / cpu:,.0f} a second of CPU time{events}; "
            f"{len({a.number for a in first.arrivals}) / len(datagrams):.3f} delivered"
        )
    if len(speed) == 2:
        by_time, by_frames = (
            ratio(a, b) for a, b in zip(*(speed["ours"], speed["ns-3"]), strict=True)
        )
        print(f"  ours is {by_time} ns-3 by simulated seconds, {by_frames} by frames on the air")


# A large network.


class _Beacons(Service):
    """Broadcasts 100 bytes about once a second."""

    heard = 0

    def __init__(self, host: Host, scenario: Scenario) -> None:
        super().__init__(host, scenario.environment(), None)
        self.handlers = {CommonKind.HELLO: self._beacon}
        self._datagram = Frame(CommonKind.HELLO, host.node_id, body=bytes(76)).encode()

    def start(self) -> None:
        self.host.call_later(self.host.rng.random(), self._send)

    def disseminate(self, event: Event) -> None:
        raise AssertionError("there are no clients")

    def _send(self) -> None:
        self.host.send(BROADCAST, self._datagram)
        self.host.call_later(self.host.rng.uniform(0.75, 1.25), self._send)

    def _beacon(self, frame: Frame, sender: int) -> None:
        _Beacons.heard += 1


def large_scenario(model: Propagation, seconds: float) -> Scenario:
    side = math.sqrt(LARGE * math.pi * traffic.RADIO_RANGE**2 / DEGREE)
    rng = random.Random(1)
    nodes = tuple(
        NodeSpec(
            id=number,
            name=f"sta{number}",
            waypoints=(Waypoint(0.0, rng.uniform(0, side), rng.uniform(0, side)),),
        )
        for number in range(1, LARGE + 1)
    )
    return Scenario(
        topology="benchmark",
        protocol=ProtocolSpec(name="flooding"),
        seed=1,
        duration=seconds,
        area=(0.0, 0.0, side, side),
        radio=RadioSpec(range=traffic.RADIO_RANGE, propagation=model),
        nodes=nodes,
    )


def measured(
    what: str, scenario: Scenario, make_service: Callable[[Host, NodeSpec], Service] | None = None
) -> tuple[Simulation, float]:
    """Run a large network here; return it, and processor s of all but its first second."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.process_time()
    simulation = Simulation(scenario, NullRecorder(), make_service)
    ready = time.process_time()
    simulation.run(1.0)  # rows of the link table are made once
    warm = time.process_time()
    simulation.run()
    took = time.process_time() - warm
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  {LARGE:,} static nodes, {what}: ready in {ready - began:.1f} s, first simulated second "
        f"{warm - ready:.1f} s, then {(scenario.duration - 1) / took:.2f} simulated s/s; "
        f"{simulation.medium.counters.totals()['sent']:,} frames sent; peak {peak:,.0f} MB, of "
        f"which {before:,.0f} MB before",
        flush=True,
    )
    return simulation, took


def large_here(name: str, seconds: float = 10.0) -> None:
    """Run the large network in this process."""
    model = LogDistance() if name == "log-distance" else UnitDisk(collisions=False)
    scenario = large_scenario(model, seconds)
    simulation, took = measured(name, scenario, lambda host, spec: _Beacons(host, scenario))
    heard = _Beacons.heard / simulation.medium.counters.totals()["sent"]
    print(
        f"    {_Beacons.heard / seconds * (seconds - 1) / took:,.0f} receptions/s; {heard:.1f} "
        "receivers a beacon",
        flush=True,
    )


def large() -> None:
    """Run the large network in processes of its own."""
    print(f"large networks; {machine()}", flush=True)
    for name in ("unit disk without collisions", "log-distance"):
        code = f"from tests.benchmarks.virtual_speed import large_here; large_here({name!r})"
        subprocess.run([sys.executable, "-c", code], check=True)


def cells_here(seconds: float = 20.0) -> None:
    """Run the large network with a protocol of rendezvous cells in this process."""
    settings = {"nodes": LARGE, "degree": DEGREE, "topics": 20}
    measured(
        "georendezvous",
        make_scenario(
            "uniform_field", "georendezvous", seed=1, duration=seconds, settings=settings
        ),
    )


def cells() -> None:
    """Run it in a process of its own."""
    print(f"rendezvous cells; {machine()}", flush=True)
    code = "from tests.benchmarks.virtual_speed import cells_here; cells_here()"
    subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["core", "aodv", "large", "cells", []])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    parts = options.parts or ["core", "aodv", "large", "cells"]
    if "core" in parts:
        core()
    if "aodv" in parts:
        for reply in (True, False):
            aodv(options.seconds, options.runs, UnitDisk(), reply=reply)
        aodv(options.seconds, options.runs, LogDistance())
        aodv(options.seconds / 4, 1, UnitDisk(), nodes=1000)
    if "large" in parts:
        large()
    if "cells" in parts:
        cells()


if __name__ == "__main__":
    main()
