"""Exact covering of filters, by constructing a counterexample.

A conjunction f covers g if and only if no event matches g and not f.  Attributes are independent
of one another, so the events that match g are a product of one set of values per attribute that g
names; an attribute it does not name may be absent.  Therefore

  * if one of these sets is empty, nothing matches g and everything covers it;
  * else f fails to cover g if and only if for some predicate p of f either g does not name p's
    attribute, or the set of g for that attribute holds a value for which p does not.

What remains is, for one attribute, whether a conjunction of predicates together with one negated
predicate has a solution.  For each type there is a small set of candidates that holds a solution
if there is one; every candidate is then simply tried, so that an answer "does not cover" always
comes with an event that proves it (`counterexample`).

Numbers.  The values are a finite totally ordered set D: the 64-bit integers and the finite
binary64 floats, compared exactly.  D is discrete: below 2**53 the neighbours of a value are
floats, above they can be integers that are no floats.  So x > v is x >= (next of D above v), any
conjunction of comparisons, negated ones too, is a closed interval of D without finitely many
excluded values, and if k are excluded, one of any k + 1 consecutive candidates solves it.

Texts, ordered by code point.  w > v is w >= v + NUL and w <= v is w < v + NUL, so comparisons
meet in one interval [low, high).  A prefix is such an interval as well, [p, p with its last
character raised by one), and its negation is two.  An interval is the union of
  * "heads" x, all of whose continuations x... belong to it: low itself if high does not extend it;
    low up to some index and then any greater character (one below high's, where the two part);
    high up to some index beyond what it shares with low and then any lesser character; and
  * single texts: the beginnings of high that are not below low.
Let # be a character that occurs in no predicate at hand (the values of two filters are far
shorter than the 1,112,064 characters there are).  If any continuation of a head x solves the
rest, then so does  x # c1 # c2 # ... # s,  where the ci are the texts that must be contained and s
is the longest required suffix.  It differs from every excluded text, since those hold no #, and
  * a forbidden suffix t ends it only if t ends s, and then it ends every text that s ends;
  * a forbidden infix t occurs in it only within x, within some ci or within s, since it holds
    no #: in x it would occur in all continuations, in ci or s in every solution.
Of the many last characters that a head may have, two are enough: only the last character of a
forbidden infix can do harm, and one of two differs from it.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodeapp.predicates import (
    ANY,
    BOOLEAN,
    INT_MAX,
    INT_MIN,
    NUMBER,
    Predicate,
    Value,
)

NEGATED: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_LAST: Final = chr(sys.maxunicode)


def counterexample(f: Iterable[Predicate], g: Iterable[Predicate]) -> dict[str, Value] | None:
    """Return attributes that satisfy all of `g` and not all of `f`, or None: `f` covers `g`."""
    required: dict[str, list[Predicate]] = {}
    for predicate in g:
        required.setdefault(predicate.attribute, []).append(predicate)
    attributes: dict[str, Value] = {}
    for attribute, predicates in required.items():
        value = solution(predicates)
        if value is None:
            return None
        attributes[attribute] = value
    for predicate in f:
        if predicate.attribute not in required:
            return attributes
        value = solution(required[predicate.attribute], predicate)
        if value is not None:
            return {**attributes, predicate.attribute: value}
    return None


def solution(predicates: Sequence[Predicate], refuted: Predicate | None = None) -> Value | None:
    """Return a value for which all of `predicates` (one at least) hold and `refuted` does not.

    All are on one attribute.  None: there is no such value.
    """
    if refuted is not None and refuted.type is ANY:
        return None  # every value exists
    types = {predicate.type for predicate in predicates} - {ANY}
    if len(types) > 1:
        return None
    if not types:
        return 0 if refuted is None or refuted.type is not NUMBER else True
    (kind,) = types
    if refuted is not None and refuted.type is not kind:
        refuted = None  # it holds for no value of this type
    candidates: Iterable[Value]
    if kind is BOOLEAN:
        candidates = (False, True)
    else:
        candidates = (_numbers if kind is NUMBER else _texts)(predicates, refuted)
    for value in candidates:
        if refuted is not None and refuted.holds(value):
            continue  # one predicate, before perhaps dozens
        if all(predicate.holds(value) for predicate in predicates):
            return value
    return None


def _constraints(
    predicates: Sequence[Predicate], refuted: Predicate | None
) -> Iterator[tuple[str, Value]]:
    """Yield (operator, value) of all, the refuted one negated if that is an operator too."""
    for predicate in predicates:
        if predicate.value is not None:
            yield predicate.operator, predicate.value
    if refuted is not None and refuted.operator in NEGATED:
        assert refuted.value is not None
        yield NEGATED[refuted.operator], refuted.value


def above(value: float) -> float:
    """Return the next number of D above `value`; infinity above the last one."""
    as_float = float(value)
    if as_float <= value:
        as_float = math.nextafter(as_float, math.inf)
    integer = math.floor(value) + 1
    return integer if INT_MIN <= integer <= INT_MAX and integer < as_float else as_float


def below(value: float) -> float:
    """Return the next number of D below `value` (D is symmetric)."""
    return -above(-value)


def _numbers(predicates: Sequence[Predicate], refuted: Predicate | None) -> Iterator[Value]:
    low, high = -sys.float_info.max, sys.float_info.max
    lowest = low
    excluded = 0
    for symbol, value in _constraints(predicates, refuted):
        assert not isinstance(value, str)
        if symbol == "!=":
            excluded += 1
        if symbol in ("=", ">="):
            low = max(low, value)
        elif symbol == ">":
            low = max(low, above(value))
        if symbol in ("=", "<="):
            high = min(high, value)
        elif symbol == "<":
            high = min(high, below(value))
    upwards = low > lowest
    value = low if upwards else high
    for _ in range(excluded + 1):
        if not low <= value <= high:
            return
        yield value
        value = above(value) if upwards else below(value)


def _texts(predicates: Sequence[Predicate], refuted: Predicate | None) -> Iterator[Value]:
    low, high = "", None  # high None: no upper end
    suffix = ""
    inside: list[str] = []
    constants = [] if refuted is None else [str(refuted.value)]
    for symbol, value in _constraints(predicates, refuted):
        assert isinstance(value, str)
        constants.append(value)
        if symbol == "=":
            yield value  # nothing else can solve it
            return
        if symbol in (">", ">="):
            low = max(low, value + "\0" if symbol == ">" else value)
        elif symbol in ("<", "<="):
            high = _lesser(high, value + "\0" if symbol == "<=" else value)
        elif symbol == "prefix":
            low, high = max(low, value), _lesser(high, _after(value))
        elif symbol == "suffix":
            suffix = max(suffix, value, key=len)
        elif symbol == "contains":
            inside.append(value)
    infix = constants[0] if refuted is not None and refuted.operator == "contains" else None
    if infix is not None and any(infix in text for text in (suffix, *inside)):
        return  # it is in every text that the others hold for
    intervals = [(low, high)]
    if refuted is not None and refuted.operator == "prefix":
        prefix = str(refuted.value)
        after = _after(prefix)
        intervals = [(low, _lesser(high, prefix))]
        if after is not None:
            intervals.append((max(low, after), high))
    used = set("".join(constants))
    fresh = next(character for character in _characters("#") if character not in used)
    tail = fresh + "".join(text + fresh for text in inside) + suffix
    for start, end in intervals:
        for head in _heads(start, end):
            # Only a forbidden infix makes one head differ from another: the first without it will
            # do, and each candidate has all that is required behind its head.
            if infix is None or infix not in head:
                yield head + tail
                break
        yield from _singles(start, end)


def _lesser(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _after(prefix: str) -> str | None:
    """Return the least text above all that begin with `prefix`; None if there is none."""
    stem = prefix.rstrip(_LAST)
    return stem[:-1] + next(_characters(stem[-1], after=True)) if stem else None


def _characters(first: str, *, after: bool = False) -> Iterator[str]:
    """Yield the characters from `first` on (or after it) in order, without surrogates."""
    for code in range(ord(first) + after, sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF:
            yield chr(code)


def _two_after(character: str) -> Iterator[str]:
    return itertools.islice(_characters(character, after=True), 2)


def _two_before(character: str) -> Iterator[str]:
    return itertools.islice(
        itertools.takewhile(lambda other: other < character, _characters("\0")), 2
    )


def _shared(low: str, high: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b),
        min(len(low), len(high)),
    )


def _heads(low: str, high: str | None) -> Iterator[str]:
    """Yield texts all of whose continuations are in [low, high): see the module's docstring."""
    if high is None:
        yield low
        for index, character in enumerate(low):
            yield from (low[:index] + other for other in _two_after(character))
        return
    if low >= high:
        return
    shared = _shared(low, high)
    rest = shared
    if shared < len(low):
        yield low
        between = itertools.takewhile(
            lambda other: other < high[shared], _characters(low[shared], after=True)
        )
        yield from (low[:shared] + other for other in itertools.islice(between, 2))
        for index in range(shared + 1, len(low)):
            yield from (low[:index] + other for other in _two_after(low[index]))
        rest = shared + 1
    for index in range(rest, len(high)):
        yield from (high[:index] + other for other in _two_before(high[index]))


def _singles(low: str, high: str | None) -> Iterator[str]:
    """Yield the beginnings of `high` that are in [low, high)."""
    if high is not None:
        beginnings = (high[:length] for length in range(len(high)))
        yield from (text for text in beginnings if text >= low)
