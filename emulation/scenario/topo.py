"""Topologies: where nodes stand, how they move, which radio they have, what their clients do.

A topology is a class with a `build` method, as in Mininet, that calls `addStation` and, if
stations move, `setMobilityModel`, and for a mesh `addAccessPoint`, `addHost` for each one's broker
and `addLink` between the two; or, without any radio, `addSwitch`, `addHost` and `addLink` from each
host to the switch.  The names and signatures are Mininet-WiFi's.  `--set` takes the keyword
arguments of `build`, checked against their annotations, the radio settings that all topologies
share (`emulation.scenario.radio_settings`) and the parameters of `workload`, the clients' behaviour
unless `--workload` chooses another.  `scenario` turns a built topology into a `Scenario`, without
Mininet.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from emulation.errors import ScenarioError, first_problem
from emulation.mobility.base import Area, Mobility, box, coordinates, shared
from emulation.mobility.contacts import Contact
from emulation.mobility.registry import mobility, model_named, model_parameters, setting
from emulation.mobility.routes import Leg, deviating, legs
from emulation.mobility.trajectory import Position2D, Waypoint
from emulation.radio.spec import PROPAGATION_MODELS, RadioSpec
from emulation.radio.wire import WireSpec
from emulation.scenario.access_point import ACCESS, WIRED, AccessPointSpec, AssociationSpec
from emulation.scenario.connectivity import connected
from emulation.scenario.faults import Fault, make_faults
from emulation.scenario.radio_settings import RadioSettings
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario, WorkloadSpec
from emulation.workloads.base import Operation, Workload, announcements
from nodeapp.parameters import Parameter, parameters_of
from nodeapp.pubsub.registry import service_of

PLACEMENTS = 200
"""Draws of a random topology after which it counts as never connected."""
WAYPOINT_SPACING = 50.0
"""Most metres between waypoints of a road map; a fifth of the usual radio range."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Topo:
    """Base of every topology.  The first line of a subclass's docstring describes it in `list`."""

    workload: Workload | None = None
    """The clients' behaviour: set on the class, or by `build` if it depends on parameters."""

    def __init__(
        self,
        seed: int,
        duration: float,
        build: Mapping[str, Any] = _NONE,
        *,
        mobility: Mapping[str, Any] = _NONE,
        radio: Mapping[str, Any] = _NONE,
        workload: Mapping[str, Any] = _NONE,
    ) -> None:
        """Build the topology; `duration` in seconds.

        The values are arguments of `build`, of the mobility models and of the radio as far as
        `build` lacks them, and parameters of the topology's own workload.
        """
        self.seed = seed
        self.duration = duration
        self.parameters = {**build, **mobility, **radio, **workload}
        self.radio = RadioSpec()
        self.area: tuple[float, float, float, float] | None = None
        self.mobility: Mobility | None = None
        self.contacts: list[Contact] | None = None
        """Who hears whom; None: positions decide it."""
        self.waypoint_spacing = WAYPOINT_SPACING
        self.mesh_radio = RadioSpec()
        self.association = AssociationSpec()
        self.wired_clients: list[str] = []
        """Brokers' hosts that have clients too."""
        self.turn = 0.0
        """Probability that a station leaves a leg early, for an unannounced place."""
        self.speed_error = 0.0
        """Largest share by which speeds are off."""
        self.failed_brokers: list[Position2D] = []
        """Positions of brokers that all nodes know of but that do not exist."""
        self._nodes: list[str] = []
        """Stations and hosts in the order of addition, which is that of their ids."""
        self._stations: dict[str, Position2D] = {}
        self._access_points: dict[str, tuple[Position2D, str]] = {}
        """Position and SSID."""
        self._switch = ""
        self._cables: dict[str, float] = {}
        """Hosts on the switch, with the one-way delays of their cables, seconds."""
        self._faults: list[str] = []
        self._brokers: dict[str, str] = {}
        """Broker's host by access point."""
        if self.workload and workload:
            self.workload = dataclasses.replace(self.workload, **workload)
        self.mobility_settings = mobility
        self.radio_settings = RadioSettings(**radio)
        self.build(**build)

    @classmethod
    def build_parameters(cls) -> list[Parameter]:
        """Return the parameters of the network: of `build`, of motion, and of the radio."""
        return [
            *parameters_of(cls.build),
            *cls.mobility_parameters(),
            *cls.radio_parameters(),
        ]

    @classmethod
    def mobility_parameters(cls) -> list[Parameter]:
        """Return the parameters of all mobility models, if `build` has a `mobility` to choose one.

        Those that `build` has itself are left out.
        """
        own = {parameter.name for parameter in parameters_of(cls.build)}
        if "mobility" not in own:
            return []
        return [parameter for name, parameter in model_parameters().items() if name not in own]

    @classmethod
    def radio_parameters(cls) -> list[Parameter]:
        """Return the radio settings that all topologies share, without those that `build` has."""
        own = {parameter.name for parameter in parameters_of(cls.build)}
        return [item for item in parameters_of(RadioSettings) if item.name not in own]

    @classmethod
    def workload_parameters(cls) -> list[Parameter]:
        """Return the parameters of the topology's own workload, with the topology's defaults.

        A parameter that `build` has under the same name is not the workload's.
        """
        if cls.workload is None:
            return []
        defaults, of_build = cls.workload.values(), {item.name for item in cls.build_parameters()}
        return [
            dataclasses.replace(parameter, default=defaults[parameter.name])
            for parameter in cls.workload.parameters()
            if parameter.name not in of_build
        ]

    def build(self, **parameters: Any) -> None:
        """Add the stations; overridden by every topology."""

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose; the same seed and purpose give the same numbers."""
        return random.Random(f"{self.seed}/{purpose}")

    def addStation(self, name: str, position: str | Sequence[float]) -> str:
        """Add a station at `position`, metres: "x,y", "x,y,z" or a sequence; z is ignored.

        Raises `ScenarioError` for a second station of that name or an invalid position.
        """
        self._add(name, "stations")
        self._stations[name] = _position(name, position)
        self._nodes.append(name)
        return name

    def addAccessPoint(
        self, name: str, ssid: str = "mesh", position: str | Sequence[float] = "0,0,0"
    ) -> str:
        """Add a mesh access point at `position`, like `addStation`, and with its errors.

        It needs a host on which its broker runs: `addLink(host, access_point)`.
        """
        self._add(name, "access points")
        self._access_points[name] = (_position(name, position), ssid)
        return name

    def addHost(self, name: str) -> str:
        """Add a host without a radio, to be linked to an access point, whose position it shares.

        Raises `ScenarioError` if the name is taken.
        """
        self._add(name, "hosts")
        self._nodes.append(name)
        return name

    def addSwitch(self, name: str) -> str:
        """Add the switch, to which all hosts are wired; there are no stations then.

        Raises `ScenarioError` for a second one.
        """
        if self._switch:
            raise ScenarioError(f"there is a switch already: {self._switch}")
        self._switch = name
        return name

    def addLink(self, node1: str, node2: str, delay: float = 0.0) -> None:
        """Wire a host to an access point or to the switch, in either order.

        `delay` is that of a cable to the switch, one way, seconds.  Raises `ScenarioError` for
        anything else, and if one of them has a link already.
        """
        if self._switch in (node1, node2):
            host = node2 if node1 == self._switch else node1
            if host in self._stations or host not in self._nodes or host in self._cables:
                raise ScenarioError(f"{host} is not a host, or is already wired to the switch")
            self._cables[host] = delay
            return
        host, point = (node2, node1) if node1 in self._access_points else (node1, node2)
        if point not in self._access_points or host in self._stations or host not in self._nodes:
            raise ScenarioError(f"a link must go from a host to an access point: {node1}, {node2}")
        if point in self._brokers or host in self._brokers.values():
            raise ScenarioError(f"{host} and {point} can have only one link each")
        self._brokers[point] = host

    def addFault(self, fault: str) -> None:
        """Make something fail, as `--fault` does: "crash 30% at 20 for 10".

        `emulation.scenario.faults` has the kinds.
        """
        self._faults.append(fault)

    def _add(self, name: str, what: str) -> None:
        if name in self._nodes or name in self._access_points:
            raise ScenarioError(f"two {what} are called {name}")

    def addStations(self, count: int) -> None:
        """Add stations sta1, sta2, ... at positions of the mobility model."""
        if self.mobility is None:
            raise ScenarioError("choose a mobility model before stations without positions")
        positions = self.mobility.positions(count, self.rng("placement"))
        for number, position in enumerate(positions, start=1):
            self.addStation(f"sta{number}", position=position)

    def setRadio(
        self,
        range: float,
        propagation: str = "twoRayGround",
        standard: str = "g",
        mode: str = "adhoc",
    ) -> None:
        """Choose range, metres, propagation model, 802.11 amendment and mode of the stations.

        They are the parameters of `emulation.scenario.topology_parameters`.
        """
        self._set_radio({"standard": standard, "mode": mode, "range": range})
        self.setPropagationModel(propagation)

    def setPropagationModel(
        self,
        model: str,
        exp: float = 3.0,
        sL: float = 0.0,
        variance: float = 4.0,
        antennaHeight: float = 1.5,
    ) -> None:
        """Choose one of `emulation.radio.spec.PROPAGATION_MODELS`; each uses what it needs.

        `exp` is the path loss exponent, `sL` the system loss and `variance` the standard deviation
        of the shadowing, dB (so named in Mininet-WiFi), `antennaHeight` in metres.
        """
        if model not in PROPAGATION_MODELS:
            names = ", ".join(sorted(PROPAGATION_MODELS))
            raise ScenarioError(f"no propagation model {model!r}; there are {names}")
        arguments = {"exp": exp, "sL": sL, "variance": variance, "antennaHeight": antennaHeight}
        chosen = PROPAGATION_MODELS[model]
        values = {field: arguments[keyword] for keyword, field in chosen.keywords.items()}
        self._set_radio({"propagation": {"model": chosen.model_fields["model"].default, **values}})

    def _set_radio(self, update: Mapping[str, Any]) -> None:
        try:
            self.radio = RadioSpec.model_validate(self.radio.model_dump() | dict(update))
        except ValidationError as error:
            raise ScenarioError(f"radio: {first_problem(error)}") from None

    def setMobilityModel(
        self,
        model: str = "RandomWayPoint",
        min_x: float = 0.0,
        max_x: float = 100.0,
        min_y: float = 0.0,
        max_y: float = 100.0,
        min_v: float = 1.0,
        max_v: float = 1.0,
        **keywords: Any,
    ) -> None:
        """Let the stations move in the rectangle at `min_v` to `max_v` metres a second.

        `emulation.mobility.registry` has the models, their files the keywords that they take;
        keywords of other models are ignored.  Vehicles start at the nearest point of a lane, and
        the topology has a road map.
        """
        self.area = (min_x, min_y, max_x, max_y)
        own = {parameter.name for parameter in model_named(model).parameters()}
        for parameter in self.mobility_parameters():
            name = parameter.name
            if name in own:
                keywords.setdefault(name, self.mobility_settings.get(name, parameter.default))
            elif self.parameters.pop(name, parameter.default) != parameter.default:
                raise ScenarioError(
                    f"{name} is not a parameter of the mobility {setting(model_named(model))}: "
                    "leave it out, or choose another mobility"
                )
        self.mobility = mobility(model, self.area, min_v, max_v, keywords)

    def draw_connected(self, count: int, model: Mobility) -> list[Position2D]:
        """Return `count` positions of a mobility model whose graph is connected.

        Raises `ScenarioError` if `PLACEMENTS` draws yield none.
        """
        rng = self.rng("placement")
        for _ in range(PLACEMENTS):
            positions = model.positions(count, rng)
            if connected(self.radio, positions):
                return positions
        raise ScenarioError(
            f"{PLACEMENTS} random placements of {count} stations were all disconnected: "
            "raise nodes or range, or lower side"
        )

    def _check(self) -> None:
        """Raise `ScenarioError` for nodes that do not go together."""
        if not self._stations and not self._cables:
            raise ScenarioError("the topology has no stations")
        if self._switch:
            if self._stations or self._access_points or self.failed_brokers:
                raise ScenarioError("a switch connects only hosts: remove stations, access points")
            self.radio_settings.refuse()
        if self.area is not None:
            self._area()  # models of motion rely on it

    def scenario(
        self,
        protocol: ProtocolSpec,
        workload: Workload | None = None,
        faults: Sequence[str] = (),
    ) -> Scenario:
        """Return the scenario: trajectories, workload and faults drawn from the seed.

        Its topology has the name of this class's file.  `workload` replaces the topology's own;
        `faults` are added to the topology's.
        """
        self._check()
        tracks = dict(zip(self._stations, self._trajectories(), strict=True))
        announced = {name: legs(track) for name, track in tracks.items()}
        if self.turn or self.speed_error:
            tracks, announced = self._deviating(tracks)
        nodes = self._specs(tracks)
        # With infrastructure clients are users' devices, otherwise they are at every node.
        clients = {
            node.id: node.name
            for node in nodes
            if not node.wired or node.name in self.wired_clients or self._switch
        }
        chosen = workload or self.workload
        rng = self.rng("workload")
        operations = chosen.operations(clients, self.duration, rng) if chosen else ()
        radio, mesh_radio = self.radio_settings.applied(self.radio), None
        if self._switch:
            radio = radio.model_copy(update={"range": None})
        if self._access_points:
            mesh_radio = self.radio_settings.applied(self.mesh_radio, like=self.radio)
        road_map = self.mobility.road_map if self.mobility else None
        area = self._area([node.waypoints[0][1:3] for node in nodes if node.name in self._cables])
        return Scenario(
            topology=type(self).__module__.rpartition(".")[2],  # as commands call it
            topology_parameters=self.parameters,
            protocol=protocol,
            seed=self.seed,
            duration=self.duration,
            area=area,
            radio=radio,
            nodes=tuple(nodes),
            workload=operations,
            navigation=self._navigation(protocol.name, nodes, announced),
            failed_brokers=tuple(
                (number, *at) for number, at in enumerate(self.failed_brokers, len(nodes) + 1)
            ),
            workload_spec=chosen and WorkloadSpec(name=chosen.name, parameters=chosen.values()),
            contacts=None if self.contacts is None else tuple(self.contacts),
            road_map=road_map.waypoints(self.waypoint_spacing) if road_map else (),
            access_points=self._points({node.name: node.id for node in nodes}),
            mesh_radio=mesh_radio,
            wire=WireSpec(delays=tuple(self._cables[node.name] for node in nodes))
            if self._switch
            else None,
            association=self.association,
            faults=self._made_faults(faults, area, None if self._switch else radio),
        )

    def _made_faults(
        self, more: Sequence[str], area: Area, radio: RadioSpec | None
    ) -> tuple[Fault, ...]:
        return make_faults(
            [*self._faults, *more],
            stations=[*self._stations, *self._cables],
            hosts=list(self._brokers.values()),
            access_points=list(self._access_points),
            area=area,
            duration=self.duration,
            rng=self.rng("faults"),
            radio=radio,
            placed=self.contacts is None,
        )

    def _specs(self, tracks: Mapping[str, tuple[Waypoint, ...]]) -> list[NodeSpec]:
        """Return the nodes; `tracks` are the stations' trajectories by name."""
        points = {host: point for point, host in self._brokers.items()}
        nodes = []
        for number, name in enumerate(self._nodes, start=1):
            device = ACCESS if name in tracks else WIRED
            if name in tracks:
                waypoints = tracks[name]
            elif name in self._cables:
                waypoints = (Waypoint(0.0, *_on_map(number, len(self._nodes))),)
            elif name in points:
                waypoints = (Waypoint(0.0, *self._access_points[points[name]][0]),)
            else:
                raise ScenarioError(f"{name} has no link to an access point or switch: addLink")
            nodes.append(NodeSpec(id=number, name=name, waypoints=waypoints, device=device))
        return nodes

    def _deviating(
        self, plans: dict[str, tuple[Waypoint, ...]]
    ) -> tuple[dict[str, tuple[Waypoint, ...]], dict[str, list[Leg]]]:
        """Return trajectories that deviate from announced routes, and the routes."""
        rng, area = self.rng("deviations"), self._area()
        tracks, announced = {}, {}
        for name, plan in plans.items():
            tracks[name], announced[name] = deviating(plan, area, self.turn, self.speed_error, rng)
        return tracks, announced

    def _navigation(
        self, protocol: str, nodes: Sequence[NodeSpec], announced: Mapping[str, Sequence[Leg]]
    ) -> tuple[Operation, ...]:
        """Return the routes that navigators announce to clients, if the protocol needs them."""
        if not service_of(protocol).needs_routes:
            return ()
        return announcements(
            (node.id, leg)
            for node in nodes
            for leg in announced.get(node.name, ())
            if leg.time < self.duration
        )

    def _area(self, wired: Sequence[Position2D] = ()) -> Area:
        """Return the mobility model's area, or the box around all nodes if they stand still.

        `wired` are the positions of hosts on a switch on a map.  Raises `ScenarioError` for a
        station that starts outside.
        """
        if self.area is None:
            return box([*self._stations.values(), *self._positions_of_points(), *wired])
        x0, y0, x1, y1 = self.area
        for name, (x, y) in self._stations.items():
            if not (x0 <= x <= x1 and y0 <= y <= y1):
                raise ScenarioError(
                    f"{name} starts at {x:g},{y:g}, outside the area {x0:g},{y0:g} to "
                    f"{x1:g},{y1:g} m: move it inside, or widen the area (setMobilityModel)"
                )
        return self.area

    def _positions_of_points(self) -> list[Position2D]:
        return [position for position, _ in self._access_points.values()]

    def _points(self, ids: dict[str, int]) -> tuple[AccessPointSpec, ...]:
        """Return the access points; `ids` are those of the nodes by name."""
        alone = [name for name in self._access_points if name not in self._brokers]
        if alone:
            raise ScenarioError(f"{alone[0]} has no link to a host: addLink")
        return tuple(
            AccessPointSpec(
                id=number, name=name, position=position, broker=ids[self._brokers[name]], ssid=ssid
            )
            for number, (name, (position, ssid)) in enumerate(self._access_points.items(), start=1)
        )

    def _trajectories(self) -> list[tuple[Waypoint, ...]]:
        positions = list(self._stations.values())
        if self.mobility is None:
            return [(Waypoint(0.0, *position),) for position in positions]
        return self.mobility.trajectories(positions, self.duration, shared(self.rng("mobility")))


def _on_map(number: int, hosts: int) -> Position2D:
    """Return where a map shows host `number` of `hosts` on a switch: on a circle, metres."""
    angle = 2 * math.pi * number / hosts
    return round(100 + 100 * math.cos(angle), 3), round(100 + 100 * math.sin(angle), 3)


def _position(name: str, position: str | Sequence[float]) -> Position2D:
    try:
        return coordinates(position)[:2]
    except ValueError as error:
        raise ScenarioError(f"{name}: {error}") from None
