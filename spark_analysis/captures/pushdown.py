"""What a query wants of captures: Spark's filters on run, node, interface and time.

Files of other runs, nodes and interfaces are not opened, packets of other times not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

LABELS: Final = ("run", "node", "interface")
TIMES: Final = {"time_ns": 1, "time": 1_000}
"""Columns of time, and nanoseconds in the unit of each."""
PRESENT: Final = frozenset((*LABELS, *TIMES, "number", "length"))
"""Columns that are never null."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -1, 2**63 - 1
"""Before and after all times of captures."""


class Wanted:
    """What the filters that were taken let through: at first, all."""

    def __init__(self) -> None:
        self._labels: dict[str, frozenset[str]] = {}
        self._first, self._last = _FIRST, _LAST

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and last Unix nanosecond, None if all are wanted."""
        span = self._first, self._last
        return None if span == (_FIRST, _LAST) else span

    def has(self, run: str, node: str, interface: str) -> bool:
        """Return whether packets of a capture are wanted."""
        names = dict(zip(LABELS, (run, node, interface), strict=True))
        return all(names[column] in texts for column, texts in self._labels.items())

    def take(self, condition: Filter) -> bool:
        """Take a filter, unless it is of another kind; return whether it was taken."""
        match condition:
            case IsNotNull((column,)):
                return column in PRESENT
            case EqualTo((column,), str() as text) if column in LABELS:
                self._one_of(column, [text])
            case In((column,), texts) if column in LABELS:
                self._one_of(column, texts)  # null among them equals nothing
            case (
                EqualTo((column,), value)
                | GreaterThan((column,), value)
                | GreaterThanOrEqual((column,), value)
                | LessThan((column,), value)
                | LessThanOrEqual((column,), value)
            ) if column in TIMES:
                return self._take_time(condition, value, TIMES[column])
            case _:
                return False
        return True

    def _one_of(self, column: str, texts: Iterable[str]) -> None:
        chosen = frozenset(texts)
        self._labels[column] = self._labels.get(column, chosen) & chosen

    def _take_time(self, condition: Filter, value: Any, unit_ns: int) -> bool:
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = (value - _EPOCH) // timedelta(microseconds=1)
        if not isinstance(value, int):
            return False
        begin, end = value * unit_ns, (value + 1) * unit_ns
        first, last = {
            EqualTo: (begin, end - 1),
            GreaterThan: (end, _LAST),
            GreaterThanOrEqual: (begin, _LAST),
            LessThan: (_FIRST, begin - 1),
            LessThanOrEqual: (_FIRST, end - 1),
        }[type(condition)]
        self._first = min(max(self._first, first), _LAST)
        self._last = max(min(self._last, last), _FIRST)
        return True
