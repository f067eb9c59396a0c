"""Errors that a user can put right, raised in several rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what only raises these need not load it
    from pydantic import ValidationError


class ScenarioError(ValueError):
    """A scenario that cannot be built or read; the message says what to change."""


class RunFolderError(Exception):
    """A folder that holds no run that can be read; the message says what to do."""


def first_problem(error: ValidationError, whole: str = "") -> str:
    """Return the first thing that a model refuses, in a line: where, and why.

    `whole` is what the model is called if it is not about one of its fields.
    """
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or whole
    why = first["msg"].removeprefix("Value error, ")
    return f"{where}: {why}" if where else why
