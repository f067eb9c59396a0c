"""Messages of the generic netlink family MAC80211_HWSIM (Linux, mac80211_hwsim.h), as bytes.

Sans-I/O.  A process that registers on the family (REGISTER) is the medium of the radios made in its
network namespace: instead of delivering a frame, mac80211_hwsim hands it over (FRAME, with the
rates that mac80211 wants tried and how often).  The medium answers with a FRAME to each radio that
hears it, with rate and signal, and with one TX_INFO_FRAME to the sender: how often it was sent at
which rate, and whether it was acknowledged.  NEW_RADIO makes a radio that vanishes with the socket.

This family knows a radio by its second address.  If the radio was made with a permanent address
(PERM_ADDR), as here, both are the same; otherwise the second has bit 0x40 of the first octet set.

Every frame of every radio comes through here, so a message is parsed in one pass over its
attributes, and the part common to several receivers is encoded once.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from emulation.media.netlink_wire import (
    BODY,
    NLM_F_REQUEST,
    VERSION,
    NetlinkError,
    NetlinkMessage,
    attribute,
    attribute_u32,
    attributes,
    command_of,
    request,
    text,
)

FAMILY: Final = "MAC80211_HWSIM"
REGISTER, FRAME, TX_INFO_FRAME, NEW_RADIO = range(1, 5)

_RECEIVER: Final = 1
_TRANSMITTER: Final = 2
_FRAME: Final = 3
_FLAGS: Final = 4
_RX_RATE: Final = 5
_SIGNAL: Final = 6
_TX_INFO: Final = 7
_COOKIE: Final = 8
_CHANNELS: Final = 9
_DESTROY_ON_CLOSE: Final = 16
_RADIO_NAME: Final = 17
_NO_VIF: Final = 18
_FREQUENCY: Final = 19
_TX_INFO_FLAGS: Final = 21
_PERMANENT_ADDRESS: Final = 22

ACKNOWLEDGED: Final = 4
"""Flag of a TX_INFO_FRAME."""
STEPS: Final = 4
"""Rates in TX_INFO."""
LEAST_FRAME: Final = 10
"""Bytes of the shortest 802.11 header: frame control, duration, one address."""
LONGEST_FRAME: Final = 2352
"""IEEE80211_MAX_DATA_LEN with a header: mac80211 sends nothing longer."""

_U32: Final = struct.Struct("=I")
_U64: Final = struct.Struct("=Q")
_STEP: Final = struct.Struct("=bB")
_STEP_FLAGS: Final = struct.Struct("=bH")
_HEADER: Final = struct.Struct("=IHHIIBBH")
_ADDRESS: Final = struct.Struct("=HH6s2x")
_RATE_SIGNAL: Final = struct.Struct("=HHIHHi")
"""Two attributes of 32 bits each; the second is signed."""
_COOKIE_ATTRIBUTE: Final = struct.Struct("=HHQ")
_U32_LENGTH: Final = 8


class RateStep(NamedTuple):
    """A rate that a frame is tried at: index, tries, and the flags of the rate control.

    The index counts mac80211_hwsim's 12 rates (1 to 54 Mb/s), or MCS if `flags` has `MCS`.
    """

    rate: int
    tries: int
    flags: int


class Sent(NamedTuple):
    """A frame that a radio sends.

    `steps` is the pair of raw attributes TX_INFO and TX_INFO_FLAGS, for `steps_of`: few different
    pairs occur, so they are the key of a cache.
    """

    transmitter: bytes
    frame: bytes
    flags: int
    frequency_mhz: int
    steps: tuple[bytes, bytes]
    cookie: int


def decode_frame(datagram: bytes, message: NetlinkMessage) -> Sent:
    """Return the frame in a message of the family.  Raises `NetlinkError`."""
    if command_of(datagram, message) != FRAME:
        raise NetlinkError(f"command {datagram[message.start]} is not a frame")
    spans = attributes(datagram, message.start + 4, message.end)
    try:
        start, end = spans[_TRANSMITTER]
        transmitter = datagram[start:end]
        start, end = spans[_FRAME]
        frame = datagram[start:end]
        start, end = spans[_TX_INFO]
        tries = datagram[start:end]
        flags = _U32.unpack_from(datagram, _exactly(spans[_FLAGS], 4))[0]
        cookie = _U64.unpack_from(datagram, _exactly(spans[_COOKIE], 8))[0]
        frequency = _U32.unpack_from(datagram, _exactly(spans[_FREQUENCY], 4))[0]
    except KeyError as missing:
        raise NetlinkError(f"a frame without attribute {missing}") from None
    span = spans.get(_TX_INFO_FLAGS)
    rate_flags = b"" if span is None else datagram[span[0] : span[1]]
    if len(transmitter) != 6:
        raise NetlinkError(f"an address of {len(transmitter)} bytes")
    if not LEAST_FRAME <= len(frame) <= LONGEST_FRAME:
        raise NetlinkError(f"a frame of {len(frame)} bytes")
    if len(tries) != STEPS * _STEP.size or len(rate_flags) not in (0, STEPS * _STEP_FLAGS.size):
        raise NetlinkError(f"rates of {len(tries)} and {len(rate_flags)} bytes")
    return Sent(transmitter, frame, flags, frequency, (tries, rate_flags), cookie)


def _exactly(span: tuple[int, int], length: int) -> int:
    if span[1] - span[0] != length:
        raise NetlinkError(f"a number of {span[1] - span[0]} bytes, not {length}")
    return span[0]


def steps_of(raw: tuple[bytes, bytes]) -> tuple[RateStep, ...]:
    """Return the rates to try, in order; the first with a negative index ends them."""
    tries, flags = raw
    steps = []
    for number, (index, count) in enumerate(_STEP.iter_unpack(tries)):
        if index < 0:
            break
        flag = _STEP_FLAGS.unpack_from(flags, number * _STEP_FLAGS.size)[1] if flags else 0
        steps.append(RateStep(index, count, flag))
    return tuple(steps)


def encode_steps(steps: tuple[RateStep, ...]) -> tuple[bytes, bytes]:
    """Return the raw attributes of up to four rates; the inverse of `steps_of`."""
    rows = [*steps, *[RateStep(-1, 0, 0)] * (STEPS - len(steps))]
    return (
        b"".join(_STEP.pack(row.rate, row.tries) for row in rows),
        b"".join(_STEP_FLAGS.pack(row.rate, row.flags) for row in rows),
    )


def spent(steps: tuple[RateStep, ...], attempts: int) -> bytes:
    """Return the attribute TX_INFO of a frame that was sent `attempts` times along `steps`."""
    rows: list[RateStep] = []
    for step in steps:
        if attempts <= 0 and rows:
            break
        rows.append(RateStep(step.rate, min(step.tries, attempts), 0))
        attempts -= step.tries
    return encode_steps(tuple(rows))[0]


class HeardFrame:
    """The messages that deliver one frame: they differ in receiver, rate and signal only.

    Raises `NetlinkError` if the frame is too long for an attribute.
    """

    __slots__ = ("_family", "_length", "_tail")

    def __init__(self, family: int, frame: bytes, frequency_mhz: int) -> None:
        self._family = family
        self._tail = attribute(_FRAME, frame) + attribute_u32(_FREQUENCY, frequency_mhz)
        self._length = BODY + _ADDRESS.size + 2 * _U32_LENGTH + len(self._tail)

    def to(self, receiver: bytes, rate: int, signal_dbm: int) -> bytes:
        """Return the message to the radio with the family's address `receiver`."""
        head = _HEADER.pack(self._length, self._family, NLM_F_REQUEST, 0, 0, FRAME, VERSION, 0)
        address = _ADDRESS.pack(10, _RECEIVER, receiver)
        level = _RATE_SIGNAL.pack(8, _RX_RATE, rate, 8, _SIGNAL, signal_dbm)
        return head + address + level + self._tail


def encode_status(
    family: int,
    sent: Sent,
    steps: tuple[RateStep, ...],
    attempts: int,
    acknowledged_dbm: int | None,
) -> bytes:
    """Return the report to a frame's sender; `acknowledged_dbm` is None without an ACK."""
    flags = sent.flags | (0 if acknowledged_dbm is None else ACKNOWLEDGED)
    body = (
        _ADDRESS.pack(10, _TRANSMITTER, sent.transmitter)
        + _RATE_SIGNAL.pack(8, _FLAGS, flags, 8, _SIGNAL, acknowledged_dbm or 0)
        + attribute(_TX_INFO, spent(steps, attempts))
        + _COOKIE_ATTRIBUTE.pack(12, _COOKIE, sent.cookie)
    )
    return request(family, TX_INFO_FRAME, body)


def encode_register(family: int) -> bytes:
    """Return the request to register as the medium; the kernel acknowledges it."""
    return request(family, REGISTER, acknowledge=True)


def encode_new_radio(family: int, name: str, mac: bytes) -> bytes:
    """Return the request for a radio without interface, removed when the socket is closed."""
    body = (
        attribute(_RADIO_NAME, text(name))
        + attribute(_PERMANENT_ADDRESS, mac)
        + attribute_u32(_CHANNELS, 1)
        + attribute(_NO_VIF, b"")
        + attribute(_DESTROY_ON_CLOSE, b"")
    )
    return request(family, NEW_RADIO, body, acknowledge=True)
