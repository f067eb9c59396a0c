"""Faults of radios, by name, over the media of a network; several may overlap.

Anything that two faults take down is up again when both have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from emulation.radio.jammer import Jammer, Line
from emulation.radio.medium import Medium


class RadioFault(Protocol):
    """A fault as `emulation.scenario.faults.Fault` describes it."""

    @property
    def kind(self) -> str:
        """`radio`, `access-point`, `link`, `partition` or `jam`."""

    @property
    def nodes(self) -> Sequence[str]:
        """Names of stations or access points."""

    @property
    def line(self) -> Line | None:
        """Of a partition."""

    @property
    def position(self) -> tuple[float, float] | None:
        """Of a jammer."""

    @property
    def power_dbm(self) -> float:
        """Of a jammer."""

    @property
    def duty(self) -> float:
        """Of a jammer."""

    @property
    def period(self) -> float:
        """Of a jammer."""


class RadioFaults:
    """Makes and ends faults in `channels`: each a medium, with its radios' indices by name.

    A jammer disturbs the first of them.
    """

    def __init__(self, channels: Sequence[tuple[Medium, Mapping[str, int]]]) -> None:
        self._channels = channels
        self._active: Counter[tuple[str, ...]] = Counter()
        """Radios and links that are down, by names, with the number of faults."""
        self._jammers: dict[Jammer, list[int]] = {}
        """Numbers of the active jammers; several may be equal."""

    def begin(self, fault: RadioFault, now: float) -> None:
        """Make a fault at time `now`."""
        if fault.kind == "jam":
            jammer = _jammer(fault)
            number = self._channels[0][0].jamming.begin(now, jammer)
            self._jammers.setdefault(jammer, []).append(number)
            return
        if fault.line is not None:
            for medium, _ in self._channels:
                medium.table.split(fault.line)
            return
        for names in self._names(fault):
            self._active[names] += 1
            if self._active[names] == 1:
                self._switch(names, fail=True)

    def end(self, fault: RadioFault, now: float) -> None:
        """End a fault at time `now`."""
        if fault.kind == "jam":
            self._channels[0][0].jamming.end(self._jammers[_jammer(fault)].pop(), now)
            return
        if fault.line is not None:
            for medium, _ in self._channels:
                medium.table.join(fault.line)
            return
        for names in self._names(fault):
            self._active[names] -= 1
            if not self._active[names]:
                self._switch(names, fail=False)

    @staticmethod
    def _names(fault: RadioFault) -> list[tuple[str, ...]]:
        if fault.kind == "link":
            return [tuple(sorted(fault.nodes))]
        return [(name,) for name in fault.nodes]

    def _switch(self, names: tuple[str, ...], *, fail: bool) -> None:
        for medium, indices in self._channels:
            if all(name in indices for name in names):
                radios = [indices[name] for name in names]
                (medium.fail if fail else medium.heal)(*radios)


def _jammer(fault: RadioFault) -> Jammer:
    assert fault.position is not None
    return Jammer(*fault.position, fault.power_dbm, fault.duty, fault.period)
