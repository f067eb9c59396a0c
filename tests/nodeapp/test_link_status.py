"""What a Wi-Fi driver hands back of a datagram; the driver itself is not here."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.virtual.packets import radio_frames
from nodeapp import link_status
from nodeapp.addressing import address_of


@given(st.integers(1, 2**24 - 2), st.binary(max_size=1400))
def test_the_datagram_is_found_in_the_frame(to: int, datagram: bytes) -> None:
    (frame,) = radio_frames(7, to, datagram, 0)
    assert link_status.datagram_of(frame) == (address_of(to), datagram)


def test_a_fragment_is_no_datagram() -> None:
    for frame in radio_frames(7, 8, bytes(3000), 1):
        assert link_status.datagram_of(frame) is None


@given(st.binary(max_size=80))
def test_other_frames_are_no_datagrams(frame: bytes) -> None:
    link_status.datagram_of(frame)
    assert link_status.datagram_of(b"\xff" * 12 + b"\x08\x06" + frame) is None


def test_an_interface_that_is_no_radio_tells_nothing() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as radio:
        assert not link_status.watch("lo", radio)
        radio.setblocking(False)
        with pytest.raises(BlockingIOError):
            link_status.unacknowledged(radio)
