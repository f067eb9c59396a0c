"""Bodies of the frames of a mesh: what is said comes back, and nothing else is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.pubsub.mesh import messages as m
from nodeapp.pubsub.mesh.prediction import ClientStatus
from nodeapp.wire import WireError

STATUS = ClientStatus((1.0, 2.0), (3.0, 4.0), 5.0, 6.0, 7.0)
SESSION = m.SessionKey(3, 70)
DECODERS: list[Callable[[bytes], Any]] = [
    m.decode_report,
    m.decode_report_ack,
    m.decode_delivery,
    m.decode_received,
    m.decode_probe,
    m.decode_handover,
    m.decode_handed_over,
    m.decode_propagated,
]


def test_what_is_said_comes_back() -> None:
    received = m.Received(4, (6, 9))
    report = m.Report(8, STATUS, (b"a", b"b"), ((SESSION, received),))
    back = m.decode_report(report.encode())
    assert back[:3] == report[:3]
    assert back.sessions[0][0] == SESSION
    assert back.sessions[0][1].encode() == [4, [6, 9]]
    delivery = m.EventDelivery(SESSION, 5, 1, STATUS, 2.5, b"event")
    assert m.decode_delivery(delivery.encode()) == delivery
    assert m.decode_delivery(delivery._replace(status=None).encode()).status is None
    assert m.decode_report_ack(m.encode_report_ack(1, 2, "no")) == (1, 2, "no")
    assert m.decode_received(m.encode_received(SESSION, 7)) == (SESSION, 7)
    handover = m.Handover(9, 1, SESSION, 3, received, (b"p",), done=True)
    assert m.decode_handover(handover.encode())._replace(received=received) == handover
    answer = m.HandedOver(9, SESSION, 5, None, 6, received)
    assert m.decode_handed_over(answer.encode())._replace(received=received) == answer
    propagated = m.Propagated(9, SESSION, m.SessionKey(4, 1), b"p")
    assert m.decode_propagated(propagated.encode()) == propagated


@given(st.lists(st.integers(1, 40)), st.lists(st.integers(1, 40)))
def test_what_has_arrived_is_a_set(one: list[int], other: list[int]) -> None:
    first, second = m.Received(), m.Received()
    for index in one:
        first.add(index)
    for index in other:
        second.add(index)
    first.merge(second)
    assert [n in first for n in range(1, 42)] == [n in {*one, *other} for n in range(1, 42)]
    assert first.base + 1 not in first


@pytest.mark.parametrize(
    "status",
    [
        [[0, 0], [1, 1], -1, 0, 0],
        [[0, 0], [1, 1], 1, -2, 0],
        [[0, 0], [1, 1], float("nan"), 0, 0],
        [[0, 0], [1e12, 1], 1, 0, 0],
        [[0], [1, 1], 1, 0, 0],
        [[0, 0], [1, True], 1, 0, 0],
        "nowhere",
    ],
)
def test_a_status_that_no_client_can_have_is_refused(status: object) -> None:
    with pytest.raises(WireError):
        m.decode_status(status)


@pytest.mark.slow
@pytest.mark.parametrize("decode", DECODERS)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text(),
        lambda inner: st.lists(inner, max_size=8),
        max_leaves=10,
    )
)
def test_anything_else_is_refused_with_a_wire_error(
    decode: Callable[[bytes], Any], value: object
) -> None:
    with contextlib.suppress(WireError):
        decode(wire.encode_body(value))
