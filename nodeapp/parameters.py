"""Parameters that users set by name: declared once, where the code that uses them takes them.

A parameter is an annotated field of a protocol's dataclass, or an annotated keyword argument of a
topology's `build`:

    hello_interval: Annotated[float, Param("s between beacons", low=0.05, high=3600)] = 1.0

`parameters_of` reads such declarations, `convert` turns what a user typed into values.  A choice
may be a profile: it changes the defaults of other parameters.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

Scalar = int | float | str | bool
Profiles = Mapping[str, Mapping[str, Scalar]]
"""Of choices that are profiles: the defaults of other parameters, by name."""

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class ParameterError(ValueError):
    """A name or a value that is not allowed; the message says what is."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return what to add to the message about an unknown name; empty if no known one is near."""
    near = get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


@dataclass(frozen=True, slots=True)
class Param:
    """What an annotation says about a parameter: help with its unit, and what is allowed."""

    help: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    profiles: Profiles = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `type` is int, float, str or bool; `low` and `high` are allowed themselves."""

    name: str
    type: type[Scalar]
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    help: str = ""
    profiles: Profiles = field(default_factory=dict, hash=False)

    def convert(self, value: object) -> Scalar:
        """Return `value`, which may be text, as this parameter's type.

        Raises `ParameterError` if it is of another type or not in the range.
        """
        result = self._typed(value)
        if isinstance(result, float) and not math.isfinite(result):
            raise ParameterError(f"{self.name}: {value} is not a finite number")
        if self.choices and result not in self.choices:
            raise ParameterError(
                f"{self.name}: {value!r} is none of {', '.join(map(str, self.choices))}"
                f"{suggestion(str(result), map(str, self.choices))}"
            )
        if not isinstance(result, str):
            about = f" ({self.help})" if self.help else ""
            if self.low is not None and result < self.low:
                raise ParameterError(f"{self.name}: {value} is below {self.low:g}{about}")
            if self.high is not None and result > self.high:
                raise ParameterError(f"{self.name}: {value} is above {self.high:g}{about}")
        return result

    def _typed(self, value: object) -> Scalar:
        if self.type is str and isinstance(value, str):
            return value
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
                return value.lower() in _TRUE
        if self.type in (int, float) and not isinstance(value, bool):
            try:
                if isinstance(value, str) or (self.type is float and isinstance(value, int)):
                    return self.type(value)
            except (ValueError, OverflowError):
                pass
            else:
                if isinstance(value, self.type):
                    return value
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise ParameterError(f"{self.name}: {value!r} is not {wanted[self.type]}")


def parameters_of(declaration: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a dataclass or a function, in their order.

    Arguments without a `Param` annotation (`self`, and what a user cannot set) are left out.
    Raises TypeError for a declaration that has a wrong type or no default.
    """
    return list(_parameters_of(declaration))


@functools.cache  # each of thousands of nodes asks
def _parameters_of(declaration: Callable[..., object]) -> tuple[Parameter, ...]:
    of_class = isinstance(declaration, type)
    hints = typing.get_type_hints(declaration, include_extras=True)
    declared = []
    for name, argument in inspect.signature(declaration).parameters.items():
        metadata = getattr(hints.get(name), "__metadata__", ())
        about = next((item for item in metadata if isinstance(item, Param)), None)
        if about is None:
            continue
        kind = typing.get_args(hints[name])[0]
        if kind not in (int, float, str, bool) or argument.default is inspect.Parameter.empty:
            owner = declaration.__name__ if of_class else declaration.__qualname__
            raise TypeError(f"{owner}: {name} must be an int, float, str or bool with a default")
        declared.append(
            Parameter(
                *(name, kind, argument.default, about.low, about.high, about.choices),
                *(about.help, about.profiles),
            )
        )
    return tuple(declared)


def convert(parameters: Iterable[Parameter], values: Mapping[str, object]) -> dict[str, Scalar]:
    """Return a value for every parameter: the given one, else that of a profile, or the default.

    Raises `ParameterError` for a name that is not one of the parameters, or a value that is not
    allowed.
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name in values:
        if name not in known:
            names = ", ".join(known) or "none at all"
            raise ParameterError(
                f"no parameter {name!r}{suggestion(name, known)}; there are: {names}"
            )
    profiled: dict[str, Scalar] = {}
    for name, parameter in known.items():
        if parameter.profiles:
            profiled |= parameter.profiles.get(str(values.get(name, parameter.default)), {})
    return {
        name: parameter.convert(values[name])
        if name in values
        else profiled.get(name, parameter.default)
        for name, parameter in known.items()
    }
