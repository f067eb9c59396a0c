"""Soft state is told again whatever becomes of one refresh."""

from __future__ import annotations

import pytest

from nodeapp.pubsub.decision_point import DecisionPoint
from tests.nodeapp.network import SimNetwork


def test_an_internal_error_costs_one_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), "broker-gpsr", {"refresh_interval": 1.0})
    service = node.service
    assert isinstance(service, DecisionPoint)
    refreshed: list[float] = []

    def refresh() -> None:
        refreshed.append(network.time)
        if len(refreshed) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(service, "refresh", refresh)
    with pytest.raises(ZeroDivisionError):  # a node app tells it and goes on
        network.run(2.0)
    network.run(3.0)
    assert len(refreshed) >= 3
