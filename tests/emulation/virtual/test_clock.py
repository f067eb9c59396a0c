"""The virtual clock: order, ties, cancelled calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulation.virtual.clock import FOREVER, Clock, VirtualTimer


@given(st.lists(st.floats(0, 100), max_size=60), st.floats(0, 100))
def test_calls_come_in_order_of_time_then_of_asking(delays: list[float], until: float) -> None:
    clock = Clock()
    called: list[tuple[float, int]] = []
    for number, delay in enumerate(delays):
        clock.call_later(delay, lambda n: called.append((clock.now, n)), number)
    clock.run(until)
    due = sorted((delay, number) for number, delay in enumerate(delays) if delay <= until)
    assert called == due
    assert clock.now == until


def test_a_call_may_ask_for_further_calls() -> None:
    clock = Clock()
    times: list[float] = []

    def tick(left: int) -> None:
        times.append(clock.now)
        if left:
            clock.call_later(0.5, tick, left - 1)

    clock.call_at(1.0, tick, 3)
    clock.run(2.0)
    assert times == [1.0, 1.5, 2.0]
    clock.run(10.0)
    assert times == [1.0, 1.5, 2.0, 2.5]


def test_cancelled_calls_do_not_come_and_may_be_cancelled_late() -> None:
    clock = Clock()
    called: list[str] = []
    kept = clock.call_later(1.0, called.append, "kept")
    clock.call_later(0.5, called.append, "cancelled").cancel()
    clock.run(2.0)
    kept.cancel()
    assert called == ["kept"]


def test_what_is_past_comes_at_once() -> None:
    clock = Clock()
    clock.run(5.0)
    called: list[float] = []
    clock.call_at(1.0, lambda: called.append(clock.now))
    clock.call_later(-3.0, lambda: called.append(clock.now))
    clock.run(5.0)
    assert called == [5.0, 5.0]


@given(
    st.lists(st.tuples(st.sampled_from((0.0, 0.25, 0.5, 1.0)), st.booleans()), max_size=80),
    st.integers(1, 4),
)
def test_calls_asked_for_on_the_way_come_in_the_same_order(
    asked: list[tuple[float, bool]], each: int
) -> None:
    """Every call asks for `each` more and may cancel one; a sorted list says who is next."""
    clock, left = Clock(), list(enumerate(asked))
    waiting: dict[int, tuple[float, VirtualTimer]] = {}
    order: list[int] = []

    def ask() -> None:
        number, (delay, cancels) = left.pop(0)
        timer = clock.call_later(delay, act, number, cancels)
        waiting[number] = (clock.now + delay, timer)

    def act(number: int, cancels: bool) -> None:
        assert number == min(waiting, key=lambda each: (waiting[each][0], each))
        del waiting[number]
        order.append(number)
        if cancels and waiting:
            last = max(waiting)
            waiting.pop(last)[1].cancel()
        for _ in range(min(each, len(left))):
            ask()

    for _ in range(min(each, len(left))):
        ask()
    clock.run(100.0)
    assert not waiting
    assert len(order) <= len(asked)


def test_the_clock_tells_what_is_due() -> None:
    clock = Clock()
    assert clock.due() == FOREVER
    clock.call_later(2.0, print).owner = "second"
    clock.call_later(1.0, print).owner = "first"
    assert (clock.due(), clock.next_owner()) == (1.0, "first")
    assert {timer.owner for timer in clock} == {"first", "second"}
