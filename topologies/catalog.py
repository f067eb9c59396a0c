"""Finds topologies by name: every module of `topologies` holds one `Topo` subclass."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import topologies
from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario
from emulation.scenario.settings import ScenarioParameters
from emulation.scenario.topo import Topo
from emulation.workloads.registry import WORKLOAD, expanded
from nodeapp.discovery import loading, modules_in, subclass_in
from nodeapp.parameters import Parameter, parameters_of, suggestion

_HERE: Final = __name__.rpartition(".")[2]
"""This module lies among them."""


def topology_names() -> list[str]:
    """Return the names of the topologies, sorted."""
    return modules_in(topologies, {_HERE})


def topology_class(name: str) -> type[Topo]:
    """Return the class of a topology.

    Raises `ScenarioError` for an unknown name, and for a file that cannot be loaded.
    """
    if name not in topology_names():
        names = topology_names()
        near = suggestion(name, names)
        raise ScenarioError(f"no topology {name!r}{near}; there are: {', '.join(names)}")
    with loading(f"topologies.{name}", ScenarioError):
        topology = subclass_in(importlib.import_module(f"topologies.{name}"), Topo)
        if topology is None:
            raise ScenarioError(
                f"topologies/{name}.py has no subclass of Topo: add one with a build method"
            )
        parameters_of(topology.build)
    return topology


def topology_parameters(name: str) -> list[Parameter]:
    """Return what `--set` takes for a topology: for the network and for its own workload."""
    topology = topology_class(name)
    return [*topology.build_parameters(), *topology.workload_parameters()]


def all_parameters(topology: str, protocol: str, workload: str = "") -> dict[str, Parameter]:
    """Return all that `settings` of `make_scenario` may have, by name.

    `workload` is the name of the one that is chosen, the topology's own if empty.  Raises
    `ScenarioError` for unknown names.
    """
    return ScenarioParameters(topology, topology_class(topology), protocol, workload).by_name()


def make_scenario(
    topology: str, protocol: str, *, seed: int, duration: float, settings: Mapping[str, Any]
) -> Scenario:
    """Return the scenario that `run TOPOLOGY PROTOCOL --set key=value ...` asks for.

    The key `workload` chooses another workload than the topology's own, by its name or as
    `file:PATH`; `faults` has what fails (`emulation.scenario.faults`).  Raises `ScenarioError` for
    names, keys or values that do not exist or do not fit each other.
    """
    values = expanded(settings)
    chosen = str(values.get(WORKLOAD, ""))
    parameters = ScenarioParameters(topology, topology_class(topology), protocol, chosen)
    return parameters.typed(values).scenario(seed, duration)
