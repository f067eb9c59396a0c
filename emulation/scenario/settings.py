"""The settings of a scenario (`--set`): typed and assigned to their owners once.

Theory of operation.  `ScenarioParameters` holds the parameters of topology, protocol and workload
separately.  Its `typed` converts a user's input and gives each owner its values: a name shared by
several belongs to the topology, else to the protocol, else to the workload.  The result,
`ScenarioSettings`, makes scenarios, and nothing is converted or assigned again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from emulation.errors import ScenarioError, first_problem
from emulation.scenario.faults import FAULTS, texts_of
from emulation.scenario.operations import check_operations
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.topo import Topo
from emulation.workloads.base import Workload
from emulation.workloads.registry import (
    WORKLOAD,
    make_workload,
    workload_names,
    workload_parameters,
)
from nodeapp.parameters import Parameter, ParameterError, Scalar, convert, parameters_of, suggestion
from nodeapp.pubsub.registry import SYSTEMS, UNSEALED, ProtocolError, clash, obstacle

AUTH: Final = "auth"
"""The setting that chooses how nodes authenticate each other's frames."""
MQTT: Final = "mqtt"
"""The setting by which nodes serve clients of MQTT."""
TLS: Final = "tls"
"""What users may look for among the settings of systems that have it."""
_FAILS: Final = Parameter(
    FAULTS, str, "", help="what fails, in the form of --fault; ';' between several"
)
_SEALS: Final = Parameter(
    AUTH, str, "none", choices=("none", "psk"), help="psk: nodes share a key and seal their frames"
)
_SERVES: Final = Parameter(
    MQTT, bool, False, help="every node serves clients of MQTT on its port 1883"
)


def protocol_parameters(name: str) -> list[Parameter]:
    """Return the parameters of a protocol.

    Raises `ScenarioError` for an unknown name, and for a file that cannot be loaded.
    """
    if name not in SYSTEMS:
        near = suggestion(name, SYSTEMS)
        raise ScenarioError(f"no protocol {name!r}{near}; there are: {', '.join(sorted(SYSTEMS))}")
    try:
        return parameters_of(SYSTEMS[name].parameters)
    except ProtocolError as error:
        raise ScenarioError(str(error)) from None


@dataclass(frozen=True)
class ScenarioSettings:
    """The values of all of a scenario's parameters, by owner."""

    topology: type[Topo]
    build: Mapping[str, Scalar]
    """Arguments of the topology's `build`."""
    mobility: Mapping[str, Scalar]
    """Of the mobility models, ..."""
    radio: Mapping[str, Scalar]
    """... and of `emulation.scenario.radio_settings`, except those that `build` has."""
    own: Mapping[str, Scalar]
    """Of the topology's own workload; empty if `workload` replaces it."""
    protocol: ProtocolSpec
    workload: Workload | None
    faults: str
    auth: Scalar
    mqtt: Scalar

    def scenario(self, seed: int, duration: float) -> Scenario:
        """Return the scenario of a seed, `duration` seconds long.

        Raises `ScenarioError` if values do not fit together, if the protocol needs something that
        the topology lacks, for example a road map, or if an operation cannot be performed.
        """
        try:
            topo = self.topology(
                seed,
                duration,
                self.build,
                mobility=self.mobility,
                radio=self.radio,
                workload=self.own,
            )
            scenario = topo.scenario(self.protocol, self.workload, texts_of(self.faults))
        except ValidationError as error:  # of an operation, or of the scenario
            raise ScenarioError(f"{error.title.lower()}: {first_problem(error)}") from None
        if self.auth != _SEALS.default:
            scenario = scenario.model_copy(update={AUTH: self.auth})
        if self.mqtt:
            scenario = scenario.model_copy(update={MQTT: self.mqtt})
        check_served(scenario)
        return scenario


def check_served(scenario: Scenario) -> None:
    """Raise `ScenarioError` if its protocol cannot work there, or serve the workload."""
    name, parameters = scenario.protocol.name, scenario.protocol.parameters
    service, environment = SYSTEMS[name].service, scenario.environment()
    if scenario.auth != _SEALS.default and service.ports:
        raise ScenarioError(f"{UNSEALED.format(name)}: leave out {AUTH}")
    missing = obstacle(name, environment) or service.misfit(environment, parameters) or clash(name)
    if missing:
        raise ScenarioError(missing)
    if scenario.contacts is not None and service.needs_places:
        raise ScenarioError(
            f"{name} routes to places, and contacts have none: choose another protocol"
        )
    check_operations(scenario.workload, scenario.protocol, service)


class ScenarioParameters:
    """The parameters of a topology, a protocol and a workload: all that `--set` takes for them."""

    def __init__(self, name: str, topology: type[Topo], protocol: str, workload: str = "") -> None:
        """Collect them; `name` is the topology's, an empty `workload` means the topology's own.

        Raises `ScenarioError` for unknown names of protocols and workloads, and for a parameter
        whose name `--set` has for every scenario.
        """
        own = topology.workload.name if topology.workload else ""
        self._topology = topology
        self._names = name, protocol, workload if workload != own else ""
        """Of topology, protocol, and the workload that replaces the topology's own."""
        self._build = parameters_of(topology.build)
        self._mobility = topology.mobility_parameters()
        self._radio = topology.radio_parameters()
        self._own = topology.workload_parameters()
        self._protocol = protocol_parameters(protocol)
        self._workload = workload_parameters(self._names[2]) if self._names[2] else []
        self._choice = Parameter(
            WORKLOAD, str, own, choices=tuple(workload_names()), help="what the clients do"
        )
        common = {parameter.name for parameter in (self._choice, _FAILS, _SEALS, _SERVES)}
        for owner, part in zip(self._names, self._parts(), strict=True):
            for parameter in part:
                if parameter.name in common:
                    raise ScenarioError(
                        f"{owner}: rename the parameter {parameter.name}, which --set has "
                        "for every scenario"
                    )

    def by_name(self) -> dict[str, Parameter]:
        topology, protocol, workload = self._parts()
        every = (*workload, *protocol, *topology, self._choice, _FAILS, _SEALS, _SERVES)
        return {parameter.name: parameter for parameter in every}

    def typed(self, settings: Mapping[str, Any]) -> ScenarioSettings:
        """Return the values in `settings`, which may be texts, and the defaults of the rest.

        Raises `ScenarioError` for unknown names and for values that are not allowed.
        """
        left = {key: value for key, value in settings.items() if key != WORKLOAD}
        faults, auth = str(left.pop(FAULTS, "")), left.pop(AUTH, _SEALS.default)
        mqtt = left.pop(MQTT, _SERVES.default)
        self._check_names(left)
        _, protocol, workload = self._names

        def take(parameters: list[Parameter]) -> dict[str, Scalar]:
            theirs = {item.name: left.pop(item.name) for item in parameters if item.name in left}
            return convert(parameters, theirs)

        try:
            return ScenarioSettings(
                topology=self._topology,
                build=take(self._build),
                mobility=take(self._mobility),
                radio=take(self._radio),
                own={} if workload else take(self._own),
                protocol=ProtocolSpec(name=protocol, parameters=take(self._protocol)),
                faults=faults,
                auth=_SEALS.convert(auth),
                mqtt=_SERVES.convert(mqtt),
                workload=make_workload(workload, left) if workload else None,
            )
        except ParameterError as error:
            raise ScenarioError(str(error)) from None

    def _parts(self) -> tuple[list[Parameter], list[Parameter], list[Parameter]]:
        """Return the parameters of topology, protocol and workload."""
        own = [] if self._names[2] else self._own
        topology = [*self._build, *self._mobility, *self._radio, *own]
        return topology, self._protocol, self._workload

    def _check_names(self, settings: Mapping[str, Any]) -> None:
        """Raise `ScenarioError` for an unknown key, or one of a workload that was not chosen."""
        names = [{parameter.name for parameter in part} for part in self._parts()]
        known = set[str]().union(*names)
        unknown = next((key for key in settings if key not in known), None)
        if unknown is None:
            return
        there = "; ".join(
            f"{owner} has {', '.join(sorted(has)) or 'none'}"
            for owner, has in zip(self._names, names, strict=True)
            if owner
        )
        if unknown in {parameter.name for parameter in self._own}:
            raise ScenarioError(
                f"{unknown!r} is a parameter of the workload {self._choice.default}, which "
                f"{self._names[2]} replaces: leave it out; {there}"
            )
        protocol = self._names[1]
        if unknown == TLS and SYSTEMS[protocol].service.ports:
            raise ScenarioError(f"{protocol} runs without TLS, so that captures show its events")
        raise ScenarioError(f"no parameter {unknown!r}{suggestion(unknown, known)}; {there}")
