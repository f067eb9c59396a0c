"""A guest that does not boot as it should: its clock is not the host's, or it hangs."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import VmError
from emulation.vm import machine as machines
from emulation.vm import qemu
from emulation.vm.build import Image
from emulation.vm.clock import TOLERANCE, Reading, clock_rate, is_right, is_wrong
from emulation.vm.machine import Machine
from emulation.vm.qemu import Hardware


@given(
    true=st.floats(0.01, 100),
    span=st.floats(0.01, 10),
    delays=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_the_bounds_hold_whatever_the_answers_take(
    true: float, span: float, delays: list[float]
) -> None:
    asked, answered, later_asked, later_answered = delays
    guest = 1000.0
    first = Reading(50.0, guest, 50.0 + asked + answered)
    at_host = 50.0 + asked
    again = first.after + span + later_asked
    last = Reading(first.after + span, guest + true * (again - at_host), again + later_answered)
    low, high = clock_rate(first, last)
    assert low <= true * (1 + 1e-6)
    assert high >= true * (1 - 1e-6)


def test_what_is_not_certain_is_neither_right_nor_wrong() -> None:
    assert is_right(1 - TOLERANCE, 1 + TOLERANCE)
    assert is_wrong(1.05, math.inf)
    assert is_wrong(0.5, 0.9)
    for low, high in ((0.9, 1.1), (1.0, math.inf), (1.01, 1.05)):
        assert not is_right(low, high)
        assert not is_wrong(low, high)


@pytest.mark.long
@pytest.mark.vm
@pytest.mark.root
def test_a_machine_whose_clock_is_wrong_is_booted_again(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    hardware = Hardware("tcg", processors=1)
    options = qemu.boot_options

    def wrong_at_first(*arguments: Any) -> list[str]:
        found = options(*arguments)
        if not made:  # a rate of the time stamp counter that is some five times too low
            found[found.index("-append") + 1] += " tsc_early_khz=500000"
        made.append(found)
        return found

    monkeypatch.setattr(qemu, "boot_options", wrong_at_first)
    monkeypatch.setattr(machines, "BOOTS", 1)
    with (
        pytest.raises(
            VmError, match=r"has a clock [2-5]\S* to [2-9]\S* times as fast as this one, after 1"
        ),
        Machine(image, hardware, [], tmp_path / "first.log"),
    ):
        pass

    made.clear()
    monkeypatch.setattr(machines, "BOOTS", 4)  # a busy machine makes clocks wrong by itself
    with Machine(image, hardware, [], tmp_path / "second.log") as machine:
        assert 2 <= len(made) <= 4
        assert machine.run(["true"], folder=Path("/")) == 0


@pytest.mark.long
@pytest.mark.vm
@pytest.mark.root
def test_a_machine_that_hangs_is_booted_again(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    options, enough = qemu.machine_options, machines.BOOT_WORK

    def hung_at_first(*arguments: Any) -> list[str]:
        # A guest that works on without an end has used up any time, even a short one, at last.
        monkeypatch.setattr(machines, "BOOT_WORK", enough if started else 0.5)
        started.append(options(*arguments))
        return started[-1]

    monkeypatch.setattr(qemu, "machine_options", hung_at_first)
    monkeypatch.setattr(machines, "HANGS", 4)  # another may hang by itself
    with Machine(image, Hardware("tcg", processors=1), [], tmp_path / "log") as machine:
        assert len(started) >= 2
        assert machine.run(["true"], folder=Path("/")) == 0

    started.clear()
    ready = Machine._ready

    def aborts_at_first(machine: Machine, work: float) -> bool:
        if len(started) == 1:
            os.kill(machine.pid, signal.SIGABRT)
        return ready(machine, work)

    monkeypatch.setattr(Machine, "_ready", aborts_at_first)
    with Machine(image, Hardware("tcg", processors=1), [], tmp_path / "third.log") as machine:
        assert len(started) >= 2
        assert machine.run(["true"], folder=Path("/")) == 0

    def stopped(*arguments: Any) -> list[str]:
        return [*options(*arguments), "-S"]  # the processors do not start

    monkeypatch.setattr(qemu, "machine_options", stopped)
    monkeypatch.setattr(machines, "HANGS", 2)
    monkeypatch.setattr(machines, "BOOT_LIMIT", 1.0)
    with (
        pytest.raises(VmError, match="hangs while booting"),
        Machine(image, Hardware("tcg", processors=1), [], tmp_path / "second.log"),
    ):
        pass
