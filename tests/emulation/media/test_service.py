"""When the loop of a medium process sleeps, and when it stays awake."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.media.service import IDLE_WAIT, WAKE_UP, Lateness, MediumService


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


@given(st.lists(st.floats(0, 1e3), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_those_of_the_sample_within_the_resolution(
    delays: list[float], share: float
) -> None:
    late = Lateness()
    for delay in delays:
        late.add(delay)
    exact = float(np.quantile(delays, share, method="inverted_cdf"))
    assert late.quantile(share) == pytest.approx(exact, rel=0.04, abs=1.1e-7)
    assert late.greatest == max(delays)


def test_extremes_are_counted() -> None:
    late = Lateness()
    assert late.as_dict() == {"count": 0, "p50_us": 0.0, "p99_us": 0.0, "max_us": 0.0}
    late.add(-1.0)
    late.add(1e9)
    assert late.count == 2
    assert late.quantile(0.5) == pytest.approx(0, abs=1e-7)
