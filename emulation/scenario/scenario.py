"""A scenario: everything about a run, fixed before anything starts.

Nodes and their trajectories, the radio, the publish/subscribe protocol with its parameters, every
client operation with its time, the duration and the seed.  Frozen; `Scenario.load` and
`Scenario.save` are a JSON round trip, so a run can be repeated from its folder alone.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from emulation.errors import ScenarioError, first_problem
from emulation.mobility.contacts import Contact
from emulation.mobility.trajectory import Trace, Waypoint
from emulation.plain_file import read_plain_file
from emulation.radio.spec import RadioSpec
from emulation.radio.wire import NO_RANGE, WireSpec
from emulation.scenario.access_point import ACCESS, WIRED, AccessPointSpec, AssociationSpec
from emulation.scenario.faults import NO_RADIOS, ON_A_SWITCH, Fault
from emulation.whole import write_text
from emulation.workloads.base import Operation
from nodeapp.addressing import OF_NODES, address_of
from nodeapp.pubsub.base import Environment

FORMAT: Final = 1
"""Version of the JSON form."""
NOMINAL_RANGE: Final = 250.0
"""Metres that nodes assume as radio range if the radio has none."""


class NodeSpec(BaseModel):
    """One node that runs the node app: its id, its name in Mininet, and its trajectory.

    `device` is wlan0 if it has a radio (a station), eth0 if it is wired to an access point or to
    a switch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: int = Field(ge=1, le=2**24 - 2)
    name: str = Field(
        pattern=r"^[a-z][a-z0-9]{0,8}$", description="interface <name>-wlan0 must fit"
    )
    waypoints: tuple[Waypoint, ...] = Field(min_length=1)
    device: Literal["wlan0", "eth0"] = ACCESS

    @property
    def wired(self) -> bool:
        """Whether it is a wired host rather than a station."""
        return self.device == WIRED

    @property
    def address(self) -> str:
        """IPv4 address on the radio or the wire."""
        return address_of(self.id)

    @property
    def mac(self) -> str:
        """Locally administered Ethernet address of that interface, from the node id."""
        return (OF_NODES + self.id.to_bytes(4, "big")).hex(":")

    @property
    def interface(self) -> str:
        """Name of the interface inside the node's namespace."""
        return f"{self.name}-{self.device}"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [waypoint.time for waypoint in self.waypoints]
        if any(later < earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError(f"{self.name}: waypoints must be in order of time")
        return self


class ProtocolSpec(BaseModel):
    """A publish/subscribe protocol by its registered name, with all its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, Any] = {}


class WorkloadSpec(BaseModel):
    """The workload that made the operations of a scenario: its name and parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, Any] = {}


class Scenario(BaseModel):
    """Everything about a run.

    With access points, `radio` is that of stations and access points, `mesh_radio` that among
    access points.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = FORMAT
    topology: str
    topology_parameters: dict[str, Any] = {}
    protocol: ProtocolSpec
    seed: int = Field(ge=0, lt=2**63)
    duration: float = Field(gt=0, le=7 * 86_400, description="seconds")
    area: tuple[float, float, float, float] = Field(description="x0, y0, x1, y1, metres")
    radio: RadioSpec
    nodes: tuple[NodeSpec, ...] = Field(min_length=1)
    workload: tuple[Operation, ...] = ()
    navigation: tuple[Operation, ...] = Field(
        (), description="routes that navigators announce to the clients, if the protocol needs them"
    )
    workload_spec: WorkloadSpec | None = Field(
        None,
        description="what made the workload; the parameters of a topology's own are among "
        "topology_parameters too; none: nothing is known of it",
    )
    contacts: tuple[Contact, ...] | None = Field(
        None, description="who hears whom, and when; none: places and propagation decide it"
    )
    road_map: tuple[tuple[float, float], ...] = Field(
        (), description="waypoints of the map that all nodes have, metres; empty: they have none"
    )
    access_points: tuple[AccessPointSpec, ...] = ()
    mesh_radio: RadioSpec | None = None
    wire: WireSpec | None = Field(
        None, description="the nodes are hosts on a switch, with these cables; none has a radio"
    )
    failed_brokers: tuple[tuple[int, float, float], ...] = Field(
        (), description="id, x, y of brokers that all nodes know of but that do not exist"
    )
    association: AssociationSpec = AssociationSpec()
    auth: Literal["none", "psk"] = Field(
        "none", description="psk: node apps share a key and seal their frames (nodeapp.auth)"
    )
    mqtt: bool = Field(False, description="node apps serve clients of MQTT (nodeapp.mqtt.front)")
    faults: tuple[Fault, ...] = Field((), description="what fails on purpose, in order of time")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ids = {node.id for node in self.nodes}
        names = {node.name for node in self.nodes}
        if len(ids) != len(self.nodes) or len(names) != len(self.nodes):
            raise ValueError("two nodes share an id or a name")
        events: set[tuple[int, int]] = set()
        for operation in self.operations:
            if operation.node not in ids:
                raise ValueError(
                    f"the workload names node {operation.node}, which does not exist: take those "
                    "that it is called with"
                )
            if operation.action == "publish":
                if (operation.node, operation.sequence) in events or operation.sequence < 1:
                    raise ValueError(
                        f"node {operation.node} publishes number {operation.sequence} twice: "
                        "number the events of a node from 1"
                    )
                events.add((operation.node, operation.sequence))
        self._check_access_points()
        self.check_faults(self.faults)
        if self.contacts is not None:
            self._check_contacts(self.contacts, ids)
        return self

    def _check_contacts(self, contacts: tuple[Contact, ...], ids: set[int]) -> None:
        if self.access_points or self.wire is not None:
            raise ValueError("contacts are of stations that hear each other directly")
        for contact in contacts:
            if not {contact.one, contact.other} <= ids or contact.end < contact.start:
                raise ValueError(f"{contact} is not a contact between two nodes")

    def check_faults(self, faults: Iterable[Fault]) -> None:
        """Raise ValueError for faults of what is not there, or cannot have them."""
        names = {node.name for node in self.nodes}
        stations = {node.name for node in self.stations}
        points = {point.name for point in self.access_points}
        named = {
            **dict.fromkeys(("crash", "position", "clock"), names),
            **dict.fromkeys(("radio", "off"), stations),
            "access-point": points,
            "link": stations | points,
            # A cable behind an access point has no medium to disturb it, or on which to be heard.
            "disturb": set[str]() if points else names,
            "stranger": stations if points else names,
        }
        for fault in faults:
            strangers = set(fault.nodes) - named.get(fault.kind, set())
            if strangers:
                raise ValueError(f"a fault of kind {fault.kind} names {min(strangers)}")
            if fault.sender and not fault.sender.isdecimal():
                self.id_of(fault.sender)

    def _check_access_points(self) -> None:
        points = self.access_points
        if self.wire is not None:
            if points or self.stations or len(self.wire.delays) != len(self.nodes):
                raise ValueError(
                    "on a switch all nodes are hosts (device eth0), each with a delay, and there "
                    "are no access points"
                )
            if any(fault.kind not in ON_A_SWITCH for fault in self.faults):
                raise ValueError(NO_RADIOS)
            if self.radio.energy is not None:
                raise ValueError("hosts on a switch have no radios that take energy: leave it out")
            return
        names = {node.name for node in self.nodes} | {point.name for point in points}
        if len({point.id for point in points}) != len(points):
            raise ValueError("two access points share an id")
        if len(names) != len(self.nodes) + len(points):
            raise ValueError("two nodes or access points share a name")
        if bool(points) != (self.mesh_radio is not None):
            raise ValueError("access points and a mesh_radio go together: give both or neither")
        wired = {node.id: node for node in self.nodes if node.wired}
        brokers = [point.broker for point in points]
        if sorted(brokers) != sorted(wired):
            raise ValueError(
                "every access point needs a broker of its own, a node with device eth0, "
                "and every such node an access point"
            )
        for node in wired.values():
            if len(node.waypoints) > 1:
                raise ValueError(f"{node.name} is wired to an access point and cannot move")

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Workload and navigation together, in order of time."""
        if not self.navigation:
            return self.workload
        both = (*self.workload, *self.navigation)
        return tuple(sorted(both, key=lambda operation: operation.time))

    def id_of(self, name: str) -> int:
        """Return the id of a node by its name, or its number.  Raises ValueError."""
        if name.isdecimal():
            return int(name)
        ids = {node.name: node.id for node in self.nodes}
        if name not in ids:
            raise ValueError(f"there is no node {name}")
        return ids[name]

    def heard_by(self, fault: Fault) -> list[NodeSpec]:
        """Return the nodes that hear a stranger: never the node whose address its packet has."""
        sender = self.id_of(fault.sender)
        around = self.stations or self.nodes
        return [
            node
            for node in around
            if node.id != sender and (not fault.nodes or node.name in fault.nodes)
        ]

    @property
    def stations(self) -> tuple[NodeSpec, ...]:
        """The nodes with a radio, in the order of `nodes`."""
        return tuple(node for node in self.nodes if not node.wired)

    def until(self, seconds: float) -> Scenario:
        """Return the scenario up to a time; itself if it is not longer."""
        if seconds >= self.duration:
            return self
        kept = {
            "workload": tuple(done for done in self.workload if done.time <= seconds),
            "navigation": tuple(leg for leg in self.navigation if leg.time <= seconds),
            "faults": tuple(fault for fault in self.faults if fault.start < seconds),
        }
        return self.model_copy(update={"duration": seconds, **kept})

    def save(self, path: Path) -> None:
        """Write the scenario as JSON.  Raises OSError."""
        write_text(path, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario.  Raises `ScenarioError` if the file is missing or is not one."""
        try:
            return cls.model_validate_json(read_plain_file(path))
        except OSError as error:
            raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
        except ValidationError as error:
            what = first_problem(error, "scenario")
            raise ScenarioError(f"{path} is not a scenario: {what}") from None

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose; the same seed and purpose give the same numbers."""
        return random.Random(f"{self.seed}/{purpose}")

    @property
    def key(self) -> bytes | None:
        """The key that node apps share, if any; from the seed, so that runs can be repeated."""
        if self.auth == "none":
            return None
        return hashlib.blake2s(f"{self.seed}/key".encode()).hexdigest().encode()

    def environment(self) -> Environment:
        """Return the facts about the network that all nodes know."""
        numbered = [node.id for node in self.nodes] == list(range(1, len(self.nodes) + 1))
        return Environment(
            self.area,
            NO_RANGE if self.wire is not None else self.radio.range or NOMINAL_RANGE,
            waypoints=self.road_map,
            nodes=len(self.nodes) if numbered else 0,
            brokers=tuple((point.broker, *point.position) for point in self.access_points)
            + self.failed_brokers,
            mesh_range=0.0 if self.mesh_radio is None else self.mesh_radio.range or NOMINAL_RANGE,
            wired=self.wire is not None,
        )

    def trace(self) -> Trace:
        """Return the trajectories of all nodes, in the order of `nodes`."""
        return Trace([node.waypoints for node in self.nodes])
