"""Finds properties by name: a module of this folder holds one `Property` subclass."""

from __future__ import annotations

import importlib
from typing import Final

from emulation.check import properties
from emulation.check.properties.base import Property
from emulation.errors import ScenarioError
from nodeapp.discovery import modules_in, subclass_in
from nodeapp.parameters import suggestion
from nodeapp.pubsub.base import Promises

_OTHERS: Final = frozenset({"base", __name__.rpartition(".")[2]})


def property_names() -> list[str]:
    """Return the names of the properties, sorted."""
    return modules_in(properties, _OTHERS)


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
    rule = subclass_in(module, Property)  # type: ignore[type-abstract]
    if rule is None:
        raise ScenarioError(
            f"emulation/check/properties/{name}.py has no subclass of Property: add one"
        )
    return rule()
