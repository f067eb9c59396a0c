"""Finds properties by name: a module of this folder holds one `Property` subclass."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from emulation.check import properties
from emulation.check.properties.base import Property
from emulation.errors import ScenarioError
from nodeapp.parameters import suggestion
from nodeapp.pubsub.promises import Promises

_OTHERS: Final = frozenset({"base", __name__.rpartition(".")[2]})


def property_names() -> list[str]:
    """Return the names of the properties, sorted."""
    names = (module.name for module in pkgutil.iter_modules(properties.__path__))
    return sorted(name for name in names if name not in _OTHERS)


def promised(promises: Promises) -> list[Property]:
    """Return the properties that a protocol which promises this can be judged by."""
    return [rule for rule in map(property_named, property_names()) if rule.applies(promises)]


def property_named(name: str) -> Property:
    """Return a property.  Raises `ScenarioError` for an unknown name."""
    if name not in property_names():
        known = ", ".join(property_names())
        near = suggestion(name, property_names())
        raise ScenarioError(f"no property {name!r}{near}; there are: {known}")
    module = importlib.import_module(f"{properties.__name__}.{name}")
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Property)
            and value.__module__ == module.__name__
        ):
            return value()
    raise ScenarioError(
        f"emulation/check/properties/{name}.py has no subclass of Property: add one"
    )
