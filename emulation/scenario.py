"""A scenario: everything about a run, fixed before anything starts.

Nodes and their trajectories, the radio, the publish/subscribe protocol with its parameters, every
client operation with its time, the duration and the seed.  Frozen; `Scenario.load` and
`Scenario.save` are a JSON round trip, so a run can be repeated from its folder alone.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from emulation.radio.spec import RadioSpec
from nodeapp.addressing import address_of

FORMAT: Final = 1
"""Version of the JSON form."""


class ScenarioError(ValueError):
    """A scenario that cannot be built or read; the message says what to change."""


class Waypoint(NamedTuple):
    """At `time` seconds into the run the node is at (x, y) metres."""

    time: float
    x: float
    y: float


class NodeSpec(BaseModel):
    """One node: its id, its name in Mininet, and where it is when."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: int = Field(ge=1, le=2**24 - 2)
    name: str = Field(
        pattern=r"^[a-z][a-z0-9]{0,8}$", description="interface <name>-wlan0 must fit"
    )
    waypoints: tuple[Waypoint, ...] = Field(min_length=1)

    @property
    def address(self) -> str:
        """IPv4 address on the radio."""
        return address_of(self.id)

    @property
    def mac(self) -> str:
        """Locally administered Ethernet address of the radio, from the node id."""
        return ":".join(f"{octet:02x}" for octet in b"\x02\x00" + self.id.to_bytes(4, "big"))

    @property
    def interface(self) -> str:
        """Name of the radio interface inside the node's namespace."""
        return f"{self.name}-wlan0"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [waypoint.time for waypoint in self.waypoints]
        if any(later < earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError(f"{self.name}: waypoints are not in order of time")
        return self


class Operation(BaseModel):
    """One thing a client does at a node: the workload is a list of these.

    `filter` holds predicates as (attribute, operator, value); `subscription` numbers a client's
    subscriptions at one node; `sequence` numbers a node's publications, from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: float = Field(ge=0)
    node: int
    action: Literal["subscribe", "unsubscribe", "publish"]
    subscription: int = 0
    filter: tuple[tuple[str, str, Any], ...] = ()
    client_attributes: dict[str, Any] = {}
    sequence: int = 0
    event: dict[str, Any] = {}
    policy: tuple[tuple[str, str, Any], ...] = ()
    size: int = Field(0, ge=0, le=60_000, description="bytes of the event; padded up to this")


class ProtocolSpec(BaseModel):
    """A publish/subscribe protocol by its registered name, with all its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, Any] = {}


class Scenario(BaseModel):
    """Everything about a run."""

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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ids = {node.id for node in self.nodes}
        names = {node.name for node in self.nodes}
        if len(ids) != len(self.nodes) or len(names) != len(self.nodes):
            raise ValueError("two nodes share an id or a name")
        events: set[tuple[int, int]] = set()
        for operation in self.workload:
            if operation.node not in ids:
                raise ValueError(f"the workload names node {operation.node}, which does not exist")
            if operation.action == "publish":
                if (operation.node, operation.sequence) in events or operation.sequence < 1:
                    raise ValueError(
                        f"node {operation.node} publishes number {operation.sequence} twice"
                    )
                events.add((operation.node, operation.sequence))
        return self

    def save(self, path: Path) -> None:
        """Write the scenario as JSON."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario.  Raises `ScenarioError` where the file is missing or not one."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ScenarioError(f"cannot read {path}: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "scenario"
            raise ScenarioError(f"{path} is not a scenario: {where}: {first['msg']}") from None

    def rng(self, purpose: str) -> random.Random:
        """Return a generator for one purpose; the same seed and purpose give the same numbers."""
        return random.Random(f"{self.seed}/{purpose}")

    def trace(self) -> Trace:
        """Return the trajectories of all nodes, in the order of `nodes`."""
        return Trace([node.waypoints for node in self.nodes])


class Trace:
    """Piecewise-linear trajectories of N nodes, evaluated together.

    A node stands at its first waypoint before that waypoint's time and at its last one after it.
    """

    def __init__(self, trajectories: list[tuple[Waypoint, ...]]) -> None:
        self._trajectories = [
            np.asarray(points, dtype=float).reshape(-1, 3) for points in trajectories
        ]
        self.moving: bool = any(len(points) > 1 for points in self._trajectories)
        self._static = np.array([points[0, 1:] for points in self._trajectories]).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._trajectories)

    def positions(self, time: float) -> npt.NDArray[np.float64]:
        """Return an array (N, 2) of metres: where every node is `time` seconds into the run."""
        if not self.moving:
            return self._static.copy()
        result = np.empty((len(self), 2))
        for row, points in enumerate(self._trajectories):
            result[row, 0] = np.interp(time, points[:, 0], points[:, 1])
            result[row, 1] = np.interp(time, points[:, 0], points[:, 2])
        return result

    def position(self, node: int, time: float) -> tuple[float, float]:
        """Return where the node at index `node` is, metres, `time` seconds into the run."""
        points = self._trajectories[node]
        return (
            float(np.interp(time, points[:, 0], points[:, 1])),
            float(np.interp(time, points[:, 0], points[:, 2])),
        )

    def velocity(self, node: int, time: float) -> tuple[float, float]:
        """Return the velocity, metres a second, of the node at index `node`."""
        points = self._trajectories[node]
        leg = int(np.searchsorted(points[:, 0], time, side="right"))
        if leg == 0 or leg == len(points):
            return 0.0, 0.0
        (t0, x0, y0), (t1, x1, y1) = points[leg - 1], points[leg]
        return float((x1 - x0) / (t1 - t0)), float((y1 - y0) / (t1 - t0))
