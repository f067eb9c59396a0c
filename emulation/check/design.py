"""For what scenarios are drawn, and what the strategies share: small numbers for what they draw."""

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
STRANGER: Final = "stranger"
FAULTS: Final[tuple[Kind, ...]] = (
    *("crash", "radio", "link", "partition", "disturb", "jam", "position", "clock"),
)
"""Kinds of faults that are drawn unless others are asked for."""
DRAWN: Final[tuple[Kind, ...]] = (*FAULTS, "stranger")
"""Those that can be asked for."""


@dataclass(frozen=True)
class Design:
    """A protocol, the class of its service, from how many nodes to how many, and what fails."""

    protocol: str
    service: type[Service]
    nodes: tuple[int, int] = (FEWEST, MOST)
    faults: tuple[Kind, ...] = FAULTS
    base: Callable[[int, int], Scenario] | None = None
    """Returns a topology's scenario for a number of nodes and a seed; None: networks are drawn."""
    frames: tuple[bytes, ...] = field(default=(), repr=False)
    """Recorded datagrams that a stranger forges his from; none: there is no stranger."""


RANGE: Final = 100.0
"""Metres of the radios."""
STEP: Final = 10.0
"""Metres between places of nodes."""
HALF: Final = 0.5
"""Seconds: times are multiples of it."""
LATEST: Final = 40
"""Halves of a second in which all begins that is not still."""

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

# Two rules of hypothesis.  Its shrinker omits an element of a list well if that has four choices at
# most.  And no range has numbers of 100 and more: among those it prefers the ones that it reads off
# the sources of all modules that are loaded, and what is drawn would depend on these.
NUMBER: Final = st.integers(0, MOST - 1)
BEGIN: Final = st.integers(2, LATEST)


class DrawnNetwork(NamedTuple):
    """What stands in a scenario; `wire` if its nodes are hosts on a switch."""

    nodes: tuple[NodeSpec, ...]
    clients: tuple[NodeSpec, ...]
    points: tuple[AccessPointSpec, ...]
    wire: WireSpec | None


def at(several: Sequence[T], number: int) -> T:
    """Return the one that a number stands for; if one is omitted, most numbers stand for the same.

    That is what shrinking needs.
    """
    return several[number * len(several) // MOST]
