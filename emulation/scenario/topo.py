"""Topologies: where nodes stand, how they move, which radio they have, what their clients do.

A topology is a class with a `build` method, as in Mininet, that calls `addStation` and, where
stations move, `setMobilityModel`, and for a mesh `addAccessPoint`, `addHost` for each one's broker
and `addLink` between the two; the names and signatures are Mininet-WiFi's.  The keyword
arguments of `build` are the parameters that `--set` takes, checked against their annotations.
`scenario` turns a built topology into a `Scenario`; Mininet is not needed for that.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from emulation.errors import ScenarioError
from emulation.mobility.base import Mobility, Place
from emulation.mobility.freeway import Freeway
from emulation.mobility.manhattan import Manhattan
from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.mobility.road_map import RoadMap
from emulation.mobility.traffic import Rules
from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import (
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from emulation.scenario.access_point import ACCESS, WIRED, AccessPointSpec, AssociationSpec
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.workloads.topic import TopicWorkload

PLACEMENTS = 200
"""How often a random topology is drawn again before it counts as never connected."""
WAYPOINT_SPACING = 50.0
"""Metres between waypoints of a road map at most; a fifth of the usual radio range."""
MOBILITY_MODELS = ("RandomWayPoint", "Freeway", "Manhattan")


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
        self.mobility: Mobility | None = None
        self.road_map: RoadMap | None = None
        self.waypoint_spacing = WAYPOINT_SPACING
        self.mesh_radio = RadioSpec()
        self.association = AssociationSpec()
        self._nodes: list[str] = []
        """Stations and hosts in the order in which they were added: that of their ids."""
        self._stations: dict[str, Place] = {}
        self._access_points: dict[str, tuple[Place, str]] = {}
        """Where they are, and the SSID."""
        self._brokers: dict[str, str] = {}
        """Access point: its broker's host."""
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
        self._add(name, "stations")
        self._stations[name] = _place(name, position)
        self._nodes.append(name)
        return name

    def addAccessPoint(
        self, name: str, ssid: str = "mesh", position: str | Sequence[float] = "0,0,0"
    ) -> str:
        """Add a mesh access point at `position`, as `addStation` takes it; raises as that does.

        It needs a host, where its broker runs: `addLink(host, access_point)`.
        """
        self._add(name, "access points")
        self._access_points[name] = (_place(name, position), ssid)
        return name

    def addHost(self, name: str) -> str:
        """Add a host without a radio, to be linked to an access point: it stands where that does.

        Raises `ScenarioError` where the name is taken.
        """
        self._add(name, "hosts")
        self._nodes.append(name)
        return name

    def addLink(self, node1: str, node2: str) -> None:
        """Wire a host to an access point, in either order.

        Raises `ScenarioError` for anything else, and where one of them has a link already.
        """
        host, point = (node2, node1) if node1 in self._access_points else (node1, node2)
        if point not in self._access_points or host in self._stations or host not in self._nodes:
            raise ScenarioError(f"a link goes from a host to an access point: {node1}, {node2}")
        if point in self._brokers or host in self._brokers.values():
            raise ScenarioError(f"{host} and {point} can have one link each")
        self._brokers[point] = host

    def _add(self, name: str, what: str) -> None:
        if name in self._nodes or name in self._access_points:
            raise ScenarioError(f"two {what} are called {name}")

    def addStations(self, count: int) -> None:
        """Add stations sta1, sta2, ... where the mobility model lets nodes begin."""
        if self.mobility is None:
            raise ScenarioError("choose a mobility model before stations without positions")
        places = self.mobility.places(count, self.rng("placement"))
        for number, place in enumerate(places, start=1):
            self.addStation(f"sta{number}", position=place)

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
        acceleration: float = 0.0,
        safety_distance: float = 20.0,
        roads: int = 2,
        lanes: int = 2,
        blocks: int = 5,
        one_way: bool = False,
    ) -> None:
        """Let the stations move in the rectangle at `min_v` to `max_v` metres a second.

        RandomWayPoint: they roam, with `pause` seconds at every waypoint.  Freeway, Manhattan: they
        are vehicles that start at the nearest point of a lane, and the topology has a road map;
        `acceleration` is metres a second squared, 0 for a tenth of `max_v` a second;
        `safety_distance` is metres; a freeway has `roads` with `lanes` each way, or with
        `one_way` in one direction, Manhattan has `blocks` each way.
        """
        area = (min_x, min_y, max_x, max_y)
        mobility: RandomWaypoint | Freeway | Manhattan
        try:
            if model == "RandomWayPoint":
                mobility = RandomWaypoint(area, min_v, max_v, pause)
            elif model == "Freeway":
                rules = Rules(min_v, max_v, acceleration or max_v / 10, safety_distance)
                mobility = Freeway(area, rules, roads, lanes, one_way)
            elif model == "Manhattan":
                rules = Rules(min_v, max_v, acceleration or max_v / 10, safety_distance)
                mobility = Manhattan(area, rules, blocks)
            else:
                raise ScenarioError(
                    f"no mobility model {model!r}; there are {', '.join(MOBILITY_MODELS)}"
                )
        except ValueError as error:
            raise ScenarioError(str(error)) from None
        self.area, self.mobility = area, mobility
        self.road_map = getattr(mobility, "road_map", None)

    def partitions(self, places: Sequence[Place] | np.ndarray[Any, Any]) -> list[int]:
        """Return how many stations each part of the network has, the largest first.

        A part is what can reach each other over stations within the radio range of each other.
        """
        points = np.asarray(places, dtype=float).reshape(-1, 2)
        reach = self.radio.range or math.inf
        x, y = points.T
        within = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= reach**2
        left = np.ones(len(points), dtype=bool)
        sizes = []
        while left.any():
            part = np.zeros(len(points), dtype=bool)
            part[left.argmax()] = True
            frontier = part
            while frontier.any():
                frontier = within[frontier].any(axis=0) & ~part
                part = part | frontier
            left &= ~part
            sizes.append(int(part.sum()))
        return sorted(sizes, reverse=True)

    def connected(self, places: Sequence[Place] | np.ndarray[Any, Any]) -> bool:
        """Say whether the graph of stations within the radio range of each other is connected."""
        return len(self.partitions(places)) == 1

    def draw_connected(self, count: int, model: Mobility) -> list[Place]:
        """Return `count` places of a mobility model whose graph is connected.

        Raises `ScenarioError` where `PLACEMENTS` draws gave none.
        """
        rng = self.rng("placement")
        for _ in range(PLACEMENTS):
            places = model.places(count, rng)
            if self.connected(places):
                return places
        raise ScenarioError(
            f"{PLACEMENTS} random placements of {count} stations were all disconnected: "
            "raise nodes or range, or lower side"
        )

    def scenario(self, protocol: ProtocolSpec) -> Scenario:
        """Return the scenario: trajectories and workload drawn from the seed."""
        if not self._stations:
            raise ScenarioError("the topology has no stations")
        tracks = dict(zip(self._stations, self._trajectories(), strict=True))
        points = {host: point for point, host in self._brokers.items()}
        nodes = []
        for number, name in enumerate(self._nodes, start=1):
            if name in tracks:
                nodes.append(NodeSpec(id=number, name=name, waypoints=tracks[name], device=ACCESS))
            elif name in points:
                place = self._access_points[points[name]][0]
                stands = (Waypoint(0.0, *place),)
                nodes.append(NodeSpec(id=number, name=name, waypoints=stands, device=WIRED))
            else:
                raise ScenarioError(f"{name} has no link to an access point: addLink")
        # Clients are users' devices where there is infrastructure, and everywhere where not.
        ids = [node.id for node in nodes if not node.wired]
        workload = self.topic_workload
        return Scenario(
            topology=_snake_case(type(self).__name__),
            topology_parameters=self.parameters,
            protocol=protocol,
            seed=self.seed,
            duration=self.duration,
            area=self.area or _bounds([*self._stations.values(), *self._places_of_points()]),
            radio=self.radio,
            nodes=tuple(nodes),
            workload=workload.operations(ids, self.duration, self.rng("workload"))
            if workload
            else (),
            road_map=self.road_map.waypoints(self.waypoint_spacing) if self.road_map else (),
            access_points=self._points({node.name: node.id for node in nodes}),
            mesh_radio=self.mesh_radio if self._access_points else None,
            association=self.association,
        )

    def _places_of_points(self) -> list[Place]:
        return [place for place, _ in self._access_points.values()]

    def _points(self, ids: dict[str, int]) -> tuple[AccessPointSpec, ...]:
        """Return the access points; `ids` are those of the nodes by name."""
        alone = [name for name in self._access_points if name not in self._brokers]
        if alone:
            raise ScenarioError(f"{alone[0]} has no link to a host: addLink")
        return tuple(
            AccessPointSpec(
                id=number, name=name, position=place, broker=ids[self._brokers[name]], ssid=ssid
            )
            for number, (name, (place, ssid)) in enumerate(self._access_points.items(), start=1)
        )

    def _trajectories(self) -> list[tuple[Waypoint, ...]]:
        places = list(self._stations.values())
        if self.mobility is None:
            return [(Waypoint(0.0, *place),) for place in places]
        return self.mobility.trajectories(places, self.duration, self.rng("mobility"))


def connected_share(scenario: Scenario, samples: int = 30) -> float:
    """Return the share of `samples` moments of a run at which all nodes within range connect."""
    moments = _partitions(scenario, samples)
    return sum(len(sizes) == 1 for sizes in moments) / len(moments)


def connected_pairs(scenario: Scenario, samples: int = 30) -> float:
    """Return the share of pairs of nodes that are connected, mean of `samples` moments of a run."""
    nodes = len(scenario.nodes)
    if nodes == 1:
        return 1.0
    moments = _partitions(scenario, samples)
    pairs = sum(size * (size - 1) for sizes in moments for size in sizes)
    return pairs / (nodes * (nodes - 1) * len(moments))


def _partitions(scenario: Scenario, samples: int) -> list[list[int]]:
    topo = Topo(scenario.seed, scenario.duration, {})
    topo.radio = scenario.radio
    trace = scenario.trace()
    times = np.linspace(0.0, scenario.duration, samples if trace.moving else 1)
    return [topo.partitions(trace.positions(float(time))) for time in times]


def _bounds(places: list[Place]) -> tuple[float, float, float, float]:
    """Return the box around places, at least a metre wide and high: stations may be in a line."""
    (x0, x1), (y0, y1) = (
        (min(values), max(values)) if max(values) - min(values) >= 1.0 else _metre(values[0])
        for values in zip(*places, strict=True)
    )
    return x0, y0, x1, y1


def _metre(middle: float) -> tuple[float, float]:
    return middle - 0.5, middle + 0.5


def _place(name: str, position: str | Sequence[float]) -> Place:
    parts = position.split(",") if isinstance(position, str) else position
    try:
        return float(parts[0]), float(parts[1])
    except (ValueError, IndexError):
        raise ScenarioError(f"{name}: position {position!r} is not 'x,y' in metres") from None


def _snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
