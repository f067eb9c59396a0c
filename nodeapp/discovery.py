"""Extensions that are files: modules of a folder, each with one subclass of a base."""

from __future__ import annotations

import pkgutil
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules_in(package: ModuleType, others: Collection[str]) -> list[str]:
    """Return the names of the modules in a package except `others`, sorted."""
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in names if name not in others)


@contextmanager
def loading(module: str, complaint: type[Exception]) -> Iterator[None]:
    """Import a module that a user may have written, or read what it declares.

    Whatever its code raises comes as `complaint`, in one line: its file, the line there if one is
    to blame, and why; a `complaint` of the caller's own comes as it is.
    """
    file = f"{module.replace('.', '/')}.py"
    try:
        yield
    except complaint:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  code of users
        name = file.rpartition("/")[2]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename.endswith(f"/{name}")]
        where = f"{file}:{lines[-1]}" if lines else file
        why = (str(error).strip().splitlines() or [""])[0]
        raise complaint(f"{where} cannot be loaded: {type(error).__name__}: {why}") from None


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
