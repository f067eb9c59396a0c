"""The workload interface: an object that returns the operations of all clients before a run starts.

A workload is a frozen dataclass derived from `Workload`, in a file of its own in this folder, whose
name is the workload's (`emulation.workloads.registry`).  Fields annotated with `Param` are the
parameters that `--set` takes; other fields are for topologies.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from emulation.mobility.routes import Leg
from nodeapp.events import MAX_EVENT
from nodeapp.parameters import Parameter, parameters_of

NUMBERS: Final = 2**32 - 1
"""The largest number of an event or a subscription: it has four octets on the wire."""


class Operation(BaseModel):
    """One operation of a client at a node: the workload is a list of these.

    `filter` and `policy` hold predicates as (attribute, operator, value); `subscription` numbers a
    client's subscriptions at one node; `sequence` numbers a node's publications, from 1.  A client
    that advertises announces the topic on which it will publish, the only attribute of `event`.
    A navigator announces a route: `event` has the fields of `nodeapp.pubsub.base.Route`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: float = Field(ge=0)
    node: int
    action: Literal["subscribe", "unsubscribe", "publish", "advertise", "navigate"]
    subscription: int = Field(0, ge=0, le=NUMBERS)
    filter: tuple[tuple[str, str, Any], ...] = ()
    client_attributes: dict[str, Any] = {}
    sequence: int = Field(0, ge=0, le=NUMBERS)
    event: dict[str, Any] = {}
    policy: tuple[tuple[str, str, Any], ...] = ()
    size: int = Field(0, ge=0, le=MAX_EVENT, description="bytes of the event; padded up to this")


@dataclass(frozen=True)
class Workload(ABC):
    """Base of every workload.  The first line of a subclass's docstring describes it in `list`."""

    @property
    def name(self) -> str:
        """The name that `--workload` takes: that of the file."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Return the parameters, with the defaults of the class."""
        return parameters_of(cls)

    def values(self) -> dict[str, Any]:
        """Return the values of the parameters, by name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.parameters()}

    @abstractmethod
    def operations(
        self, nodes: Mapping[int, str], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the clients' operations in a run of `duration` seconds, in order of time.

        `nodes` are those that may have clients: their ids, with their names.  Raises
        `ScenarioError` if the workload does not fit them or the duration.
        """


def announcements(routes: Iterable[tuple[int, Leg]]) -> tuple[Operation, ...]:
    """Return the operations that announce legs to the clients at nodes, in order of time."""
    operations = [
        Operation(
            time=max(leg.time, 0.0),
            node=node,
            action="navigate",
            event=dict(zip(Leg._fields[1:], leg[1:], strict=True)),
        )
        for node, leg in routes
    ]
    return tuple(sorted(operations, key=lambda operation: operation.time))
