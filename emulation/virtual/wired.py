"""Hosts on a switch under the virtual clock: only cables lie between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from emulation.radio.delivery import Delivery
from emulation.radio.faults import RadioFaults
from emulation.radio.losses import LossLog
from emulation.radio.wire import WireMedium
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Carried, Hand


class WiredChannel:
    """The `Channel` of a scenario whose nodes are hosts on a switch."""

    reports_links = False
    """Ethernet acknowledges nothing."""
    medium = None

    def __init__(self, scenario: Scenario, hand: Hand) -> None:
        assert scenario.wire is not None
        self._hand = hand
        wire = WireMedium(scenario.wire)
        self.faults = RadioFaults([])
        self.transmit: Callable[[float, int, int, int, Carried], object] = wire.transmit
        self.next_delivery: Callable[[float], Delivery | None] = wire.next_delivery

    def deliver(self, delivery: Delivery) -> None:
        """Hand a packet to the node that received it."""
        self._hand(delivery.time, delivery.receivers, delivery.frame)

    def listen(self, node: int, hand: Hand) -> bool:
        """Return False: a switch forwards to a host only its own frames."""
        return False

    def log_losses(self, log: LossLog) -> None:
        """Log nothing: cables lose nothing."""

    def withdraw(self, node: int, to: int) -> list[Carried]:
        """Return nothing: frames on a cable cannot be taken back."""
        return []

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        """Do nothing."""

    def exported(self) -> dict[str, Any] | None:
        """Return None: there are no access points."""
        return None
