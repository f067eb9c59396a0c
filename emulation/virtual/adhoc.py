"""Stations that hear each other directly: one medium, and every node is a radio of it."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from emulation.radio.delivery import Delivery, Overheard, Status
from emulation.radio.energy import metered
from emulation.radio.faults import RadioFaults
from emulation.radio.losses import LossLog
from emulation.radio.medium import Medium
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Carried, Channel, Hand, Unacknowledged


class AdHocChannel(Channel):
    """The channel of a scenario without access points; a radio's index is its node's."""

    reports_links = True

    def __init__(self, scenario: Scenario, hand: Hand, unacknowledged: Unacknowledged) -> None:
        self._hand = hand
        self._unacknowledged = unacknowledged
        rng = random.Random(f"{scenario.seed}/medium")
        self.medium: Medium = Medium(scenario.radio, len(scenario.nodes), rng, self._sent)
        names = {node.name: index for index, node in enumerate(scenario.nodes)}
        self._names = list(names)
        energy = metered(self.medium, len(names))
        self.faults = RadioFaults([(self.medium, names)], energy)
        # The medium's own methods, to save a call per packet.
        self.transmit = self.medium.transmit
        if scenario.radio.queue_order == "routing-first":
            self.transmit = self._transmit_by_class
        self.next_delivery = self.medium.next_delivery
        self.deliver = self._deliver

    def _transmit_by_class(
        self, now: float, source: int, destination: int, size: int, carried: Carried
    ) -> bool:
        first = carried[0].is_routing
        return self.medium.transmit(now, source, destination, size, carried, first=first)

    def _deliver(self, delivery: Delivery) -> None:
        """Hand a packet to all nodes that received it."""
        self._hand(delivery.time, delivery.receivers, delivery.frame)

    def listen(self, node: int, hand: Hand) -> bool:
        """Make a node's radio promiscuous."""

        def deliver(delivery: Delivery) -> None:
            use = hand if isinstance(delivery, Overheard) else self._hand
            use(delivery.time, delivery.receivers, delivery.frame)

        self.medium.listen(node)
        self.deliver = deliver
        return True

    def log_losses(self, log: LossLog) -> None:
        """Log what the radios lose."""
        self.medium.losses.log = log.of(self._names, _datagram)

    def withdraw(self, node: int, to: int) -> list[Carried]:
        """Take packets out of a node's queue."""
        return self.medium.withdraw(node, to)

    def set_positions(self, xy: npt.NDArray[np.float64]) -> None:
        self.medium.set_positions(xy)

    def _sent(self, status: Status) -> bool:
        if status.acknowledged:
            return False
        return self._unacknowledged(status.time, status.source, status.destination, status.frame)


def _datagram(carried: Carried) -> bytes:
    return carried[0].datagram
