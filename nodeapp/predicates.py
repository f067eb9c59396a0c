"""Attribute values and the predicates over them.

A value is a number (int or float), a boolean or a text; these are three types that never compare
with one another, so `1 = 1.0` holds and `1 = true` does not.  Integers are those of 64 bits with
sign, floats the finite ones of IEEE 754 binary64 (NaN and infinities are refused), texts are
sequences of Unicode scalar values (no surrogates, so that each has its UTF-8 form).  Texts are
ordered by code point.

A predicate holds for an attribute that is present, has the type of the predicate's value, and
stands in the relation to it that the operator names.  So `speed != 5` does not hold if `speed`
is absent or a text: it says that speed is a number other than 5.  `exists` alone is of no type.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

Value = int | float | bool | str

NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
TEXT: Final = "text"
ANY: Final = "any"
TYPES: Final[dict[type, str]] = {int: NUMBER, float: NUMBER, bool: BOOLEAN, str: TEXT}
"""The type of a value by its class.  Exact classes: a subclass need not survive the wire."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
MAX_TEXT: Final = 1024
"""Most characters in the value of a predicate."""
MAX_NAME: Final = 255
"""Most characters in the name of an attribute."""

OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "prefix": str.startswith,
    "suffix": str.endswith,
    "contains": operator.contains,
    "exists": lambda _value, _nothing: True,
}
TEXT_OPERATORS: Final = frozenset({"prefix", "suffix", "contains"})
ORDER_OPERATORS: Final = frozenset({"<", "<=", ">", ">="})

_NAME: Final = re.compile(r'[^\s=!<>"\']+')
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_INTEGER: Final = re.compile(r"[+-]?\d+")
_SYMBOLIC: Final = re.compile(rf"({_NAME.pattern})\s*(!=|<=|>=|=|<|>)\s*(.*)", re.DOTALL)
_WORDED: Final = re.compile(rf"({_NAME.pattern})\s+(prefix|suffix|contains)\s+(.*)", re.DOTALL)
_EXISTS: Final = re.compile(rf"({_NAME.pattern})\s+exists\s*")


class EventError(ValueError):
    """An attribute, predicate, filter or event that is not allowed; the message is one line."""


def check_name(name: object) -> None:
    """Raise `EventError` if `name` cannot be the name of an attribute."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise EventError(
            f"{name!r} is not an attribute name: 1 to {MAX_NAME} characters without spaces, "
            "quotes, =, !, < and >"
        )
    _check_text(name)


def type_of(value: object) -> str:
    """Return the type of an allowed value; raises `EventError` for any other."""
    kind = TYPES.get(type(value))
    if kind is None:
        raise EventError(f"{value!r} is not a number, a boolean or a text")
    if isinstance(value, float) and not math.isfinite(value):
        raise EventError(f"{value!r} is not a finite number")
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise EventError(f"{value} does not fit 64 bits")
    if isinstance(value, str):
        _check_text(value)
    return kind


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise EventError(f"{text!r} holds a surrogate, which has no UTF-8 form") from None


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition on one attribute; equal predicates hold for the same values.

    Raises `EventError` for an unknown operator or one that the value's type does not have.
    """

    attribute: str
    operator: str
    value: Value | None = None
    type: str = field(init=False, repr=False)
    _test: Callable[[Any, Any], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.attribute)
        if not isinstance(self.operator, str) or self.operator not in OPERATORS:
            raise EventError(f"no operator {self.operator!r}; there are: {' '.join(OPERATORS)}")
        if self.operator == "exists":
            kind = ANY
            if self.value is not None:
                raise EventError(f"{self.attribute} exists: takes no value")
        else:
            kind = type_of(self.value)
            if self.operator in TEXT_OPERATORS and kind != TEXT:
                raise EventError(f"{self.attribute} {self.operator}: takes a text")
            if self.operator in ORDER_OPERATORS and kind == BOOLEAN:
                raise EventError(f"{self.attribute} {self.operator}: booleans have no order")
            if isinstance(self.value, str) and len(self.value) > MAX_TEXT:
                raise EventError(f"{self.attribute}: a text of more than {MAX_TEXT} characters")
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "_test", OPERATORS[self.operator])

    def holds(self, value: Value) -> bool:
        """Return whether the predicate holds for an attribute that has this value."""
        kind = self.type
        return (kind is ANY or kind is TYPES[value.__class__]) and self._test(value, self.value)

    def __str__(self) -> str:
        if self.operator == "exists":
            return f"{self.attribute} exists"
        assert self.value is not None
        text = format_value(self.value, always_text=self.attribute == "topic")
        if self.operator in TEXT_OPERATORS:
            return f"{self.attribute} {self.operator} {text}"
        return f"{self.attribute}{self.operator}{text}"

    @classmethod
    def parse(cls, word: str) -> Predicate:
        """Return the predicate that a user wrote.

        Forms: `speed>10`, `street prefix Main`, `speed exists`, or a bare word, which is a topic.
        A value is a number or a boolean if it looks like one, else a text; in double quotes it
        is always a text.  Raises `EventError` for anything else.
        """
        if match := _SYMBOLIC.fullmatch(word) or _WORDED.fullmatch(word):
            name, symbol, text = match.groups()
            if not text.strip():
                raise EventError(f'{word!r} has no value: write one, or "" for the empty text')
            always_text = name == "topic" or symbol in TEXT_OPERATORS
            return cls(name, symbol, parse_value(text, always_text=always_text))
        if match := _EXISTS.fullmatch(word):
            return cls(match[1], "exists")
        if _NAME.fullmatch(word):
            return cls("topic", "=", word)
        raise EventError(
            f"{word!r} is not a condition: write a topic, speed>10, 'street prefix Main' or "
            "'speed exists'"
        )


def parse_value(text: str, *, always_text: bool = False) -> Value:
    """Return the value that a user wrote; `always_text` if only a text makes sense.

    Raises `EventError` for a text that opens a double quote and does not close it.
    """
    text = text.strip()
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except ValueError:
            raise EventError(f"{text} is not a text in double quotes") from None
        assert isinstance(value, str)
        return value
    if not always_text:
        if text in ("true", "false"):
            return text == "true"
        if _INTEGER.fullmatch(text):
            if len(text) > len(str(INT_MIN)):
                raise EventError(f"{text} does not fit 64 bits")
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text


def format_value(value: Value, *, always_text: bool = False) -> str:
    """Return the form of a value that `parse_value` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        read = parse_value_or_none(value, always_text=always_text)
        printable = value.isprintable()  # a terminal obeys the rest
        # "=" after < or > would belong to the operator.
        plain = value and printable and value == read and value[0] != "="
        return value if plain else json.dumps(value, ensure_ascii=not printable)
    return repr(value)


def parse_value_or_none(text: str, *, always_text: bool) -> Value | None:
    """Return what `parse_value` does, or None if it would refuse."""
    try:
        return parse_value(text, always_text=always_text)
    except EventError:
        return None
