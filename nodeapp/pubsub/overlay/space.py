"""The event space: a regular grid over the attributes of events.

A space is written as text, one part per attribute: `name:low:high:cells`, with commas between.

    stock:A:Z:26,price:0:1000:16

has 26 x 16 cells.  If both bounds are numbers, so are the attribute's values, from `low` up to
and without `high`; else its values are texts, ordered as their UTF-8 bytes are (so by code point),
and a text counts as a number by its first eight bytes, missing ones being zero: "AAB" is before
"AB".  Cells are equally wide in those numbers.

An event has one cell.  A filter has all cells that an event for it can be in: for each attribute
the cells from the lowest to the highest value that its predicates `=`, `<`, `<=`, `>`, `>=` and
`prefix` allow; other predicates narrow nothing, so that no cell is missing.

Source: docs/papers.md#semantic-overlay, section III; the order of texts is this project's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from nodeapp.events import Filter
from nodeapp.predicates import Predicate, Value

PREFIX: Final = 8
"""Bytes of a text that count."""
MAX_CELLS: Final = 1 << 24
"""Most cells of a space."""
MOST: Final = 8_000
"""Most cells of a peer's filters together: it tells others of them in one datagram."""
TOO_MANY: Final = f"the filters of a peer have more than {MOST} cells together: narrow them"
LAST: Final = "\U0010ffff"
"""The character that is after all others."""


class SpaceError(ValueError):
    """A text that is not a space, or an event or filter outside it; says what to do."""


def number_of(text: str) -> float:
    """Return the number that stands for a text, from 0 to below 2**64."""
    return float(int.from_bytes(text.encode()[:PREFIX].ljust(PREFIX, b"\0"), "big"))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Dimension:
    """One attribute: values from `low` to below `high`, in so many cells."""

    name: str
    low: float
    high: float
    cells: int
    text: bool
    """Whether values are texts; `low` and `high` are numbers that stand for them then."""
    shown: str
    """The bounds as they were written."""

    def value(self, value: Value) -> float | None:
        """Return the number of a value; None if it is of another type."""
        if self.text:
            return number_of(value) if isinstance(value, str) else None
        return float(value) if type(value) in (int, float) else None

    def index(self, value: float) -> int:
        """Return the cell of a number from `low` up to `high`."""
        index = int((value - self.low) / (self.high - self.low) * self.cells)
        return min(max(index, 0), self.cells - 1)

    def interval(self, predicates: Mapping[str, list[Predicate]]) -> range:
        """Return the cells in which the predicates of this attribute may hold, perhaps none."""
        low, high = self.low, math.nextafter(self.high, -math.inf)
        for predicate in predicates.get(self.name, ()):
            number = None if predicate.value is None else self.value(predicate.value)
            if predicate.operator == "exists":
                continue
            if number is None:
                return range(0)  # it asks for a value of another type
            match predicate.operator:
                case "=":
                    low, high = max(low, number), min(high, number)
                case "<" | "<=":
                    high = min(high, number)
                    if predicate.operator == "<" and number <= self.low:
                        return range(0)
                case ">" | ">=":
                    low = max(low, number)
                case "prefix":
                    low = max(low, number)
                    high = min(high, number_of(str(predicate.value) + PREFIX * LAST))
        if low > high:
            return range(0)
        return range(self.index(low), self.index(high) + 1)


class Space:
    """A grid.  Raises `SpaceError` for a text that does not describe one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.dimensions = tuple(_dimension(part, text) for part in text.split(","))
        names = [dimension.name for dimension in self.dimensions]
        self.cells = math.prod(dimension.cells for dimension in self.dimensions)
        if len(set(names)) != len(names) or self.cells > MAX_CELLS:
            raise SpaceError(
                f"space {text!r}: name each attribute once, and at most {MAX_CELLS} cells in all"
            )

    def cell(self, attributes: Mapping[str, Value]) -> int:
        """Return the cell of an event.  Raises `SpaceError` if the event is not in the space."""
        cell = 0
        for dimension in self.dimensions:
            value = attributes.get(dimension.name)
            number = None if value is None else dimension.value(value)
            if number is None or not dimension.low <= number < dimension.high:
                raise SpaceError(
                    f"the event is not in the overlay's event space: give it {dimension.name} "
                    f"{dimension.shown}"
                )
            cell = cell * dimension.cells + dimension.index(number)
        return cell

    def filter_cells(self, wanted: Filter) -> frozenset[int]:
        """Return the cells that events for a filter can be in.

        Raises `SpaceError` if there is none, or more than `MOST`.
        """
        predicates: dict[str, list[Predicate]] = {}
        for predicate in wanted.predicates:
            predicates.setdefault(predicate.attribute, []).append(predicate)
        intervals = []
        for dimension in self.dimensions:
            interval = dimension.interval(predicates)
            if not interval:
                raise SpaceError(
                    "the filter is outside the overlay's event space, no event can match: ask "
                    f"for {dimension.name} {dimension.shown}"
                )
            intervals.append(interval)
        if math.prod(map(len, intervals)) > MOST:
            raise SpaceError(TOO_MANY)
        return frozenset(self._numbers(intervals))

    def _numbers(self, intervals: list[range]) -> Iterator[int]:
        for indices in itertools.product(*intervals):
            cell = 0
            for dimension, index in zip(self.dimensions, indices, strict=True):
                cell = cell * dimension.cells + index
            yield cell


def _dimension(part: str, text: str) -> Dimension:
    fields = part.strip().split(":")
    if len(fields) == 4 and fields[0] and fields[3].isdecimal() and int(fields[3]) > 0:
        name, low, high, cells = fields
        texts = not (_is_number(low) and _is_number(high))
        first, last = (number_of(low), number_of(high)) if texts else (float(low), float(high))
        if first < last:
            kind = "a text" if texts else "a number"
            shown = f"({kind} from {low} up to and without {high})"
            return Dimension(name, first, last, int(cells), texts, shown)
    raise SpaceError(
        f"space {text!r}: write name:low:high:cells for each attribute, with commas between, as "
        "stock:A:Z:26,price:0:1000:16"
    )
