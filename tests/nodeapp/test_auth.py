"""Sealed frames: what is forged, changed or replayed is refused; what is not, arrives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.auth import LATE, TRAILER, WINDOW, Seal, read_key
from nodeapp.kinds import CommonKind
from nodeapp.wire import FLAG_SEALED, MAX_BODY, Frame, WireError, decode

KEY = b"0123456789abcdef"
FRAME = Frame(
    CommonKind.EVENT, 3, publisher=5, sequence=7, ttl=9, flags=1, route=b"abc", body=b"body"
)


def opens(seal: Seal, datagram: bytes, sender: int = 3) -> bool:
    try:
        seal.open(datagram, sender)
    except WireError:
        return False
    return True


def test_a_sealed_frame_is_a_frame_and_comes_out_as_it_was() -> None:
    sealed = Seal(KEY, 3).seal(FRAME.encode(), 1.0)
    seen = decode(sealed)
    assert seen.flags == FRAME.flags | FLAG_SEALED
    assert (seen.route, seen.body[:-TRAILER]) == (FRAME.route, FRAME.body)
    assert Seal.strip(sealed) == FRAME.encode()
    assert Seal(KEY, 4).open(sealed, 3) == FRAME.encode()
    with pytest.raises(WireError, match="no room for a seal"):
        Seal(KEY, 3).seal(FRAME._replace(body=bytes(MAX_BODY)).encode(), 1.0)


@settings(max_examples=60)
@given(st.data())
def test_nothing_forged_is_accepted(data: st.DataObject) -> None:
    sealed = bytearray(Seal(KEY, 3).seal(FRAME.encode(), 1.0))
    index = data.draw(st.integers(0, len(sealed) - 1))
    sealed[index] ^= data.draw(st.integers(1, 255))
    assert not opens(Seal(KEY, 4), bytes(sealed))
    assert not opens(Seal(KEY, 4), data.draw(st.binary(max_size=120)))
    made_up = FRAME._replace(flags=FLAG_SEALED, body=data.draw(st.binary(max_size=60)))
    assert not opens(Seal(KEY, 4), made_up.encode())


def test_other_keys_other_nodes_and_replays_are_refused() -> None:
    sender, receiver = Seal(KEY, 3), Seal(KEY, 4)
    frames = [sender.seal(FRAME.encode(), 0.001 * number) for number in range(WINDOW + 3)]
    assert not opens(Seal(b"another key, also long", 4), frames[0])
    assert not opens(Seal(KEY, 4), frames[0], sender=5)
    assert not opens(Seal(KEY, 4), FRAME.encode())
    for one, other in zip(frames[1::2], frames[::2], strict=False):  # overtaking
        assert opens(receiver, one)
        assert opens(receiver, other)
        assert not opens(receiver, one)
    assert not any(opens(receiver, each) for each in frames[: WINDOW + 2])
    again = Seal(KEY, 3)  # the sender has started again: its clock goes on
    assert opens(receiver, again.seal(FRAME.encode(), 100.0))
    late = Seal(KEY, 3).seal(FRAME.encode(), 99.9 - LATE / 1e6)
    with pytest.raises(WireError, match="a replay, or its clock went back"):
        receiver.open(late, 3)


def test_a_receiver_that_starts_again_has_forgotten_what_it_heard() -> None:
    sender = Seal(KEY, 3)
    old, new = sender.seal(FRAME.encode(), 1.0), sender.seal(FRAME.encode(), 1.1 + LATE / 1e6)
    before, after = Seal(KEY, 4), Seal(KEY, 4)
    assert opens(before, old)
    assert not opens(before, old)
    assert opens(after, old)  # docs/security.md
    assert not opens(after, old)
    later = Seal(KEY, 4)
    assert opens(later, new)
    assert not opens(later, old)


def test_a_key_is_read_from_a_file_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(ValueError, match="cannot read the key"):
        read_key(path)
    path.write_bytes(b"short\n")
    with pytest.raises(ValueError, match="5 bytes, at least 16 are needed"):
        read_key(path)
    path.write_bytes(KEY + b"\n")
    assert read_key(path) == KEY
