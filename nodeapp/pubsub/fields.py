"""Checks of what is decoded from the CBOR body of a frame."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from nodeapp.wire import WireError

LIMIT: Final = 1e9
"""Metres, m/s and seconds; for metres, what a routing extension can hold (`nodeapp.wire`)."""


def items_of(value: Any, length: int, what: str) -> list[Any]:
    """Return a decoded list of this length.  Raises `WireError`: it is not `what`."""
    if not isinstance(value, list) or len(value) != length:
        raise WireError(f"not {what}")
    return value


def is_whole(value: Any, low: int, high: int) -> TypeGuard[int]:
    """Return whether a decoded value is an integer from `low` to `high`."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
