"""Topologies: where nodes stand, how they move, which radio they have, what their clients do.

A topology is a class with a `build` method, as in Mininet, that calls `addStation` and, where
stations move, `setMobilityModel`; the names and signatures are Mininet-WiFi's.  The keyword
arguments of `build` are the parameters that `--set` takes, checked against their annotations.
`scenario` turns a built topology into a `Scenario`; Mininet is not needed for that.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.radio.spec import (
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from emulation.scenario import (
    NodeSpec,
    ProtocolSpec,
    Scenario,
    ScenarioError,
    Trace,
    Waypoint,
)
from emulation.workload import TopicWorkload

Place = tuple[float, float]
PLACEMENTS = 200
"""How often a random topology is drawn again before it counts as never connected."""


class Topo:
    """Base of every topology.  The first line of a subclass's docstring describes it in `list`."""

    default_nodes: ClassVar[str] = "nodes"

    def __init__(self, seed: int, duration: float, parameters: dict[str, Any]) -> None:
        """Build the topology; `duration` in seconds, `parameters` as `build` takes them."""
        self.seed = seed
        self.duration = duration
        self.parameters = parameters
        self.radio = RadioSpec()
        self.area: tuple[float, float, float, float] | None = None
        self.topic_workload: TopicWorkload | None = None
        self.mobility: RandomWaypoint | None = None
        self._stations: dict[str, Place] = {}
        self.build(**parameters)

    def build(self, **parameters: Any) -> None:
        """Add the stations; overridden by every topology."""

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose; the same seed and purpose give the same numbers."""
        return random.Random(f"{self.seed}/{purpose}")

    def addStation(self, name: str, position: str | Sequence[float]) -> str:
        """Add a station at `position`, metres: "x,y", "x,y,z" or a sequence; z is ignored.

        Raises `ScenarioError` for a second station of that name or a position that is not one.
        """
        if name in self._stations:
            raise ScenarioError(f"two stations are called {name}")
        parts = position.split(",") if isinstance(position, str) else position
        try:
            x, y = float(parts[0]), float(parts[1])
        except (ValueError, IndexError):
            raise ScenarioError(f"{name}: position {position!r} is not 'x,y' in metres") from None
        self._stations[name] = (x, y)
        return name

    def setPropagationModel(
        self,
        model: str,
        exp: float = 3.0,
        sL: float = 0.0,
        variance: float = 4.0,
        antennaHeight: float = 1.5,
    ) -> None:
        """Choose friis, logDistance, logNormalShadowing, twoRayGround or unitDisk.

        `exp` is the path loss exponent, `sL` the system loss and `variance` the standard deviation
        of the shadowing, dB (so named in Mininet-WiFi), `antennaHeight` in metres.
        """
        models: dict[str, Propagation] = {
            "friis": Friis(system_loss_db=sL),
            "logDistance": LogDistance(exponent=exp),
            "logNormalShadowing": Shadowing(exponent=exp, sigma_db=variance),
            "twoRayGround": TwoRayGround(antenna_height=antennaHeight),
            "unitDisk": UnitDisk(),
        }
        if model not in models:
            raise ScenarioError(f"no propagation model {model!r}; there are {', '.join(models)}")
        self.radio = self.radio.model_copy(update={"propagation": models[model]})

    def setMobilityModel(
        self,
        model: str = "RandomWayPoint",
        min_x: float = 0.0,
        max_x: float = 100.0,
        min_y: float = 0.0,
        max_y: float = 100.0,
        min_v: float = 1.0,
        max_v: float = 1.0,
        pause: float = 0.0,
    ) -> None:
        """Let the stations roam the rectangle at `min_v` to `max_v` metres a second."""
        if model != "RandomWayPoint":
            raise ScenarioError(f"no mobility model {model!r}; there is RandomWayPoint")
        self.area = (min_x, min_y, max_x, max_y)
        self.mobility = RandomWaypoint(self.area, min_v, max_v, pause)

    def connected(self, places: Sequence[Place] | np.ndarray[Any, Any]) -> bool:
        """Say whether the graph of stations within the radio range of each other is connected."""
        points = np.asarray(places, dtype=float).reshape(-1, 2)
        reach = self.radio.range or math.inf
        within = np.hypot(*(points[:, None, :] - points[None, :, :]).transpose(2, 0, 1)) <= reach
        seen = np.zeros(len(points), dtype=bool)
        seen[0] = True
        frontier = seen
        while frontier.any():
            frontier = within[frontier].any(axis=0) & ~seen
            seen = seen | frontier
        return bool(seen.all())

    def draw_connected(self, count: int, model: RandomWaypoint) -> list[Place]:
        """Return `count` uniform places whose graph is connected.

        Raises `ScenarioError` where `PLACEMENTS` draws gave none.
        """
        rng = self.rng("placement")
        for _ in range(PLACEMENTS):
            places = [model.place(rng) for _ in range(count)]
            if self.connected(places):
                return places
        raise ScenarioError(
            f"{PLACEMENTS} random placements of {count} stations were all disconnected: "
            "raise nodes or range, or lower side"
        )

    def scenario(self, protocol: ProtocolSpec) -> Scenario:
        """Return the scenario: trajectories and workload drawn from the seed."""
        rng = self.rng("mobility")
        nodes = []
        for number, (name, place) in enumerate(self._stations.items(), start=1):
            waypoints: tuple[Waypoint, ...] = (Waypoint(0.0, *place),)
            if self.mobility is not None:
                waypoints = self.mobility.trajectory(place, self.duration, rng)
            nodes.append(NodeSpec(id=number, name=name, waypoints=waypoints))
        if not nodes:
            raise ScenarioError("the topology has no stations")
        ids = [node.id for node in nodes]
        workload = self.topic_workload
        return Scenario(
            topology=_snake_case(type(self).__name__),
            topology_parameters=self.parameters,
            protocol=protocol,
            seed=self.seed,
            duration=self.duration,
            area=self.area or _bounds(list(self._stations.values())),
            radio=self.radio,
            nodes=tuple(nodes),
            workload=workload.operations(ids, self.duration, self.rng("workload"))
            if workload
            else (),
        )


def connected_share(scenario: Scenario, samples: int = 30) -> float:
    """Return the share of `samples` moments of a run at which all nodes within range connect."""
    topo = Topo(scenario.seed, scenario.duration, {})
    topo.radio = scenario.radio
    trace = Trace([node.waypoints for node in scenario.nodes])
    times = np.linspace(0.0, scenario.duration, samples if trace.moving else 1)
    return sum(topo.connected(trace.positions(float(time))) for time in times) / len(times)


def _bounds(places: list[Place]) -> tuple[float, float, float, float]:
    """Return the box around places, at least a metre wide and high: stations may be in a line."""
    (x0, x1), (y0, y1) = (
        (min(values), max(values)) if max(values) - min(values) >= 1.0 else _metre(values[0])
        for values in zip(*places, strict=True)
    )
    return x0, y0, x1, y1


def _metre(middle: float) -> tuple[float, float]:
    return middle - 0.5, middle + 0.5


def _snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
