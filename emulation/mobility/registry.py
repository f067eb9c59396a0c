"""Every mobility model, by its name in Mininet-WiFi: for topologies and for scripts.

A new one is a file in this folder and a line here; `--set mobility=` takes the file's name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from emulation.errors import ScenarioError
from emulation.mobility.base import Area, Mobility, MobilityModel
from emulation.mobility.crp import Crp
from emulation.mobility.freeway import FreewayMobility
from emulation.mobility.gauss_markov import GaussMarkov
from emulation.mobility.levy_walk import LevyWalk
from emulation.mobility.manhattan import ManhattanMobility
from emulation.mobility.random_direction import RandomDirection
from emulation.mobility.random_walk import RandomWalk
from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.mobility.reference_point import ReferencePoint
from emulation.mobility.time_variant_community import TimeVariantCommunity
from nodeapp.parameters import Parameter, suggestion

MODELS: Final[Mapping[str, type[MobilityModel]]] = MappingProxyType(
    {
        model.name: model
        for model in (
            RandomDirection,
            RandomWalk,
            GaussMarkov,
            LevyWalk,
            ReferencePoint,
            TimeVariantCommunity,
            Crp,
            RandomWaypoint,
            FreewayMobility,
            ManhattanMobility,
        )
    }
)
KEYWORDS: Final[Mapping[str, str]] = MappingProxyType({"alpha": "memory"})
"""Mininet-WiFi's names in `setMobilityModel` for parameters that `--set` names differently."""


def setting(model: type[MobilityModel]) -> str:
    """Return the name of a model in `--set mobility=`."""
    return model.__module__.rpartition(".")[2].replace("_", "-")


def model_named(name: str) -> type[MobilityModel]:
    """Return a model by either name, in any case.  Raises `ScenarioError` if there is none."""
    for known, model in MODELS.items():
        if _plain(name) in (_plain(known), _plain(setting(model))):
            return model
    near = suggestion(name, (*MODELS, *map(setting, MODELS.values())))
    raise ScenarioError(f"no mobility model {name!r}{near}; there are {', '.join(MODELS)}")


def _plain(name: str) -> str:
    return name.replace("-", "").lower()


def model_parameters() -> dict[str, Parameter]:
    """Return all models' parameters besides area and speeds, by name; the help lists the models.

    Parameters of the same name in several models are one.
    """
    takers: dict[str, list[str]] = {}
    known: dict[str, Parameter] = {}
    for model in MODELS.values():
        for parameter in model.parameters():
            takers.setdefault(parameter.name, []).append(setting(model))
            known[parameter.name] = parameter
    return {
        name: dataclasses.replace(parameter, help=f"{', '.join(takers[name])}: {parameter.help}")
        for name, parameter in known.items()
    }


def model_keywords() -> list[str]:
    """Return the models' keywords in `setMobilityModel`."""
    names = {parameter: keyword for keyword, parameter in KEYWORDS.items()}
    return [names.get(name, name) for name in model_parameters()]


def mobility(
    name: str, area: Area, min_v: float, max_v: float, keywords: Mapping[str, Any]
) -> Mobility:
    """Return a model for nodes in an area, metres, at `min_v` to `max_v` m/s.

    It gets its own keywords; those of other models are ignored, as in Mininet-WiFi.  Raises
    `ScenarioError` for an unknown name or keyword, or unsuitable values.
    """
    model = model_named(name)
    own = [parameter.name for parameter in model.parameters()]
    known = model_parameters()
    values = {KEYWORDS.get(keyword, keyword): value for keyword, value in keywords.items()}
    for keyword in values:
        if keyword not in known:
            near = suggestion(keyword, known)
            raise ScenarioError(
                f"{model.name} takes no {keyword!r}{near}; it takes {', '.join(own) or 'nothing'}"
            )
    try:
        return model.in_area(
            area, min_v, max_v, **{key: values[key] for key in own if key in values}
        )
    except ValueError as error:
        raise ScenarioError(f"mobility {setting(model)}: {error}") from None
