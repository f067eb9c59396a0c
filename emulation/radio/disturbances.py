"""What happens to packets between two nodes that `disturb` of `emulation.scenario.faults` names.

Sans-I/O: whoever hands packets to nodes asks when the copies of one arrive, both under the virtual
clock and between TAP devices.  Several disturbances of two nodes add up.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Protocol


class Disturbance(Protocol):
    """A fault as `emulation.scenario.faults.Fault` describes it."""

    @property
    def nodes(self) -> Sequence[str]:
        """Names of the two nodes."""

    @property
    def lose(self) -> float:
        """Share of the packets that are lost."""

    @property
    def duplicate(self) -> float:
        """Share of the others that arrive twice."""

    @property
    def delay(self) -> float:
        """Seconds by which a packet is late at most."""


class Disturbances:
    """The disturbances that are active; `rng` draws what happens to a packet."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.active: list[Disturbance] = []

    def begin(self, fault: Disturbance) -> None:
        """Begin to disturb two nodes."""
        self.active.append(fault)

    def end(self, fault: Disturbance) -> None:
        self.active.remove(fault)

    def copies(self, names: Collection[str]) -> list[float]:
        """Return how late each copy of a packet between two nodes is, seconds; none if lost."""
        copies = [0.0]
        for fault in self.active:
            if set(fault.nodes) != set(names):
                continue
            copies = [late for late in copies if self._rng.random() >= fault.lose]
            copies += [late for late in copies if self._rng.random() < fault.duplicate]
            copies = [late + fault.delay * self._rng.random() for late in copies]
        return copies
