"""What a stranger sends: frames of the protocol, replayed, with other fields, or broken.

Frames come from runs of the protocol itself (`recorded`), so that they follow the wire format of
each of its kinds, whatever that is, and most changes leave them well-formed: it is one field that
lies.  The simplest change is none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from nodeapp.wire import Frame, WireError, decode, decode_body, encode_body

LEAVES: Final = 6
"""Values of a body, counted from its beginning, that are replaced."""
LIES: Final[Sequence[Any]] = (0, 1, 2**31, -1, 1e300, "x", b"")
"""What replaces them."""
Change = Callable[[Frame, int], Frame | bytes]
"""Returns what is sent instead of a frame, in the name of a node."""


def _header(name: str, value: int) -> Change:
    fields: dict[str, Any] = {name: value}
    return lambda frame, sender: frame._replace(**fields)


def _of_sender(name: str) -> Change:
    return lambda frame, sender: _header(name, sender)(frame, sender)


def _later(ahead: int) -> Change:
    return lambda frame, sender: frame._replace(sequence=(frame.sequence + ahead) % 2**32)


def _leaf(number: int, lie: Any) -> Change:
    def change(frame: Frame, sender: int) -> Frame | bytes:
        try:
            body = decode_body(frame.body)
        except WireError:
            return _byte(number, 255)(frame, sender)
        return frame._replace(body=encode_body(_replaced(body, [number], lie)))

    return change


def _replaced(value: Any, left: list[int], lie: Any) -> Any:
    """Return a copy of a body's value with one leaf replaced; `left` leaves come before it."""
    if isinstance(value, list):
        return [_replaced(item, left, lie) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, left, lie) for key, item in value.items()}
    left[0] -= 1
    return lie if left[0] == -1 else value


def _byte(number: int, value: int) -> Change:
    """Return a change of one byte of the routing extension or the body."""

    def change(frame: Frame, sender: int) -> Frame | bytes:
        parts = bytearray(frame.route + frame.body)
        if not parts:
            return frame
        parts[number % len(parts)] ^= value
        cut = len(frame.route)
        return frame._replace(route=bytes(parts[:cut]), body=bytes(parts[cut:]))

    return change


def _cut(share: float) -> Change:
    return lambda frame, sender: frame.encode()[: int(share * len(frame.encode()))]


def _noise(length: int) -> Change:
    return lambda frame, sender: random.Random(f"{length}/{sender}").randbytes(length)


CHANGES: Final[Sequence[Change]] = (
    lambda frame, sender: frame,
    *(_of_sender(name) for name in ("originator", "destination", "publisher")),
    *(_later(ahead) for ahead in (1, 2_000, 2**30)),
    *(_header("ttl", value) for value in (0, 255)),
    *(_header("hops", value) for value in (0, 255)),
    *(_header("flags", value) for value in (1, 2, 4, 16, 32)),
    *(_leaf(number, lie) for number in range(LEAVES) for lie in LIES),
    *(_byte(number, value) for number in (0, 1, 5, 9) for value in (1, 128)),
    *(_cut(share) for share in (0.0, 0.5, 0.9)),
    *(_noise(length) for length in (1, 24, 60)),
)
"""By number; fewer than 100, which `emulation.check.design` asks for."""


def forged(datagram: bytes, change: int, sender: int) -> bytes:
    """Return a recorded datagram after a change, by its number, in the name of a node."""
    result = CHANGES[change](decode(datagram), sender)
    return result if isinstance(result, bytes) else result.encode()
