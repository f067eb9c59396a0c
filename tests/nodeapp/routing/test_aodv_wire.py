"""Bodies of AODV's messages: CBOR of fixed layout, and nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.routing.aodv_wire import (
    ACK_BODY,
    ERRORS_A_FRAME,
    Hello,
    RouteReply,
    RouteRequest,
    check_acknowledgement,
    decode_errors,
    decode_hello,
    decode_reply,
    decode_request,
    encode_errors,
)
from nodeapp.wire import BROADCAST, WireError, decode_body
from tests.nodeapp.strategies import hostile, ids, words

milliseconds = words.map(lambda value: value / 1000)
DECODERS: list[Callable[[bytes], Any]] = [
    decode_request,
    decode_reply,
    decode_errors,
    decode_hello,
]


@given(st.builds(RouteRequest, st.integers(0, 7), words, words, words))
def test_requests(request: RouteRequest) -> None:
    assert decode_request(request.encode()) == request
    assert decode_body(request.encode()) == list(request)


@given(st.builds(RouteReply, ids, words, st.integers(0, 255), milliseconds, st.integers(0, 1)))
def test_replies(reply: RouteReply) -> None:
    assert decode_reply(reply.encode()) == reply
    lifetime = round(reply.lifetime * 1000)
    assert decode_body(reply.encode()) == [reply.flags, *reply[:3], lifetime]


def test_acknowledgements() -> None:
    assert decode_body(ACK_BODY) == []
    check_acknowledgement(ACK_BODY)
    for body in (b"", b"\x81\x00"):
        with pytest.raises(WireError):
            check_acknowledgement(body)


@given(words, milliseconds)
def test_hellos(sequence: int, lifetime: float) -> None:
    body = Hello(sequence, lifetime).encode()
    assert decode_hello(body) == (sequence, lifetime)
    assert decode_body(body) == [sequence, round(lifetime * 1000)]


@given(st.lists(st.tuples(ids, words), max_size=3 * ERRORS_A_FRAME), st.integers(0, 1))
def test_errors_come_in_frames_of_limited_size(
    unreachable: list[tuple[int, int]], flags: int
) -> None:
    bodies = list(encode_errors(unreachable, flags))
    assert [pair for body in bodies for pair in decode_errors(body).unreachable] == unreachable
    assert all(decode_errors(body).flags == flags for body in bodies)
    assert all(len(body) <= 1300 for body in bodies)
    assert all(decode_body(body)[0] == flags for body in bodies)
    assert [word for body in bodies for word in decode_body(body)[1:]] == [
        word for pair in unreachable for word in pair
    ]


@pytest.mark.parametrize("decoder", DECODERS)
@given(body=hostile)
def test_anything_else_is_refused(decoder: Callable[[bytes], Any], body: bytes) -> None:
    try:
        decoder(body)
    except WireError:
        return
    assert isinstance(decode_body(body), list)


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=st.data())
def test_a_changed_body_is_refused_or_one_of_the_same_kind(
    decoder: Callable[[bytes], Any], data: st.DataObject
) -> None:
    good = {
        decode_request: RouteRequest(1, 2, 3, 4).encode(),
        decode_reply: RouteReply(1, 2, 3, 4).encode(),
        decode_errors: next(encode_errors([(1, 2), (3, 4)])),
        decode_hello: Hello(1, 2).encode(),
    }[decoder]
    at = data.draw(st.integers(0, len(good) - 1))
    body = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        decoder(body)
    except WireError:
        return
    assert len(decode_body(body)) == len(decode_body(good))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(WireError):
        decode_request(RouteRequest(8, 1, 1, 1).encode())
    for node in (0, BROADCAST):
        with pytest.raises(WireError):
            decode_reply(RouteReply(node, 1, 1, 1).encode())
        with pytest.raises(WireError):
            decode_errors(next(encode_errors([(node, 1)])))
    with pytest.raises(WireError):
        decode_reply(RouteReply(1, 1, 256, 1).encode())
    with pytest.raises(WireError):
        decode_reply(RouteReply(1, 1, 1, 1, 2).encode())
    with pytest.raises(WireError):
        decode_errors(next(encode_errors([(1, 1)], 2)))
    for body in (b"\x99\x00\x00", b"\x99\x00\x01\x1a\x00\x00\x00\x00"):
        with pytest.raises(WireError):
            decode_errors(body)
