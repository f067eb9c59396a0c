"""A medium's output to its owner: frames that arrived, and the outcome of unicasts."""

from __future__ import annotations

from typing import Any, NamedTuple


class Delivery(NamedTuple):
    """A frame's end at `time`, and the stations that received it (at least one)."""

    time: float
    frame: Any
    source: int
    receivers: list[int]


class Overheard(Delivery):
    """A unicast's end, and the stations that overheard it."""

    __slots__ = ()


class Status(NamedTuple):
    """The sender's outcome of a unicast, final at `time`.

    `acknowledged` says that an ACK came; `attempts` is how often the frame was on the air.
    """

    time: float
    frame: Any
    source: int
    destination: int
    acknowledged: bool
    attempts: int
