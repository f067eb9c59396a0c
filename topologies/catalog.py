"""Finds topologies by name: every module of `topologies` holds one `Topo` subclass."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Final

import topologies
from emulation.errors import ScenarioError
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.topo import Topo
from nodeapp.parameters import Parameter, ParameterError, convert, parameters_of
from nodeapp.pubsub.registry import PROTOCOLS, obstacle

_HERE: Final = __name__.rpartition(".")[2]
"""This module lies among them."""


def topology_names() -> list[str]:
    """Return the names of the topologies, sorted."""
    found = (module.name for module in pkgutil.iter_modules(topologies.__path__))
    return sorted(name for name in found if name != _HERE)


def topology_class(name: str) -> type[Topo]:
    """Return the class of a topology.  Raises `ScenarioError` for an unknown name."""
    if name not in topology_names():
        raise ScenarioError(f"no topology {name!r}; there are: {', '.join(topology_names())}")
    module = importlib.import_module(f"topologies.{name}")
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Topo)
            and value.__module__ == module.__name__
        ):
            return value
    raise ScenarioError(
        f"topologies/{name}.py has no subclass of Topo: add one with a build method"
    )


def topology_parameters(name: str) -> list[Parameter]:
    """Return what `--set` takes for a topology: the keyword arguments of its `build`."""
    return parameters_of(topology_class(name).build)


def protocol_parameters(name: str) -> list[Parameter]:
    """Return what `--set` takes for a protocol.  Raises `ScenarioError` for an unknown name."""
    if name not in PROTOCOLS:
        raise ScenarioError(f"no protocol {name!r}; there are: {', '.join(sorted(PROTOCOLS))}")
    return parameters_of(PROTOCOLS[name].parameters)


def make_scenario(
    topology: str, protocol: str, *, seed: int, duration: float, settings: dict[str, Any]
) -> Scenario:
    """Return the scenario that `run TOPOLOGY PROTOCOL --set key=value ...` asks for.

    A key belongs to the topology or to the protocol, whichever has a parameter of that name (the
    topology first).  Raises `ScenarioError` for names, keys or values that do not exist, and where
    the protocol needs what the topology does not have, a road map for one.
    """
    of_topology = topology_parameters(topology)
    of_protocol = protocol_parameters(protocol)
    topology_keys = {parameter.name for parameter in of_topology}
    protocol_keys = {parameter.name for parameter in of_protocol}
    unknown = [key for key in settings if key not in topology_keys | protocol_keys]
    if unknown:
        raise ScenarioError(
            f"no parameter {unknown[0]!r}; {topology} has {', '.join(sorted(topology_keys))}; "
            f"{protocol} has {', '.join(sorted(protocol_keys)) or 'none'}"
        )
    try:
        topology_values = convert(
            of_topology, {key: value for key, value in settings.items() if key in topology_keys}
        )
        protocol_values = convert(
            of_protocol, {key: value for key, value in settings.items() if key not in topology_keys}
        )
    except ParameterError as error:
        raise ScenarioError(str(error)) from None
    topo = topology_class(topology)(seed, duration, topology_values)
    scenario = topo.scenario(ProtocolSpec(name=protocol, parameters=protocol_values))
    missing = obstacle(protocol, scenario.environment())
    if missing:
        raise ScenarioError(missing)
    return scenario
