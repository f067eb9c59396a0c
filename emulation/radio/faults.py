"""Faults of radios, by name, over the media of a network; several may overlap.

Anything that two faults take down is up again when both have ended.  `Disturbances` are of packets,
not of radios: whoever hands packets to nodes asks when the copies of one arrive, both under the
virtual clock and between TAP devices.  Several disturbances of two nodes add up.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from emulation.radio.energy import IDLE, OFF, SLEEP, EnergyMeter
from emulation.radio.link_row import Jammer, Line
from emulation.radio.medium import Medium


class RadioFault(Protocol):
    """A fault as `emulation.scenario.faults.Fault` describes it."""

    @property
    def kind(self) -> str:
        """`radio`, `off`, `access-point`, `link`, `partition` or `jam`."""

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
    """Begins and ends faults in `channels`: each a medium, with its radios' indices by name.

    A jammer disturbs the first of them, and `energy` is of its radios.
    """

    def __init__(
        self,
        channels: Sequence[tuple[Medium, Mapping[str, int]]],
        energy: EnergyMeter | None = None,
    ) -> None:
        self._channels = channels
        self.energy = energy
        self._active: Counter[tuple[str, ...]] = Counter()
        """Radios and links that are down, by names, with the number of faults."""
        self._unpowered: Counter[str] = Counter()
        """Names of stations without power, with the number of faults."""
        self._jammers: dict[Jammer, list[int]] = {}
        """Numbers of the active jammers; several may be equal."""

    def begin(self, fault: RadioFault, now: float) -> None:
        """Begin a fault at time `now`."""
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
        self._count(fault, now, 1)

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
        self._count(fault, now, -1)

    def _count(self, fault: RadioFault, now: float, change: int) -> None:
        """Let the meter know which radios sleep and which are off."""
        if self.energy is None or fault.kind == "link":
            return
        for name in fault.nodes:
            self._unpowered[name] += change * (fault.kind == "off")
            radio = self._channels[0][1].get(name)
            if radio is not None:
                asleep = SLEEP if self._active[name,] else IDLE
                self.energy.rest(radio, now, OFF if self._unpowered[name] else asleep)

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
        """Greatest delay of a packet, seconds."""


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
