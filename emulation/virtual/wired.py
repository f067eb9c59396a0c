"""Hosts on a switch under the virtual clock: only cables lie between them."""

from __future__ import annotations

from emulation.radio.delivery import Delivery
from emulation.radio.faults import RadioFaults
from emulation.radio.wire import WireMedium
from emulation.scenario.scenario import Scenario
from emulation.virtual.channel import Channel, Hand


class WiredChannel(Channel):
    """The channel of a scenario whose nodes are hosts on a switch."""

    reports_links = False
    """Ethernet acknowledges nothing."""

    def __init__(self, scenario: Scenario, hand: Hand) -> None:
        assert scenario.wire is not None
        self._hand = hand
        wire = WireMedium(scenario.wire)
        self.faults = RadioFaults([])
        self.transmit = wire.transmit
        self.next_delivery = wire.next_delivery

    def deliver(self, delivery: Delivery) -> None:
        """Hand a packet to the node that received it."""
        self._hand(delivery.time, delivery.receivers, delivery.frame)
