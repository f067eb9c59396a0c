from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

import pytest

from nodeapp.parameters import Param, Parameter, ParameterError, convert, parameters_of
from nodeapp.pubsub.registry import PROTOCOLS


@dataclass(frozen=True)
class Radio:
    power: Annotated[float, Param("dBm", low=-10, high=20)] = 10.0
    retries: Annotated[int, Param("attempts", low=0)] = 7
    model: Annotated[str, Param("loss", choices=("disk", "friis"))] = "disk"
    quiet: Annotated[bool, Param()] = False


LOUD = Param("all", choices=("own", "loud"), profiles={"loud": {"power": 20.0, "retries": 1}})


@dataclass(frozen=True)
class Profiled(Radio):
    kind: Annotated[str, LOUD] = "own"


class Buildable:
    def build(
        self, other: object = None, nodes: Annotated[int, Param("stations", low=2)] = 20
    ) -> None:
        """Build."""


def test_declarations_are_read_from_dataclasses_and_functions() -> None:
    assert parameters_of(Radio)[0] == Parameter("power", float, 10.0, -10, 20, (), "dBm")
    assert [each.name for each in parameters_of(Radio)] == ["power", "retries", "model", "quiet"]
    assert parameters_of(Buildable.build) == [Parameter("nodes", int, 20, 2, help="stations")]


def test_texts_become_values_and_defaults_fill_the_rest() -> None:
    values = convert(parameters_of(Radio), {"power": "5", "quiet": "yes", "retries": 3})
    assert values == {"power": 5.0, "retries": 3, "model": "disk", "quiet": True}
    assert type(values["power"]) is float
    assert type(convert(parameters_of(Radio), {"power": 5})["power"]) is float


def test_a_profile_changes_the_defaults_of_others() -> None:
    parameters = parameters_of(Profiled)
    assert convert(parameters, {})["power"] == 10.0
    values = convert(parameters, {"kind": "loud", "retries": "3"})
    assert (values["power"], values["retries"], values["quiet"]) == (20.0, 3, False)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("speed=1", "there are: power, retries, model, quiet"),
        ("power=21", "above 20 (dBm)"),
        ("power=-11", "below -10 (dBm)"),
        ("power=nan", "not a finite number"),
        ("power=loud", "not a number"),
        ("retries=1.5", "not a whole number"),
        ("retries=", "not a whole number"),
        ("model=cube", "disk, friis"),
        ("quiet=maybe", "true or false"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is(setting: str, told: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ParameterError) as caught:
        convert(parameters_of(Radio), {name: value})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [True, 1.5, None, [], 10**400])
def test_values_of_other_types_are_refused(value: object) -> None:
    with pytest.raises(ParameterError):
        convert(parameters_of(Radio), {"retries" if not isinstance(value, int) else "power": value})


def test_a_declaration_without_a_default_is_a_defect() -> None:
    def build(nodes: Annotated[int, Param()]) -> None:
        """Build."""

    build.__annotations__["nodes"] = Annotated[int, Param()]
    with pytest.raises(TypeError):
        parameters_of(build)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_loads_and_its_defaults_are_allowed(name: str) -> None:
    parameters = parameters_of(PROTOCOLS[name].parameters)
    defaults = {each.name: each.default for each in parameters}
    assert convert(parameters, defaults) == defaults
    assert convert(parameters, {n: str(v) for n, v in defaults.items()}) == defaults
    assert all(each.help for each in parameters)
    assert shlex.quote(name) == name
    assert PROTOCOLS[name].summary
