"""The channel's framing: whatever the pieces it arrives in, and nothing but frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.vm import channel

frames = st.lists(
    st.tuples(st.sampled_from([bytes([kind]) for kind in channel.KINDS]), st.binary(max_size=200))
)


@given(frames, st.lists(st.integers(1, 50), min_size=1))
def test_frames_arrive_as_they_were_sent_in_whatever_pieces(
    sent: list[tuple[bytes, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(channel.frame(*each) for each in sent)
    receiver, received, at, turn = channel.Receiver(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        received += list(receiver.feed(stream[at : at + size]))
        at, turn = at + size, turn + 1
    assert received == sent


def test_a_message_keeps_its_fields() -> None:
    ((kind, payload),) = channel.Receiver().feed(channel.message(op="exit", code=3))
    assert kind == channel.MESSAGE
    assert channel.fields(payload) == {"op": "exit", "code": 3}


@pytest.mark.parametrize("junk", [b"login: \n", b"M\xff\xff\xff\xff", b"\0" * 5])
def test_bytes_that_are_no_frame_are_refused(junk: bytes) -> None:
    with pytest.raises(channel.FramingError):
        list(channel.Receiver().feed(junk))


@pytest.mark.parametrize("payload", [b"{", b"[1]", b"\xff"])
def test_a_message_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(channel.FramingError):
        channel.fields(payload)
