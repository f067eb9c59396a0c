"""What clients tell a node app again that was not running, and that they do so once."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from emulation.media.control import ControlServer
from emulation.network.driver import Driver, _Pending, held
from emulation.workloads.base import Operation
from nodeapp.kinds import ClientKind
from nodeapp.wire import Frame, decode, encode_body
from topologies.catalog import make_scenario


def test_subscriptions_that_hold_advertisements_and_the_rest_of_the_route() -> None:
    route = {"x": 1.0, "y": 2.0, "speed": 3.0, "pause": 4.0, "remaining": 5.0}
    operations = [
        Operation(time=1, node=1, action="advertise", event={"topic": "a"}),
        Operation(time=1, node=1, action="subscribe", subscription=1),
        Operation(time=2, node=1, action="subscribe", subscription=2),
        Operation(time=3, node=1, action="unsubscribe", subscription=1),
        Operation(time=3, node=1, action="publish", sequence=1, event={"topic": "a"}),
        Operation(time=4, node=1, action="navigate", event=route | {"x": 9.0}),
        Operation(time=6, node=1, action="navigate", event=route),
        Operation(time=7, node=2, action="subscribe", subscription=3),
        Operation(time=20, node=1, action="subscribe", subscription=4),
    ]
    again = held(operations, 1, 8.0)
    assert [each.action for each in again] == ["advertise", "navigate", "subscribe"]
    assert again[1].event == route | {"remaining": 3.0}
    assert again[2].subscription == 2
    assert held(operations, 1, 60.0)[1].event["remaining"] == 0.0


def test_a_subscription_is_renewed_once_after_returns(tmp_path: Path) -> None:
    wanted = Operation(time=1, node=2, action="subscribe", subscription=1)
    made = make_scenario("roaming_field", "flooding", seed=1, duration=30, settings={"topics": 0})
    scenario = made.model_copy(update={"workload": (wanted,)})
    sent: list[int] = []
    client: Any = SimpleNamespace(send=lambda datagram: sent.append(decode(datagram).originator))
    with ControlServer(tmp_path / "control") as control:
        driver = Driver(scenario, {}, control)
        driver._sockets[2], driver._epoch = client, time.monotonic() - 10.0
        accepted = Frame(ClientKind.ACK, 1, body=encode_body(None))
        driver._acknowledged(_Pending(0.0, 1, wanted), accepted)
        for _ in range(3):
            driver._returned(2, time.monotonic())
            again = min(driver._queue)
            driver._queue.remove(again)
            driver._acknowledged(again, accepted)
        renewals = sorted(driver._queue)
        assert len(renewals) == 4
        for each in renewals:
            driver._perform(each, each.due)
        assert sent == [renewals[-1].number]
