"""How the cost of a virtual run grows: with nodes, degree, rate and speed.

    python -m tests.benchmarks.growth [nodes] [degree] [rate] [speed] [--figure growth.svg]
    python -m tests.benchmarks.growth --point NODES DEGREE RATE SPEED

Nodes that are spread evenly over a square and walk straight on keep GPSR's tables of neighbours by
beacons, one a second, and send a neighbour 500 bytes, `rate` times a second.  So the work of a node
depends on its surroundings only, and at constant density n nodes should cost n times as much.
Radio: log-distance, with collisions.  A point is a process of its own; it runs for as many
simulated seconds as take about two of processor time, the first one apart, in which links are
made.  The exponent of a line is that of the power law that fits it best (least squares of the
logarithms).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import LogDistance, RadioSpec
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp import compiled
from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Environment, Service
from nodeapp.routing.gpsr_parameters import GpsrParameters
from nodeapp.routing.neighbours import Neighbours
from nodeapp.wire import Frame

RANGE: Final = 250.0
LONGEST: Final = 12.0
"""Seconds of a run at most: who walks straight on for long leaves the others."""
ENOUGH: Final = 2.0
"""Seconds of processor time that a point takes, one simulated second at least."""
NODES, DEGREE, RATE, SPEED = 300, 12.0, 0.2, 10.0
LINES: Final = {
    "nodes": [(n, DEGREE, RATE, SPEED) for n in (100, 200, 500, 1000, 2000, 5000, 10_000)],
    "degree": [(NODES, d, RATE, SPEED) for d in (5.0, 10.0, 20.0, 40.0, 100.0)],
    "rate": [(NODES, DEGREE, r, SPEED) for r in (0.5, 1.0, 2.0, 4.0, 8.0)],
    "speed": [(NODES, DEGREE, RATE, v) for v in (1.0, 3.0, 10.0, 30.0)],
}
"""What varies: the points, each (nodes, degree, rate a node and second, m/s)."""
Point = tuple[int, float, float, float]


class _Local(Service):
    """Beacons, and datagrams to random neighbours."""

    def __init__(self, host: Host, environment: Environment, rate: float) -> None:
        super().__init__(host, environment, None)
        self._neighbours = Neighbours(host, GpsrParameters(), RANGE)
        self._rate = rate
        self.handlers = {
            CommonKind.HELLO: self._neighbours.hello_received,
            CommonKind.EVENT: self._take,
        }

    def start(self) -> None:
        self._neighbours.start()
        self._wait()

    def disseminate(self, event: Event) -> None:
        raise AssertionError("there are no clients")

    def _wait(self) -> None:
        self.host.call_later(self.host.rng.expovariate(self._rate), self._send)

    def _send(self) -> None:
        around = list(self._neighbours.positions())
        if around:
            frame = Frame(CommonKind.EVENT, self.host.node_id, body=bytes(464))
            self.host.send(self.host.rng.choice(around), frame.encode())
        self._wait()

    def _take(self, frame: Frame, sender: int) -> None:
        pass


def network(nodes: int, degree: float, speed: float) -> Scenario:
    """Return nodes that begin anywhere in a square and walk in any direction."""
    side = math.sqrt(nodes * math.pi * RANGE**2 / degree)
    rng = random.Random(1)
    specs = []
    for number in range(1, nodes + 1):
        x, y, course = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, math.tau)
        way = speed * LONGEST
        end = Waypoint(LONGEST, x + way * math.cos(course), y + way * math.sin(course))
        waypoints = (Waypoint(0.0, x, y), end)
        specs.append(NodeSpec(id=number, name=f"sta{number}", waypoints=waypoints))
    margin = speed * LONGEST
    return Scenario(
        topology="benchmark",
        protocol=ProtocolSpec(name="flooding"),
        seed=1,
        duration=LONGEST,
        area=(-margin, -margin, side + margin, side + margin),
        radio=RadioSpec(range=RANGE, propagation=LogDistance()),
        nodes=tuple(specs),
    )


def measure(point: Point) -> dict[str, float]:
    """Return CPU seconds a simulated second, peak MB and frames on the air a second, of a point."""
    nodes, degree, rate, speed = point
    scenario = network(nodes, degree, speed)
    environment = scenario.environment()
    simulation = Simulation(
        scenario, NullRecorder(), lambda host, spec: _Local(host, environment, rate)
    )
    simulation.run(1.0)
    before = simulation.medium.counters.totals()
    began, until = time.process_time(), 1.0
    while until < LONGEST and time.process_time() - began < ENOUGH:
        until += 1.0
        simulation.run(until)
    seconds = (time.process_time() - began) / (until - 1.0)
    after = simulation.medium.counters.totals()
    frames = sum(after[each] - before[each] for each in ("sent", "acks")) / (until - 1.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": seconds, "peak": peak, "frames": frames, "simulated": until - 1.0}


def exponent(x: list[float], y: list[float]) -> float:
    """Return the exponent of the power law through points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def line(name: str) -> list[tuple[float, dict[str, float]]]:
    """Measure the points of a line, each in a process of its own, and print them."""
    column = list(LINES).index(name)
    found = []
    for point in LINES[name]:
        words = [str(value) for value in point]
        command = [sys.executable, "-m", "tests.benchmarks.growth", "--point", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append((float(point[column]), json.loads(done.stdout)))
        at, result = found[-1]
        print(
            f"{name} {at:g}: {result['cpu']:.4f} CPU s and {result['frames']:,.0f} frames on the "
            f"air a simulated s, peak {result['peak']:,.0f} MB",
            flush=True,
        )
    grown = [at for at, _ in found]
    for what in ("cpu", "frames"):
        fitted = exponent(grown, [result[what] for _, result in found])
        print(f"{name}: {what} grows with the power {fitted:.2f}", flush=True)
    return found


def draw(lines: dict[str, list[tuple[float, dict[str, float]]]], file: Path) -> None:
    """Draw the lines beside each other, both axes logarithmic, as an SVG."""
    from matplotlib.ticker import NullFormatter  # not in the memory of the points

    from spark_analysis.report import svg
    from spark_analysis.report.figures import formatted

    units = {"nodes": "nodes", "degree": "degree", "rate": "frames/s a node", "speed": "m/s"}
    with svg.style():
        figure = svg.new_figure(760, 230)
        for axes, (name, found) in zip(
            np.atleast_1d(figure.subplots(1, len(lines), sharey=True)), lines.items(), strict=True
        ):
            x, y = [at for at, _ in found], [result["cpu"] for _, result in found]
            axes.loglog(x, y, "o-", markersize=4)
            for axis in (axes.xaxis, axes.yaxis):  # figures have no mathematical text
                formatted(axis, "{:,g}".format)
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(units[name])
            axes.set_title(f"power {exponent(x, y):.2f}", fontsize=11)
        figure.axes[0].set_ylabel("CPU s a simulated s")
    svg.write_svg(figure, file, "Cost of a virtual run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", nargs="*", choices=[*LINES, []])
    parser.add_argument("--point", nargs=4, type=float)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.point:
        nodes, *rest = options.point
        print(json.dumps(measure((int(nodes), *rest))))
        return
    why = compiled.obstacle()
    print(f"modules: {'compiled' if why is None else f'source ({why})'}")
    lines = {name: line(name) for name in options.lines or LINES}
    if options.figure:
        draw(lines, options.figure)


if __name__ == "__main__":
    main()
