"""Every mobility model that a script's `setMobilityModel` offers, by its name in Mininet-WiFi.

A new one is a function that makes plans (`motion`, `groups`) and a line here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from emulation.scripts.groups import COMMUNITY, LEVY_WALK, REFERENCE_POINT, Groups, levy_walk
from emulation.scripts.motion import (
    CRP,
    RANDOM_MODELS,
    Plan,
    area_of,
    bounds_of,
    in_group,
    model_of,
)
from emulation.scripts.options import MODEL_DEFAULTS
from emulation.scripts.session import ScriptError

DEFAULT: Final = "RandomDirection"
"""The model of a call that names none."""


class Given(NamedTuple):
    """What a script has given its model; `bounds` are those of the network, metres and m/s."""

    name: str
    options: Mapping[str, Any]
    bounds: dict[str, float]
    seed: Any


PlanOne = Callable[[int, Any, random.Random], Plan]
"""Returns the plan of a node: its number among those that move, from 0, itself, its generator."""


class ScriptModel(NamedTuple):
    """How a model makes plans.  Both raise `ScriptError` if an option cannot be."""

    prepare: Callable[[Given], PlanOne]
    unbound: Sequence[str] = ()
    """Bounds of a network that do not bound it."""


def _alone(given: Given) -> PlanOne:
    def plan(number: int, node: Any, rng: random.Random) -> Plan:
        chosen = model_of(given.name, given.options, node)
        return chosen(bounds_of(node, given.bounds), None, rng)

    return plan


def _flights(given: Given) -> PlanOne:
    return lambda number, node, rng: levy_walk(bounds_of(node, given.bounds), rng)


def _along_points(given: Given) -> PlanOne:
    return lambda number, node, rng: in_group(given.options.get("pointlist"), rng)


def _in_groups(given: Given) -> PlanOne:
    groups = Groups(given.name, given.options, area_of(given.bounds), given.seed)
    return lambda number, node, rng: groups.member(number, node.name)


_SPEEDS: Final = ("min_v", "max_v")
"""Speeds of groups are theirs, as are those of flights."""

MODELS: Final[Mapping[str, ScriptModel]] = MappingProxyType(
    {
        **dict.fromkeys(RANDOM_MODELS, ScriptModel(_alone)),
        LEVY_WALK: ScriptModel(_flights, _SPEEDS),
        CRP: ScriptModel(_along_points, tuple(MODEL_DEFAULTS)),
        **dict.fromkeys((REFERENCE_POINT, COMMUNITY), ScriptModel(_in_groups, _SPEEDS)),
    }
)


def check_model(name: str) -> None:
    """Raise `ScriptError` for a name that is not in `MODELS`."""
    if name not in MODELS:
        raise ScriptError(f"setMobilityModel(model={name!r}): there are {', '.join(MODELS)}")


def plans(
    options: Mapping[str, Any], nodes: Iterable[Any], rng: Callable[[Any, str], random.Random]
) -> dict[Any, Plan]:
    """Return the plan of each node by the model that `options` of `setMobilityModel` name.

    `rng` makes a generator from the script's seed and a node's name.  Raises `ScriptError`.
    """
    name = options.get("model", DEFAULT)
    model = MODELS[name]
    bounds = {
        each: float(value if each in model.unbound else options.get(each, value))
        for each, value in MODEL_DEFAULTS.items()
    }
    seed = options.get("seed", 1)
    plan = model.prepare(Given(name, options, bounds, seed))
    return {node: plan(number, node, rng(seed, node.name)) for number, node in enumerate(nodes)}
