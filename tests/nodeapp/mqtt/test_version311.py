"""Packets of MQTT 3.1.1 and of MQTT 5: the same, but for properties and codes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

mqtt5 = pytest.importorskip("mqtt5")
version311 = pytest.importorskip("nodeapp.mqtt.version311")
fields = pytest.importorskip("nodeapp.mqtt.fields")

TOPICS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1)
QUALITIES = [mqtt5.QoS.AT_MOST_ONCE, mqtt5.QoS.AT_LEAST_ONCE, mqtt5.QoS.EXACTLY_ONCE]
CONNECT = bytes.fromhex("1019 0004 4d515454 04 f6 003c 0001 61 0001 67 0001 68 0001 75 0001 70")
"""With a will, retained and of quality 2, a user and a password."""


@given(TOPICS, st.binary(max_size=300), st.sampled_from(QUALITIES))
def test_messages_have_the_same_text_and_payload(topic: str, payload: bytes, qos: object) -> None:
    number = None if qos == mqtt5.QoS.AT_MOST_ONCE else 7
    packet = mqtt5.PublishPacket(topic, payload, qos=qos, packet_id=number)
    old = version311.downgraded(packet.write())
    again = version311.parse(old)
    assert (again.topic, again.payload or b"", again.qos, again.packet_id) == (
        topic, payload, qos, number,
    )  # fmt: skip


def test_properties_are_taken_out() -> None:
    packet = mqtt5.PublishPacket("a", b"xyz", content_type="text", user_properties=[("k", "v")])
    assert version311.downgraded(packet.write()).hex(" ") == "30 06 00 01 61 78 79 7a"


def test_connect_has_all_that_it_had() -> None:
    packet = version311.parse(CONNECT)
    assert (packet.client_id, packet.keep_alive, packet.clean_start) == ("a", 60, True)
    assert (packet.username, packet.password) == ("u", b"p")
    will = packet.will
    assert (will.topic, will.payload, int(will.qos), will.retain) == ("g", b"h", 2, True)


@given(st.lists(st.tuples(TOPICS, st.integers(0, 2)), min_size=1, max_size=4))
def test_filters_have_their_qualities(filters: list[tuple[str, int]]) -> None:
    texts = [len(text.encode()).to_bytes(2, "big") + text.encode() for text, _ in filters]
    options = b"".join(text + bytes([qos]) for text, (_, qos) in zip(texts, filters, strict=True))
    packet = version311.parse(version311._packet(0x82, b"\0\5" + options))
    assert [(one.pattern, int(one.max_qos)) for one in packet.topic_filters] == filters
    ended = version311.parse(version311._packet(0xA2, b"\0\5" + b"".join(texts)))
    assert ended.patterns == [text for text, _ in filters]


@pytest.mark.parametrize(
    ("packet", "old"),
    [
        (mqtt5.ConnAckPacket(max_packet_size=9), "20020000"),
        (mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode.CLIENT_ID_NOT_VALID), "20020002"),
        (mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode.NOT_AUTHORIZED), "20020005"),
        (mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode.RETAIN_NOT_SUPPORTED), "20020005"),
        (mqtt5.PubRelPacket(7, reason_code=mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND), "62020007"),
        (mqtt5.PubAckPacket(7, reason_str="why"), "40020007"),
        (
            mqtt5.SubAckPacket(
                7,
                [
                    mqtt5.SubAckReasonCode.GRANTED_QOS_EXACTLY_ONCE,
                    mqtt5.SubAckReasonCode.TOPIC_FILTER_INVALID,
                ],
                reason_str="why",
            ),
            "900400070280",
        ),
        (mqtt5.UnsubAckPacket(7, [mqtt5.UnsubAckReasonCode.SUCCESS]), "b0020007"),
        (mqtt5.PingRespPacket(), "d000"),
        (mqtt5.DisconnectPacket(), ""),
    ],
)
def test_answers_are_those_of_the_older_version(packet: object, old: str) -> None:
    assert version311.downgraded(packet.write()).hex() == old  # type: ignore[attr-defined]


@given(st.sampled_from([CONNECT, b"\x32\7\0\1a\0\1xy", b"\x82\6\0\1\0\1a\1"]), st.data())
def test_malformed_packets_are_refused_alone(valid: bytes, data: st.DataObject) -> None:
    changed = bytearray(valid)
    at = data.draw(st.sampled_from([0, *range(2, len(valid))]))
    changed[at] = data.draw(st.sampled_from([0, 1, 0x2B, 0x7F, 0x80, 0xC3, 0xED, 0xFF]))
    with contextlib.suppress(fields.PacketError):
        version311.parse(bytes(changed))
