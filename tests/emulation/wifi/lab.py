"""Small wireless networks under a clock that stands still until something happens."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from emulation.radio.spec import LogDistance, RadioSpec
from emulation.wifi.network import Arrival, Network
from emulation.wifi.settings import AssociationRule, WlanSettings

RADIO: Final = RadioSpec(tx_power_dbm=14, antenna_gain_dbi=5, propagation=LogDistance(exponent=4))
THRESHOLD: Final = -91.0
GROUP: Final = b"\xff" * 6
PAYLOAD: Final = b"\x08\x00" + bytes(60)


def mac(number: int) -> str:
    """Return the address of the radio with that number."""
    return f"02:00:00:00:00:{number:02x}"


class Lab:
    """Radios by name, each of a node of its own called as it, at positions in metres."""

    def __init__(
        self,
        radios: Mapping[str, dict[str, Any]],
        positions: Sequence[tuple[float, float]],
        radio: RadioSpec = RADIO,
        fading_db: float = 0.0,
        spare: int = 0,
        **rule: Any,
    ) -> None:
        self.names = list(radios)
        settings = [
            WlanSettings.model_validate(
                {"node": name, "interface": name, "mac": mac(number)} | given
            )
            for number, (name, given) in enumerate(radios.items(), start=1)
        ]
        self.network = Network(
            self.names,
            settings,
            radio,
            lambda purpose: random.Random(f"7/{purpose}"),
            AssociationRule.model_validate(rule),
            THRESHOLD,
            fading_db,
            spare,
        )
        self.now = 0.0
        self.positions = np.array(positions, dtype=np.float64)
        self.move()

    def add(self, name: str, x: float, y: float, **given: Any) -> None:
        """Add a node with a radio, somewhere; let a second pass."""
        number = len(self.names)
        settings = {"node": name, "interface": name, "mac": mac(number + 1)} | given
        self.network.add(self.now, WlanSettings.model_validate(settings), number)
        self.names.append(name)
        self.positions = np.vstack([self.positions, (x, y)])
        self.move()

    def move(self, name: str | None = None, x: float = 0.0, y: float = 0.0) -> None:
        """Move a node; let a second pass."""
        if name is not None:
            self.positions[self.names.index(name)] = x, y
        self.network.set_positions(self.now, self.positions)
        self.let_pass(1.0)

    def let_pass(self, seconds: float) -> list[tuple[str, bytes]]:
        """Let time pass; return who got which frame."""
        self.now += seconds
        return [self.named(each) for each in self.network.advance(self.now)]

    def named(self, arrival: Arrival) -> tuple[str, bytes]:
        """Return an arrival with the name of its radio."""
        return self.names[arrival.radio], arrival.frame

    def address(self, name: str) -> bytes:
        """Return the address of a radio."""
        return self.network.radios[self.names.index(name)].mac

    def frame(self, source: str | bytes, to: str | bytes) -> bytes:
        """Return an Ethernet frame between radios, or addresses."""
        ends = [self.address(end) if isinstance(end, str) else end for end in (to, source)]
        return b"".join(ends) + PAYLOAD

    def send(self, sender: str, frame: bytes) -> list[str]:
        """Send a frame of a host; return who has got it a second later, in the order of names."""
        self.network.send(self.now, self.names.index(sender), frame)
        return sorted(name for name, got in self.let_pass(1.0) if got == frame)

    def access_point(self, station: str) -> str | None:
        """Return a station's access point."""
        index = self.network.radios[self.names.index(station)].access_point
        return None if index is None else self.names[index]

    def radio(self, name: str) -> Any:
        """Return a radio."""
        return self.network.radios[self.names.index(name)]


def level_at(metres: float, exponent: float, power_dbm: float, mhz: float = 2412.0) -> float:
    """Return the level at a distance by the textbook: 5 dBi at both ends, free space to 1 m."""
    first = 20 * math.log10(4 * math.pi * mhz * 1e6 / 299_792_458)
    return power_dbm + 10 - first - 10 * exponent * math.log10(metres)
