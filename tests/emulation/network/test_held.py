"""What clients tell a node app again that was not running, and that they do so once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from emulation.media.control import ControlServer
from emulation.network.driver import Driver, _Pending, held
from emulation.workloads.base import Operation
from nodeapp.kinds import ClientKind
from nodeapp.wire import Frame, decode, encode_body
from topologies.catalog import make_scenario

WANTED: Final = Operation(time=1, node=2, action="subscribe", subscription=1)


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


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = make_scenario("roaming_field", "flooding", seed=1, duration=30, settings={"topics": 0})
    with ControlServer(tmp_path / "control") as control:
        driver = Driver(made.model_copy(update={"workload": (WANTED,)}), {}, control)
        driver._epoch = time.monotonic() - 10.0
        yield driver


def acknowledgement(refusal: str | None = None) -> Frame:
    return Frame(ClientKind.ACK, 1, body=encode_body(refusal))


def test_a_subscription_is_renewed_once_after_returns(driver: Driver) -> None:
    sent: list[int] = []
    client: Any = SimpleNamespace(send=lambda datagram: sent.append(decode(datagram).originator))
    driver._sockets[2] = client
    driver._acknowledged(_Pending(0.0, 1, WANTED), acknowledgement())
    for _ in range(3):
        driver._returned(2, time.monotonic())
        again = min(driver._queue)
        driver._queue.remove(again)
        driver._acknowledged(again, acknowledgement())
    renewals = sorted(driver._queue)
    assert len(renewals) == 4
    for each in renewals:
        driver._perform(each, each.due)
    assert sent == [renewals[-1].number]


def test_a_node_app_that_refuses_while_it_starts_is_asked_again(driver: Driver) -> None:
    sent: list[int] = []
    client: Any = SimpleNamespace(send=lambda datagram: sent.append(decode(datagram).originator))
    driver._sockets[2] = client
    driver._answer({"op": "crashed", "name": "sta2"})
    driver._answer({"op": "returned", "name": "sta2"})
    (again,) = driver._queue
    while again.attempt < again.attempts:
        assert driver.problems == []
        driver._queue.clear()
        driver._perform(again, time.monotonic())
        driver._acknowledged(driver._waiting.pop(again.number), acknowledgement("no fix"))
    assert driver.problems == ["sta2: subscribe at 1.0 s was refused: no fix"]
    assert sent == [again.number] * again.attempts
