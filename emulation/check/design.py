"""What scenarios are drawn for, and the small numbers from which all strategies draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from hypothesis import strategies as st

from emulation.radio.wire import WireSpec
from emulation.scenario.access_point import AccessPointSpec
from emulation.scenario.faults import Kind
from emulation.scenario.scenario import NodeSpec, Scenario
from nodeapp.pubsub.base import Service

FEWEST, MOST = 2, 12
"""Nodes of a scenario."""
STRANGER: Final[Kind] = "stranger"
FAULTS: Final[tuple[Kind, ...]] = (
    *("crash", "radio", "link", "partition", "disturb", "jam", "position", "clock"),
)
"""Kinds of faults that are drawn unless others are asked for."""
DRAWN: Final[tuple[Kind, ...]] = (*FAULTS, STRANGER)
"""Kinds that can be asked for."""


@dataclass(frozen=True)
class Design:
    """A protocol, its service's class, the fewest and most nodes, and what fails."""

    protocol: str
    service: type[Service]
    nodes: tuple[int, int] = (FEWEST, MOST)
    faults: tuple[Kind, ...] = FAULTS
    base: Callable[[int, int], Scenario] | None = None
    """Returns a topology's scenario for a number of nodes and a seed; None: networks are drawn."""
    frames: tuple[bytes, ...] = field(default=(), repr=False)
    """Recorded datagrams from which a stranger forges others; empty: no stranger."""


RANGE: Final = 100.0
"""Range of the radios, metres."""
STEP: Final = 10.0
"""Grid of the nodes' places, metres."""
HALF: Final = 0.5
"""Seconds: times are multiples of it."""
LATEST: Final = 40
"""Half seconds within which every change begins."""

T = TypeVar("T")
Strategy = st.SearchStrategy[Any]
Draw = Callable[[Strategy], Any]

# Two rules of hypothesis.  Its shrinker drops an element of a list well if the element takes at
# most four draws.  And no range reaches 100: among larger numbers it prefers those that it reads
# from the sources of all loaded modules, and what is drawn would depend on these.
NUMBER: Final = st.integers(0, MOST - 1)
BEGIN: Final = st.integers(2, LATEST)


class DrawnNetwork(NamedTuple):
    """Nodes and access points of a scenario; `wire` if its nodes are hosts on a switch.

    `reach` is the range of the radios, metres; `placed`: whether positions decide who hears whom.
    """

    nodes: tuple[NodeSpec, ...]
    clients: tuple[NodeSpec, ...]
    points: tuple[AccessPointSpec, ...]
    wire: WireSpec | None
    reach: float = RANGE
    placed: bool = True


def at(several: Sequence[T], number: int) -> T:
    """Return the item that a number stands for.

    If an item is omitted, most numbers still stand for the same one, which shrinking needs.
    """
    return several[number * len(several) // MOST]
