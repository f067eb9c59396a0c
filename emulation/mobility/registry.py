"""Every mobility model that `Topo.setMobilityModel` offers, by its name in Mininet-WiFi.

A new one is a file in this folder and a line here.  Its class is a `Mobility` with its name and a
method `in_area(area, min_v, max_v, *, ...)`, whose keyword arguments are those of
`setMobilityModel` that the model takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from emulation.errors import ScenarioError
from emulation.mobility.base import Mobility
from emulation.mobility.freeway import FreewayMobility
from emulation.mobility.manhattan import ManhattanMobility
from emulation.mobility.random_waypoint import RandomWaypoint

MODELS: Final[Mapping[str, Callable[..., Mobility]]] = MappingProxyType(
    {
        RandomWaypoint.name: RandomWaypoint.in_area,
        FreewayMobility.name: FreewayMobility.in_area,
        ManhattanMobility.name: ManhattanMobility.in_area,
    }
)


def mobility(
    model: str,
    area: tuple[float, float, float, float],
    min_v: float,
    max_v: float,
    shared: Mapping[str, Any],
    own: Mapping[str, Any],
) -> Mobility:
    """Return a model of that name for nodes in an area, metres, at `min_v` to `max_v` m/s.

    Of `shared`, the keywords that `setMobilityModel` names, it gets those that it takes; it has to
    take all of `own`.  Raises `ScenarioError` for an unknown name, keyword or unfit values.
    """
    if model not in MODELS:
        raise ScenarioError(f"no mobility model {model!r}; there are {', '.join(MODELS)}")
    make = MODELS[model]
    takes = [
        name
        for name, argument in inspect.signature(make).parameters.items()
        if argument.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name in own:
        if name not in takes:
            raise ScenarioError(f"{model} takes no {name!r}; it takes {', '.join(takes)}")
    keywords = {name: value for name, value in shared.items() if name in takes}
    try:
        return make(area, min_v, max_v, **keywords, **own)
    except ValueError as error:
        raise ScenarioError(str(error)) from None
