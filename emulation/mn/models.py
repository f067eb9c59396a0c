"""The mobility models (`emulation.mobility.registry`) for a script's `setMobilityModel`.

Each node and each group has its own random generator, seeded with the script's seed and its name.
In models whose nodes move independently, a node keeps to its own bounds, if it has any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from emulation.errors import ScenarioError
from emulation.mn.motion import (
    HORIZON,
    Bounds,
    Plan,
    area_of,
    bounds_of,
    following,
    in_group,
)
from emulation.mn.options import MODEL_DEFAULTS
from emulation.mn.session import ScriptError
from emulation.mobility.base import SLOWEST, LonerModel, Mobility, MobilityModel
from emulation.mobility.crp import Crp
from emulation.mobility.groups import GroupModel
from emulation.mobility.levy_walk import LevyWalk
from emulation.mobility.random_walk import RandomWalk
from emulation.mobility.registry import KEYWORDS, MODELS, model_named
from nodeapp.parameters import ParameterError, convert, suggestion

DEFAULT: Final = "RandomDirection"
"""The default model."""
Model = type[MobilityModel]


def check_model(name: str) -> Model:
    """Return the model with a name.  Raises `ScriptError` if there is none."""
    try:
        return model_named(name)
    except ScenarioError:
        near, known = suggestion(name, MODELS), ", ".join(MODELS)
        raise ScriptError(f"setMobilityModel(model={name!r}){near}: choose from {known}") from None


def plans(
    options: Mapping[str, Any], nodes: Iterable[Any], rng: Callable[[Any, str], random.Random]
) -> dict[Any, Plan]:
    """Return the plan of each node under the model that the options of `setMobilityModel` choose.

    `rng` makes a generator from the script's seed and a name.  Raises `ScriptError`.
    """
    model, moving = check_model(options.get("model", DEFAULT)), list(nodes)
    seed = options.get("seed", 1)

    @cache
    def generator(kind: str, number: int) -> random.Random:
        return rng(seed, moving[number].name if kind == "node" else f"{kind} {number}")

    draws = [generator("node", number) for number in range(len(moving))]
    if model is Crp:  # a group without borders, whose points may have heights
        points = options.get("pointlist")
        return {node: in_group(points, own) for node, own in zip(moving, draws, strict=True)}
    bounds, values = _bounds(model, options), _values(model, options)
    if issubclass(model, LonerModel):
        tracks = []
        for node, own in zip(moving, draws, strict=True):
            alone = _in_area(model, _own_bounds(model, node, bounds), values)
            tracks += alone.trajectories(alone.positions(1, own), HORIZON, lambda *_, own=own: own)
    else:
        together = _in_area(model, area_of(bounds), values)
        starts = [together.positions(1, own)[0] for own in draws]
        tracks = together.trajectories(starts, HORIZON, generator)
    return {node: following(track) for node, track in zip(moving, tracks, strict=True)}


def _bounds(model: Model, options: Mapping[str, Any]) -> dict[str, float]:
    """Return the network's bounds: metres, m/s.  Flights and groups have speeds of their own."""
    own_speeds = issubclass(model, (LevyWalk, GroupModel))
    bounds = {
        name: float(value if own_speeds and name in _SPEEDS else options.get(name, value))
        for name, value in MODEL_DEFAULTS.items()
    }
    if issubclass(model, GroupModel):
        bounds.update(zip(_SPEEDS, _pair(options.get("velocity", (0.1, 1.0))), strict=True))
    return bounds


_SPEEDS: Final = ("min_v", "max_v")


def _pair(velocity: Any) -> tuple[float, float]:
    try:
        least, most = (float(speed) for speed in velocity)
    except (TypeError, ValueError):
        least, most = 1.0, 0.0
    if not 0 < least <= most:
        raise ScriptError(f"setMobilityModel(velocity={velocity!r}): give (least, most) in m/s")
    return least, most


def _own_bounds(model: Model, node: Any, bounds: dict[str, float]) -> Bounds:
    own = bounds_of(node, bounds)
    constant = node.params.get("constantVelocity") if model is RandomWalk else None
    if not constant:
        return own
    try:
        speed = float(constant)
    except (TypeError, ValueError):
        speed = -1.0
    if speed < 0:
        raise ScriptError(f"{node.name}: constantVelocity={constant!r}: give a speed in m/s")
    return own._replace(min_v=speed, max_v=speed)


def _values(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a model that a script sets."""
    keywords = {parameter: keyword for keyword, parameter in KEYWORDS.items()}
    values: dict[str, Any] = {}
    for parameter in model.parameters():
        value = options.get(keywords.get(parameter.name, parameter.name))
        if parameter.name == "velocity_mean" and value == 0:
            value = SLOWEST  # Mininet-WiFi's 0: the mean speed is nil
        if parameter.type is str and isinstance(value, Iterable) and not isinstance(value, str):
            value = " ".join(map(str, value))
        if value is not None:
            values[parameter.name] = value
    try:
        return convert(model.parameters(), values)
    except ParameterError as error:
        raise ScriptError(f"setMobilityModel(model={model.name!r}): {error}") from None


def _in_area(model: Model, bounds: Bounds, values: Mapping[str, Any]) -> Mobility:
    try:
        return model.in_area(*bounds, **values)
    except ValueError as error:
        raise ScriptError(f"setMobilityModel(model={model.name!r}): {error}") from None
