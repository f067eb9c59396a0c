"""What comes over a connection of MQTT 5, well formed or not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

mqtt5 = pytest.importorskip("mqtt5")
packets = pytest.importorskip("nodeapp.mqtt.packets")

VALID = [
    mqtt5.ConnectPacket("client", will=mqtt5.Will("gone", payload=b"x"), keep_alive=3).write(),
    mqtt5.PublishPacket("a/b", b"x", content_type="text", user_properties=[("k", "v")]).write(),
    mqtt5.PublishPacket("a", b"", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=7).write(),
    mqtt5.SubscribePacket(1, [mqtt5.TopicFilter("a/+")], subscription_id=3).write(),
    mqtt5.SubscribePacket(1, [mqtt5.TopicFilter("a/+"), mqtt5.TopicFilter("é")]).write(),
    mqtt5.UnsubscribePacket(1, ["a/+"]).write(),
    mqtt5.PubAckPacket(1, reason_str="why").write(),
    mqtt5.DisconnectPacket(reason_str="why").write(),
]


@given(st.sampled_from(VALID), st.data())
def test_malformed_packets_end_the_connection_alone(valid: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(valid) - 1))
    changed = bytearray(valid)
    changed[at] = data.draw(st.sampled_from([0, 1, 0x2B, 0x7F, 0x80, 0xC3, 0xED, 0xFF]))
    changed[1] = len(valid) - 2
    with contextlib.suppress(packets.PacketError):
        packets.parse(bytes(changed))


PANIC = f"9501 0001 9001 26 0001 61 0082 {'78' * 130} 26 0001 62 0002 fffe 00"
"""What follows the type of an acknowledgement: a property's text is not UTF-8."""


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("3004 0001 ff 00", 0x81),  # a topic that is not UTF-8
        ("100e 0004 4d515454 05 02 0000 00 0001 ff", 0x81),  # such an identifier
        ("3009 0001 61 05 03 0002 c3 28 78", 0x81),  # a property
        ("300c 0001 61 08 26 0001 6b 0002 c3 28", 0x81),  # of a pair
        ("8207 0001 00 0001 ff 00", 0x81),  # a filter
        ("e006 00 04 1f 0001 ff", 0x81),  # a reason
        ("3006 0001 61 02 7f 00", 0x81),  # a property that there is not
        ("3206 0001 61 0000 00", 0x82),  # packet identifier 0
        ("3804 0001 61 00", 0x82),  # DUP at quality 0
        ("3006 0001 61 02 0b07", 0x82),  # a subscription identifier
        ("8203 0001 00", 0x82),  # no filter
        ("a203 0001 00", 0x82),
        ("820e 0001 00 0003 612f2b 0a 0002 c3a9 4a", 0x81),  # reserved options of the last filter
        ("820e 0001 00 0003 612f2b 8a 0002 c3a9 0a", 0x81),  # of the first
        ("0000", 0x81),
        ("100e 0004 4d515454 05 03 0000 00 0001 61", 0x81),  # the reserved flag
        ("100e 0004 4d515454 05 2a 0000 00 0001 61", 0x81),  # a will's flags without one
        ("100f 0004 4d515454 05 02 0000 00 0002 6100", 0x81),  # U+0000 in an identifier
        (f"90 {PANIC}", 0x82),  # SUBACK from a client
        (f"b0 {PANIC}", 0x82),  # UNSUBACK
        ("2003 00 00 00", 0x82),  # CONNACK
        ("d000", 0x82),  # PINGRESP
    ],
)
def test_what_the_standard_forbids_is_refused(
    data: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(packets.PacketError) as refused:
        packets.parse(bytes.fromhex(data))
    assert refused.value.code == code
    assert capfd.readouterr() == ("", "")


def feed(*parts: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return reader


async def first(data: bytes) -> Any:
    return await packets.first_bytes(feed(data))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\xc0\0", "no packet CONNECT"),
        (b"GET /", "no packet CONNECT"),
        (b"\x10\xff\xff\xff\xff\x7f", "no packet CONNECT"),
        (b"\x16\x03\x01\x02\0\1", "TLS, .*connect without it"),
        (b"", "0 bytes read"),
        (b"\x10", "1 bytes read"),
    ],
)
def test_what_does_not_connect_is_closed(data: bytes, told: str) -> None:
    with pytest.raises((packets.ForeignError, EOFError), match=told):
        asyncio.run(first(data))


def test_a_connection_begins_with_its_version() -> None:
    assert asyncio.run(first(VALID[0])) == (VALID[0][:9], 5)


def test_packets_come_whole_one_after_the_other() -> None:
    async def read() -> list[Any]:
        rest = feed(VALID[0][9:] + VALID[1][:5], VALID[1][5:])
        stream = packets.PacketStream(VALID[0][:9], rest, packets.parse)
        return [await stream.next(5.0) for _ in range(3)]

    connect, publish, nothing = asyncio.run(read())
    assert (connect.client_id, publish.topic, nothing) == ("client", "a/b", None)


def test_a_packet_must_come_in_time() -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()

        async def drip() -> None:
            while True:
                reader.feed_data(b"\0")
                await asyncio.sleep(0.01)

        task = asyncio.create_task(drip())
        try:
            stream = packets.PacketStream(b"\x30\xff\x7f\0\1a\0", reader, packets.parse)
            await stream.next(0.1)
        finally:
            task.cancel()

    with pytest.raises(packets.PacketError) as refused:
        asyncio.run(read())
    assert refused.value.code == 0x8D
