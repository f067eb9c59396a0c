"""Extensions that are files: modules of a folder, each with one subclass of a base."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules_in(package: ModuleType, others: Collection[str]) -> list[str]:
    """Return the names of the modules in a package except `others`, sorted."""
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in names if name not in others)


def subclass_in(module: ModuleType, base: type[T]) -> type[T] | None:
    """Return the first subclass of `base` that a module defines itself; None if none."""
    return next(
        (
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, base)
            and value.__module__ == module.__name__
        ),
        None,
    )
