"""Packets, against scapy's independent idea of the same headers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP, defragment
from scapy.layers.l2 import Ether

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import NodeSpec
from emulation.virtual.packets import (
    CLIENT,
    LARGEST_WHOLE,
    checksum,
    frame_lengths,
    loopback_frame,
    mac_of,
    radio_frames,
)
from nodeapp.kinds import TrafficClass
from nodeapp.pubsub.messages import TopicKind
from nodeapp.wire import BROADCAST, CLIENT_PORT, NODE_PORT, Frame, traffic_class


def _checked(frame: bytes) -> Ether:
    """Return a frame whose checksums scapy computes alike."""
    packet = Ether(frame)
    again = Ether(frame)
    del again[IP].chksum
    if UDP in again and again[IP].frag == 0 and not again[IP].flags.MF:
        del again[UDP].chksum
    assert bytes(again) == frame
    return packet


@given(
    st.integers(1, 2**24 - 2),
    st.one_of(st.integers(1, 2**24 - 2), st.just(BROADCAST)),
    st.binary(max_size=LARGEST_WHOLE),
)
def test_a_datagram_that_fits_is_one_frame(node: int, to: int, datagram: bytes) -> None:
    (frame,) = radio_frames(node, to, datagram, 7)
    packet = _checked(frame)
    spec = NodeSpec(id=node, name="sta1", waypoints=(Waypoint(0, 0, 0),))
    assert (packet.src, packet[IP].src) == (spec.mac, spec.address)
    if to == BROADCAST:
        assert (packet.dst, packet[IP].dst) == ("ff:ff:ff:ff:ff:ff", "255.255.255.255")
    else:
        assert bytes.fromhex(packet.dst.replace(":", "")) == mac_of(to)
    assert (packet[UDP].sport, packet[UDP].dport) == (NODE_PORT, NODE_PORT)
    assert bytes(packet[UDP].payload) == datagram
    assert packet[IP].tos == traffic_class(datagram) << 2
    assert frame_lengths(len(datagram)) == [len(frame)]


def test_all_fragments_are_of_the_class_of_their_message() -> None:
    control = Frame(TopicKind.SUBSCRIPTION, 1, body=bytes(3000)).encode()
    parts = [_checked(frame)[IP] for frame in radio_frames(1, 2, control, 7)]
    assert [part.tos for part in parts] == [TrafficClass.PUBSUB_CONTROL << 2] * 3


@pytest.mark.parametrize("length", [LARGEST_WHOLE + 1, 1480 * 2 - 8, 1480 * 2 - 7, 9000, 60_024])
def test_a_longer_one_travels_in_fragments(length: int) -> None:
    datagram = random.Random(length).randbytes(length)
    frames = radio_frames(1, 2, datagram, 70_000)
    assert [len(frame) for frame in frames] == frame_lengths(length)
    assert all(len(frame) <= 1514 for frame in frames)
    (whole,) = defragment([_checked(f)[IP] for f in frames])  # type: ignore[no-untyped-call]
    again = IP(bytes(whole))
    del again[UDP].chksum
    assert IP(bytes(again))[UDP].chksum == whole[UDP].chksum
    assert bytes(whole[UDP].payload) == datagram


@pytest.mark.parametrize("to_client", [False, True])
def test_clients_talk_on_loopback(to_client: bool) -> None:
    packet = _checked(loopback_frame(b"hello", to_client=to_client))
    assert (packet.src, packet.dst) == ("00:00:00:00:00:00", "00:00:00:00:00:00")
    assert (packet[IP].src, packet[IP].dst) == ("127.0.0.1", "127.0.0.1")
    ports = (packet[UDP].sport, packet[UDP].dport)
    assert ports == ((CLIENT_PORT, CLIENT) if to_client else (CLIENT, CLIENT_PORT))


def test_the_checksum_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
