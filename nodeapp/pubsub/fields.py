"""Checks of what is decoded from the CBOR body of a frame, and of names of topics."""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard

from nodeapp.wire import WireError

_NOT_PLAIN: Final = re.compile(
    r"[\x01-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
"""Control characters and what is no character: Mosquitto, broker or client, disconnects at it."""
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


def is_plain(text: str) -> bool:
    """Return whether a text has no control characters, nor what Unicode says is no character."""
    return _NOT_PLAIN.search(text) is None
