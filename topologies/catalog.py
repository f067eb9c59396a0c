"""Finds topologies by name: every module of `topologies` holds one `Topo` subclass."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import topologies
from emulation.errors import ScenarioError
from emulation.scenario.faults import FAULTS, texts_of
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.topo import Topo
from emulation.workloads.registry import (
    WORKLOAD,
    expanded,
    make_workload,
    workload_names,
    workload_parameters,
)
from nodeapp.parameters import Parameter, ParameterError, convert, parameters_of, suggestion
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
        known = topology_names()
        near = suggestion(name, known)
        raise ScenarioError(f"no topology {name!r}{near}; there are: {', '.join(known)}")
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
    """Return what `--set` takes for a topology: for the network and for its own workload."""
    topology = topology_class(name)
    return [*topology.build_parameters(), *topology.workload_parameters()]


def protocol_parameters(name: str) -> list[Parameter]:
    """Return what `--set` takes for a protocol.  Raises `ScenarioError` for an unknown name."""
    if name not in PROTOCOLS:
        near = suggestion(name, PROTOCOLS)
        raise ScenarioError(
            f"no protocol {name!r}{near}; there are: {', '.join(sorted(PROTOCOLS))}"
        )
    return parameters_of(PROTOCOLS[name].parameters)


AUTH: Final = "auth"
"""The setting that chooses how nodes know each other's frames."""
_SEALS: Final = Parameter(
    AUTH, str, "none", choices=("none", "psk"), help="psk: nodes share a key and seal their frames"
)


class _Parts(NamedTuple):
    """Which parameters `--set` takes; a name in several belongs to the first that has it."""

    topology: list[Parameter]
    protocol: list[Parameter]
    workload: list[Parameter]
    """Of a workload that is not the topology's own."""
    unused: list[Parameter]
    """Of the topology's own workload if another one is chosen."""


def _own(topology: str) -> str:
    """Return the name of a topology's own workload; empty if it has none."""
    workload = topology_class(topology).workload
    return workload.name if workload else ""


def _parts(topology: str, protocol: str, other: str) -> _Parts:
    """Return the parameters; `other` is the workload in the place of the topology's own, if any."""
    made, of_protocol = topology_class(topology), protocol_parameters(protocol)
    if not other:
        return _Parts(topology_parameters(topology), of_protocol, [], [])
    parameters = made.build_parameters(), of_protocol, workload_parameters(other)
    return _Parts(*parameters, made.workload_parameters())


def all_parameters(topology: str, protocol: str, workload: str = "") -> dict[str, Parameter]:
    """Return all that `settings` of `make_scenario` may have, by name.

    `workload` is the name of the one that is chosen, the topology's own if empty.  Raises
    `ScenarioError` for unknown names.
    """
    own = _own(topology)
    parts = _parts(topology, protocol, workload if workload != own else "")
    chooses = Parameter(
        WORKLOAD, str, own, choices=tuple(workload_names()), help="what the clients do"
    )
    fails = Parameter(FAULTS, str, "", help="what fails, as --fault has it; ';' between several")
    every = (*parts.workload, *parts.protocol, *parts.topology, chooses, fails, _SEALS)
    return {parameter.name: parameter for parameter in every}


def make_scenario(
    topology: str, protocol: str, *, seed: int, duration: float, settings: Mapping[str, Any]
) -> Scenario:
    """Return the scenario that `run TOPOLOGY PROTOCOL --set key=value ...` asks for.

    A key belongs to the topology, the protocol or the workload, whichever has a parameter of that
    name (in this order).  The key `workload` chooses another workload than the topology's own, by
    its name or as `file:PATH`; the parameters of the topology's own workload are unknown then.
    The key `faults` has what fails (`emulation.scenario.faults`).
    Raises `ScenarioError` for names, keys or values that do not exist, and if the protocol needs
    what the topology does not have, a road map for one.
    """
    settings = expanded(settings)
    other = str(settings.pop(WORKLOAD, ""))
    faults = texts_of(str(settings.pop(FAULTS, "")))
    auth = settings.pop(AUTH, "none")
    if other == _own(topology):
        other = ""
    parts = _parts(topology, protocol, other)
    _check_keys(settings, parts, topology, protocol, other)
    try:
        topology_values = convert(parts.topology, _take(settings, parts.topology))
        protocol_values = convert(parts.protocol, _take(settings, parts.protocol))
        sealed = convert([_SEALS], {AUTH: auth})[AUTH] == "psk"
    except ParameterError as error:
        raise ScenarioError(str(error)) from None
    chosen = make_workload(other, settings) if other else None
    topo = topology_class(topology)(seed, duration, topology_values)
    scenario = topo.scenario(
        ProtocolSpec(name=protocol, parameters=protocol_values), chosen, faults
    )
    if sealed:
        scenario = scenario.model_copy(update={"auth": "psk"})
    environment = scenario.environment()
    service = PROTOCOLS[protocol].service
    missing = obstacle(protocol, environment) or service.misfit(environment, protocol_values)
    if missing:
        raise ScenarioError(missing)
    published = next((each.event for each in scenario.workload if each.action == "publish"), None)
    foreign = service.foreign(published, protocol_values) if published else None
    if foreign:
        raise ScenarioError(f"{foreign}, or choose a workload that does, as --workload stock")
    return scenario


def _take(settings: dict[str, Any], parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return the settings of parameters; they are taken out of `settings`."""
    return {each.name: settings.pop(each.name) for each in parameters if each.name in settings}


def _check_keys(
    settings: Mapping[str, Any], parts: _Parts, topology: str, protocol: str, other: str
) -> None:
    """Raise `ScenarioError` for a key that nothing has, or only a workload that is not chosen."""
    names = [{each.name for each in part} for part in parts[:3]]
    unknown = next((key for key in settings if not any(key in each for each in names)), None)
    if unknown is None:
        return
    there = "; ".join(
        f"{owner} has {', '.join(sorted(has)) or 'none'}"
        for owner, has in zip((topology, protocol, other), names, strict=True)
        if owner
    )
    if unknown in {each.name for each in parts.unused}:
        raise ScenarioError(
            f"{unknown!r} is a parameter of the workload {_own(topology)}, which {other} "
            f"replaces: leave it out; {there}"
        )
    near = suggestion(unknown, set().union(*names))
    raise ScenarioError(f"no parameter {unknown!r}{near}; {there}")
