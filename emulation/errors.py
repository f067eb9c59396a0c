"""Errors that a user can put right, raised in several packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # what only raises these need not load it
    from pydantic import ValidationError


class ScenarioError(ValueError):
    """A scenario that cannot be built or read; the message says what to change."""


class RunFolderError(Exception):
    """A folder that holds no run that can be read; the message says what to do."""


_WHOLE, _NUMBER, _OBJECT, _LIST = "a whole number", "a number", "an object {{...}}", "a list [...]"
_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "literal_error": "one of {expected}",
    "union_tag_invalid": "one of {expected_tags} as {discriminator}",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "below {lt:g}",
    "less_than_equal": "{le:g} or less",
    "string_pattern_mismatch": "text of the form {pattern}",
    "too_short": "a list of {min_length} or more, not {actual_length}",
    "too_long": "a list of {max_length} or fewer, not {actual_length}",
    "path_type": "a path",
}
"""What a value must be, by the kind of error; braces name fields of the error's context."""
_SHOWN: Final = (str, int, float, bool, type(None))
"""Types of values that a message repeats."""


def first_problem(error: ValidationError, whole: str = "") -> str:
    """Return the first thing that a model refuses, in one line: where, and what is needed instead.

    `whole` is what the model is called if it is not about one of its fields.
    """
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or whole
    why = needed(first["type"], first.get("ctx", {}), first["input"])
    return f"{where}: {why}" if where else why


def needed(kind: str, context: Mapping[str, Any], value: object) -> str:
    """Return in one line what a refused value has to be; `kind` and `context` are pydantic's."""
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "there is no such field: leave it out"
    if kind == "union_tag_not_found":
        return f"has no {str(context['discriminator']).strip(chr(39))}, which says what it is"
    if kind == "json_invalid":
        return f"not JSON: {context['error']}"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return f"{short(value)} is not allowed here"
    text = f"must be {expected.format_map(context)}"
    return f"{text}, not {short(value)}" if isinstance(value, _SHOWN) else text


def short(value: object) -> str:
    """Return a value as an error shows it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class VmError(Exception):
    """A missing or failed image or machine; the message is one line and says what to do."""
