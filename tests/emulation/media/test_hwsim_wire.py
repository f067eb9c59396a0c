"""Messages of the family MAC80211_HWSIM: round trips, layout, and what is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.media import hwsim_wire as wire
from emulation.media.hwsim_wire import RateStep, Sent
from emulation.media.ieee80211 import (
    MAX_TRIES,
    MCS,
    RATES,
    rate_of,
    received_index,
    receiver_of,
    subtype_of,
    tries_of,
    type_of,
)
from emulation.media.netlink_wire import (
    NLMSG_ERROR,
    NetlinkError,
    NetlinkMessage,
    attribute,
    attribute_u32,
    attributes,
    command_of,
    error_of,
    family_of,
    messages,
    request,
)
from emulation.radio.airtime import DSSS_RATES, HT_RATES, OFDM_RATES
from emulation.radio.mac import is_group

FAMILY = 31
REQUEST_STATUS = 1
"""Flag of a frame whose sender wants a report (HWSIM_TX_CTL_REQ_TX_STATUS)."""
STEPS = st.lists(
    st.builds(RateStep, st.integers(0, 11), st.integers(1, 20), st.integers(0, 0xFFFF)),
    min_size=1,
    max_size=4,
).map(tuple)
SENT = st.builds(
    Sent,
    st.binary(min_size=6, max_size=6),
    st.binary(min_size=10, max_size=300),
    st.integers(0, 7),
    st.sampled_from([2412, 5180]),
    STEPS.map(wire.encode_steps),
    st.integers(0, 2**64 - 1),
)


def only(datagram: bytes) -> NetlinkMessage:
    (message,) = messages(datagram)
    return message


def values(datagram: bytes) -> dict[int, bytes]:
    message = only(datagram)
    spans = attributes(datagram, message.start + 4, message.end)
    return {kind: datagram[start:end] for kind, (start, end) in spans.items()}


def encode_frame(sent: Sent) -> bytes:
    """Return a frame as the kernel sends it: attributes as mac80211_hwsim.h numbers them."""
    body = (
        attribute(2, sent.transmitter)
        + attribute(3, sent.frame)
        + attribute_u32(4, sent.flags)
        + attribute_u32(19, sent.frequency_mhz)
        + attribute(7, sent.steps[0])
        + (attribute(21, sent.steps[1]) if sent.steps[1] else b"")
        + attribute(8, struct.pack("=Q", sent.cookie))
    )
    return request(FAMILY, wire.FRAME, body)


@given(SENT)
def test_a_frame_survives_the_round_trip(sent: Sent) -> None:
    datagram = encode_frame(sent)
    assert wire.decode_frame(datagram, only(datagram)) == sent


@given(STEPS)
def test_steps_survive_the_round_trip(steps: tuple[RateStep, ...]) -> None:
    assert wire.steps_of(wire.encode_steps(steps)) == steps


@given(SENT, st.data())
def test_what_is_cut_or_changed_is_refused_or_read_but_never_crashes(
    sent: Sent, data: st.DataObject
) -> None:
    datagram = bytearray(encode_frame(sent))
    for _ in range(data.draw(st.integers(1, 4))):
        datagram[data.draw(st.integers(0, len(datagram) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(datagram[: data.draw(st.integers(0, len(datagram)))])
    try:
        for message in messages(damaged):
            wire.decode_frame(damaged, message)
    except NetlinkError:
        pass


@pytest.mark.parametrize("lost", [2, 3, 4, 7, 8, 19])
def test_a_frame_needs_its_attributes(lost: int) -> None:
    sent = Sent(bytes(6), bytes(24), 1, 2412, wire.encode_steps((RateStep(4, 1, 0),)), 9)
    datagram = encode_frame(sent)
    body = b"".join(
        attribute(kind, value) for kind, value in values(datagram).items() if kind != lost
    )
    cut = struct.pack("=IHHII", 20 + len(body), FAMILY, 0, 0, 0) + b"\x02\x01\0\0" + body
    with pytest.raises(NetlinkError, match=f"without attribute {lost}"):
        wire.decode_frame(cut, only(cut))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (Sent(bytes(5), bytes(24), 1, 2412, wire.encode_steps(()), 9), "address of 5"),
        (Sent(bytes(6), bytes(9), 1, 2412, wire.encode_steps(()), 9), "frame of 9"),
        (Sent(bytes(6), bytes(2353), 1, 2412, wire.encode_steps(()), 9), "frame of 2353"),
        (Sent(bytes(6), bytes(24), 1, 2412, (bytes(6), bytes(12)), 9), "rates of 6"),
        (Sent(bytes(6), bytes(24), 1, 2412, (bytes(8), bytes(11)), 9), "8 and 11"),
    ],
)
def test_values_of_the_wrong_size_are_refused(changed: Sent, said: str) -> None:
    datagram = encode_frame(changed)
    with pytest.raises(NetlinkError, match=said):
        wire.decode_frame(datagram, only(datagram))


def test_another_command_is_no_frame() -> None:
    datagram = wire.encode_register(FAMILY)
    with pytest.raises(NetlinkError, match="command 1"):
        wire.decode_frame(datagram, only(datagram))


@pytest.mark.parametrize("datagram", [b"\x01", bytes(16), struct.pack("=IHHII", 17, 3, 0, 0, 0)])
def test_a_datagram_that_is_cut_is_refused(datagram: bytes) -> None:
    with pytest.raises(NetlinkError):
        list(messages(datagram))


@given(
    st.binary(min_size=10, max_size=300),
    st.binary(min_size=6, max_size=6),
    st.integers(0, 11),
    st.integers(-120, 0),
)
def test_a_delivery_has_receiver_frame_rate_signal_and_channel(
    frame: bytes, receiver: bytes, rate: int, signal: int
) -> None:
    datagram = wire.HeardFrame(FAMILY, frame, 2412).to(receiver, rate, signal)
    message = only(datagram)
    assert (message.type, command_of(datagram, message)) == (FAMILY, wire.FRAME)
    assert values(datagram) == {
        1: receiver,
        5: struct.pack("=I", rate),
        6: struct.pack("=i", signal),
        3: frame,
        19: struct.pack("=I", 2412),
    }


def test_messages_to_several_receivers_lie_behind_each_other() -> None:
    heard = wire.HeardFrame(FAMILY, bytes(25), 2412)
    datagram = heard.to(b"aaaaaa", 4, -50) + heard.to(b"bbbbbb", 4, -60)
    assert [command_of(datagram, message) for message in messages(datagram)] == [2, 2]


@pytest.mark.parametrize(
    ("attempts", "tries"),
    [(1, [(7, 1)]), (2, [(7, 2)]), (3, [(7, 2), (5, 1)]), (6, [(7, 2), (5, 3), (4, 1)])],
)
def test_a_report_says_how_often_each_rate_was_tried(
    attempts: int, tries: list[tuple[int, int]]
) -> None:
    steps = (RateStep(7, 2, 0), RateStep(5, 3, 0), RateStep(4, 3, 0))
    sent = Sent(b"abcdef", bytes(24), REQUEST_STATUS, 2412, wire.encode_steps(steps), 77)
    report = values(wire.encode_status(FAMILY, sent, steps, attempts, -61))
    pairs = [pair for pair in struct.iter_unpack("=bB", report[7]) if pair[0] >= 0]
    assert pairs == tries
    assert report[2] == b"abcdef"
    assert report[4] == struct.pack("=I", REQUEST_STATUS | wire.ACKNOWLEDGED)
    assert report[6] == struct.pack("=i", -61)
    assert report[8] == struct.pack("=Q", 77)


def test_a_frame_given_up_is_reported_without_acknowledgement() -> None:
    steps = (RateStep(7, 2, 0),)
    sent = Sent(b"abcdef", bytes(24), REQUEST_STATUS, 2412, wire.encode_steps(steps), 77)
    report = values(wire.encode_status(FAMILY, sent, steps, 2, None))
    assert report[4] == struct.pack("=I", REQUEST_STATUS)


def test_a_frame_never_sent_names_its_first_rate_with_no_try() -> None:
    assert wire.spent((RateStep(7, 2, 0),), 0)[:4] == struct.pack("=bBbB", 7, 0, -1, 0)


def test_a_radio_goes_with_the_socket_and_has_name_and_address() -> None:
    found = values(wire.encode_new_radio(FAMILY, "pst7.sta1", b"\x02\0\0\0\0\x01"))
    assert found[17] == b"pst7.sta1\0"
    assert found[22] == b"\x02\0\0\0\0\x01"
    assert found[16] == found[18] == b""


def test_acknowledgements_carry_a_number() -> None:
    datagram = struct.pack("=IHHIIi", 20, NLMSG_ERROR, 0, 5, 0, -16)
    assert error_of(datagram, only(datagram)) == -16
    with pytest.raises(NetlinkError):
        error_of(wire.encode_register(FAMILY), only(wire.encode_register(FAMILY)))


def test_the_controller_tells_the_number_of_a_family_or_that_there_is_none() -> None:
    body = b"\x01\x02\0\0" + attribute(2, b"X\0") + attribute(1, struct.pack("=H", FAMILY))
    datagram = struct.pack("=IHHII", 16 + len(body), 16, 0, 0, 0) + body
    assert family_of(datagram) == FAMILY
    assert family_of(struct.pack("=IHHIIi", 20, NLMSG_ERROR, 0, 0, 0, -2)) is None


def test_the_header_of_a_frame() -> None:
    beacon = bytes.fromhex("8000 0000 ffffffffffff 020000000001".replace(" ", ""))
    assert (type_of(beacon), subtype_of(beacon)) == (0, 8)
    assert receiver_of(beacon) == b"\xff" * 6
    assert is_group(receiver_of(beacon))
    assert not is_group(b"\x02\0\0\0\0\x01")


def test_rates_by_index() -> None:
    assert rate_of(RateStep(0, 1, 0), 2412) == DSSS_RATES[0]
    assert rate_of(RateStep(11, 1, 0), 2412) == OFDM_RATES[-1]
    assert rate_of(RateStep(0, 1, 0), 5180) == OFDM_RATES[0]
    assert rate_of(RateStep(7, 1, MCS), 2412) == HT_RATES[7]
    assert rate_of(RateStep(40, 1, 0), 2412) == DSSS_RATES[0]


def test_every_try_has_its_rate() -> None:
    tries = tries_of((RateStep(11, 2, 0), RateStep(4, 1, 0)), 2412)
    assert tries == (OFDM_RATES[-1], OFDM_RATES[-1], OFDM_RATES[0])
    assert tries_of((RateStep(11, 0, 0),), 2412) == (OFDM_RATES[-1],)
    assert tries_of((), 2412) == (DSSS_RATES[0],)
    assert len(tries_of((RateStep(4, 255, 0),), 2412)) == MAX_TRIES


def test_a_receiver_is_told_the_index_of_the_rate() -> None:
    assert [received_index(rate, 2412) for rate in RATES] == list(range(12))
    assert received_index(HT_RATES[0], 2412) == 4
