"""When the loop of a medium process sleeps, and when it stays awake."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulation.media.service import IDLE_WAIT, WAKE_UP, MediumService


class _Waiting(MediumService):
    """Has something due `waits` seconds after each call, then ends."""

    def __init__(self, control: Path, waits: list[float]) -> None:
        super().__init__(control)
        self._waits = list(reversed(waits))

    def open(self) -> None:
        pass

    def close_devices(self) -> None:
        pass

    def receive(self, fd: int, events: int) -> None:
        raise AssertionError("there are no devices")

    def pass_time(self, now: float) -> float:
        if not self._waits:
            self.stop()
            return now
        return now + self._waits.pop()

    def catch_up(self, now: float) -> None:
        pass

    def answer(self, request: dict[str, Any], now: float) -> Mapping[str, Any]:
        return {}

    size = 0

    def own_statistics(self) -> dict[str, Any]:
        return {}


def test_it_wakes_up_before_something_is_due_and_does_not_sleep_for_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep(_: object, __: object, ___: object, seconds: float) -> tuple[list[int], None, None]:
        slept.append(seconds)
        return [], None, None

    monkeypatch.setattr(select, "select", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    reader, writer = socket.socketpair()
    waits = [0.25, WAKE_UP / 2, -0.1, 2 * WAKE_UP, 5.0]
    with _Waiting(tmp_path / "control", waits) as medium, reader, writer:
        medium.run(reader)
    expected = [each - WAKE_UP for each in (0.25, 2 * WAKE_UP, IDLE_WAIT)]
    assert slept == pytest.approx(expected, abs=1e-9)
