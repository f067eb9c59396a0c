"""Clients of MQTT 5: Debian's Mosquitto at nodes in two namespaces; packets where it has no way."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.nodeapp.lab import until
from tests.nodeapp.mqtt.lab import NEEDS, Node, dial, lines

mqtt5 = pytest.importorskip("mqtt5")
pytestmark = NEEDS
FIVE = ("-V", "mqttv5")
AT_LEAST_ONCE: dict[str, Any] = {"qos": mqtt5.QoS.AT_LEAST_ONCE, "packet_id": 1}


class Client:
    """A client that sends and reads packets."""

    def __init__(self, node: Node, name: str = "a", **options: Any) -> None:
        self._socket = dial(node)
        self._buffer = b""
        self.connack = self.ask(mqtt5.ConnectPacket(name, **options))

    def send(self, packet: Any) -> None:
        self._socket.sendall(packet if isinstance(packet, bytes) else packet.write())

    def ask(self, packet: Any) -> Any:
        """Send a packet; return what comes next."""
        self.send(packet)
        return self.read()

    def read(self) -> Any:
        """Return the next packet; None at the end."""
        while True:
            try:
                packet, size = mqtt5.read(memoryview(self._buffer))
            except IndexError:
                more = self._socket.recv(65_536)
                if not more:
                    return None
                self._buffer += more
            else:
                self._buffer = self._buffer[size:]
                return packet

    def subscribe(self, *patterns: str, identifier: int | None = None, **options: Any) -> list[int]:
        """Return the codes of SUBACK."""
        filters = [mqtt5.TopicFilter(pattern, **options) for pattern in patterns]
        answer = self.ask(mqtt5.SubscribePacket(1, filters, subscription_id=identifier))
        return [int(code) for code in answer.reason_codes]

    def publish(self, topic: str, payload: bytes = b"", **options: Any) -> Any:
        """Publish at quality 0, or at another; return what comes next."""
        packet = mqtt5.PublishPacket(topic, payload, **options)
        self.send(packet)
        return None if packet.packet_id is None else self.read()

    def publish_many(self, topic: str, count: int, payload: bytes = b"", **options: Any) -> None:
        """Publish at quality 1."""
        for number in range(1, count + 1):
            self.publish(topic, payload, **AT_LEAST_ONCE | {"packet_id": number}, **options)

    def close(self) -> None:
        self._socket.close()


def of_version_3(node: Node) -> socket.socket:
    """Return the connection of a client `a` of MQTT 3.1.1."""
    connection = dial(node)
    connection.sendall(bytes.fromhex("100d 0004 4d515454 04 02 0000 0001 61"))
    assert connection.recv(4).hex() == "20020000"
    return connection


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    opened: list[Client] = []

    def make(*arguments: Any, **options: Any) -> Client:
        opened.append(Client(*arguments, **options))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def test_both_versions_and_properties_over_flooding(start: Callable[..., Node]) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    with_all = "%q %t %p %C %R %P"
    five = other.subscribe(*FIVE, "-t", "room/+/heat", "-q", "2", "-C", "2", "-F", with_all)
    three = other.subscribe("-t", "room/#", "-q", "1", "-C", "2", "-F", "%q %t %p")
    assert "clients                        2" in other.status()
    properties = {
        "content-type": ["text/plain"],
        "response-topic": ["back"],
        "user-property": ["unit", "°C"],
        "message-expiry-interval": ["100"],
    }
    options = [
        word for name, values in properties.items() for word in ("-D", "publish", name, *values)
    ]
    assert one.publish(*FIVE, "-t", "room/1/heat", "-q", "2", "-m", "21", *options) == ""
    assert one.publish("-t", "room/2/heat", "-q", "1", "-m", "22") == ""
    assert lines(five) == ["2 room/1/heat 21 text/plain back unit:°C", "1 room/2/heat 22   "]
    assert lines(three) == ["1 room/1/heat 21", "1 room/2/heat 22"]
    until(lambda: other.filters() == 0)
    for node in (one, other):
        log = node.end()
        assert "defect" not in log
        assert "Traceback" not in log


def test_filters_are_refused_by_code(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    one, other = start(1, "broker-gpsr"), start(2, "broker-gpsr")
    until(lambda: "\n  2 " in one.status() and "\n  1 " in other.status())
    patterns = ("a", "a/#", "$share/g/a", "$SYS/load", "x" * 1025)
    assert connect(one).subscribe(*patterns) == [2, 0xA2, 0x9E, 0x83, 0x83]
    malformed = bytes.fromhex("8208 0001 00 0002 6123 00")  # a#
    assert connect(one).ask(malformed).reason_codes == [0x8F]
    assert "client 'a', 'a/#': " in one.end()


def test_subscriptions_have_identifiers_and_may_leave_out_the_own(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    client, other = connect(node), connect(node, "b")
    assert client.subscribe("a/+", identifier=7, max_qos=mqtt5.QoS.AT_LEAST_ONCE) == [1]
    assert client.subscribe("a/b", identifier=9, max_qos=mqtt5.QoS.AT_MOST_ONCE) == [0]
    assert client.subscribe("#", no_local=True) == [2]
    client.send(mqtt5.PublishPacket("a/b", b"x", qos=mqtt5.QoS.AT_MOST_ONCE))
    event = client.read()
    assert (event.topic, event.payload, sorted(event.subscription_ids)) == ("a/b", b"x", [7, 9])
    client.publish("other", b"own")
    other.publish("other", b"of others")
    assert client.read().payload == b"of others"
    unsubscribe = mqtt5.UnsubscribePacket(2, ["a/b", "a/b", "c"])
    assert [int(code) for code in client.ask(unsubscribe).reason_codes] == [0, 0x11, 0x11]


def test_quality_two_is_exactly_once(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    reader, writer = connect(node, "r", receive_max=1), connect(node, "w")
    reader.subscribe("a")
    for number in (1, 1, 2):
        options = {"qos": mqtt5.QoS.EXACTLY_ONCE, "packet_id": number}
        answer = writer.publish("a", bytes([number]), **options)
        assert (type(answer), answer.packet_id) == (mqtt5.PubRecPacket, number)
    assert [int(writer.ask(mqtt5.PubRelPacket(1)).reason_code) for _ in range(2)] == [0, 0x92]
    first = reader.read()
    assert (first.payload, first.qos) == (b"\1", 2)
    # One is under way: the second waits for its PUBCOMP.
    assert isinstance(reader.ask(mqtt5.PingReqPacket()), mqtt5.PingRespPacket)
    assert isinstance(reader.ask(mqtt5.PubRecPacket(first.packet_id)), mqtt5.PubRelPacket)
    second = reader.ask(mqtt5.PubCompPacket(first.packet_id))
    assert (second.payload, second.duplicate) == (b"\2", False)
    assert reader.ask(mqtt5.PubRecPacket(999)).reason_code == 0x92


def test_what_cannot_be_right_is_refused_by_codes(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    assert connect(node, authentication_method="SCRAM").connack.reason_code == 0x8C
    kept = mqtt5.Will("gone", payload=b"x", retain=True)
    assert connect(node, will=kept).connack.reason_code == 0x9A
    assert connect(node, will=mqtt5.Will("$SYS/a", payload=b"x")).connack.reason_code == 0x90
    accepted = connect(node, "", session_expiry_interval=100).connack
    assert (accepted.reason_code, accepted.session_expiry_interval) == (0, 0)
    assert accepted.assigned_client_id
    assert not accepted.retain_available
    assert not accepted.shared_subscription_available
    client = connect(node)
    assert client.publish("$SYS/a", **AT_LEAST_ONCE).reason_code == 0x90
    refused = client.publish("a", bytes(57_000), **AT_LEAST_ONCE)
    assert refused.reason_code == 0x83
    assert "fit, topic included" in refused.reason_str
    for packet, code in (
        (mqtt5.PublishPacket("a", b"", retain=True), 0x9A),
        (mqtt5.PublishPacket("a", b"", topic_alias=1), 0x94),
        (mqtt5.PublishPacket("a", b"", subscription_ids=[1]), 0x82),
        (mqtt5.PublishPacket("$SYS/a", b""), 0x90),
        (mqtt5.PublishPacket("a", bytes(57_000)), 0x83),
        (mqtt5.PublishPacket("a", bytes(100_000)), 0x95),
        (mqtt5.ConnectPacket("a"), 0x82),
        (b"\0\0", 0x81),
        (bytes.fromhex("3004 0001 2b 00"), 0x90),  # a topic with a wildcard
    ):
        client = connect(node)
        assert client.ask(packet).reason_code == code
        assert client.read() is None
    assert node.publish("-t", "a", "-m", "still there") == ""
    log = node.end()
    assert "retained messages are not kept" in log
    assert "Traceback" not in log


def test_a_client_that_is_silent_or_replaced_is_told_and_its_will_sent(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    reader = connect(node, "r")
    reader.subscribe("gone")

    def will(text: bytes) -> Any:
        return mqtt5.Will("gone", payload=text)

    silent = connect(node, keep_alive=1, will=will(b"silent"))
    assert silent.read().reason_code == 0x8D
    assert reader.read().payload == b"silent"
    first = connect(node, will=will(b"replaced"))
    with of_version_3(node) as other:
        assert first.read().reason_code == 0x8E
        assert reader.read().payload == b"replaced"
        last = connect(node, will=will(b"never"))
        assert other.recv(1) == b""
    last.send(mqtt5.DisconnectPacket())
    assert last.read() is None
    lost = connect(node, will=will(b"asked for"))
    lost.send(
        mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode.DISCONNECT_WITH_WILL_MESSAGE)
    )
    assert reader.read().payload == b"asked for"


def test_messages_expire_and_are_not_too_large_for_a_client(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    busy, writer = connect(node, "r", receive_max=1, max_packet_size=200), connect(node, "w")
    busy.subscribe("a")
    writer.publish("a", b"first", message_expiry_interval=50, **AT_LEAST_ONCE)
    writer.publish("a", b"expires", message_expiry_interval=1, **AT_LEAST_ONCE)
    writer.publish("a", bytes(200), **AT_LEAST_ONCE)
    writer.publish("a", b"last", **AT_LEAST_ONCE)
    first = busy.read()
    assert 48 <= first.message_expiry_interval <= 50
    time.sleep(1.6)
    assert busy.ask(mqtt5.PubAckPacket(first.packet_id)).payload == b"last"


def test_a_client_that_does_not_read_is_closed(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    deaf, writer = connect(node, "deaf", receive_max=1), connect(node, "w")
    deaf.subscribe("a")
    writer.publish_many("a", 100, bytes(50_000))
    until(lambda: "clients                        1" in node.status())
    assert "does not read what it subscribed to" in node.end()


def test_a_client_that_stops_reading_is_replaced_at_once(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    reader, writer = connect(node, "r"), connect(node, "w")
    reader.subscribe("gone")
    deaf = connect(node, will=mqtt5.Will("gone", payload=b"lost"))
    deaf.subscribe("big", max_qos=mqtt5.QoS.AT_MOST_ONCE)
    writer.publish_many("big", 80, bytes(50_000))  # more than sockets hold, less than closes it
    deaf.send(mqtt5.PingReqPacket())
    assert connect(node).connack.reason_code == 0
    assert reader.read().payload == b"lost"
    until(lambda: node.filters() == 1)


def test_properties_count_among_what_waits_for_a_client(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    deaf, writer = connect(node, "deaf", receive_max=1), connect(node, "w")
    deaf.subscribe("a")
    writer.publish_many("a", 100, user_properties=[("k", "v" * 50_000)])
    until(lambda: "clients                        1" in node.status())


def test_made_up_properties_cost_nobody_a_message(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    readers = [connect(other, name) for name in "ab"]
    for reader in readers:
        reader.subscribe("a")
    texts = ('{"expires": Infinity}', '{"response_topic": "+"}', '{"response_topic": "\\ud800"}')
    for text in texts:
        assert one.pubsub("pub", "a", f"mqtt5={text}").returncode == 0
    for reader in readers:
        for _ in texts:
            event = reader.read()
            assert (event.topic, event.message_expiry_interval) == ("a", None)
            assert event.response_topic is None
    assert "defect" not in other.end()


def test_answers_fit_the_client_and_reasons_are_short(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    small = connect(node, max_packet_size=30)
    assert small.connack.reason_code == 0
    answer = small.publish("$SYS/a", **AT_LEAST_ONCE)
    assert (answer.reason_code, answer.reason_str) == (0x90, None)
    quiet = connect(node, "quiet", request_problem_info=False)
    assert quiet.publish("$SYS/a", **AT_LEAST_ONCE).reason_str is None
    client = connect(node, "b")
    long = "$" + "\x01" * 15_000
    assert len(client.publish(long, **AT_LEAST_ONCE).reason_str) <= 500
    assert set(client.subscribe(*("$" + "x" * 1_100 for _ in range(40)))) == {0x83}
    assert connect(node, "c", will=mqtt5.Will(long)).connack.reason_code == 0x90
    assert "defect" not in node.end()


def test_a_wills_lifetime_begins_when_it_is_published(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    reader = connect(node, "r")
    reader.subscribe("gone")
    will = mqtt5.Will("gone", payload=b"x", message_expiry_interval=1)
    lost = connect(node, keep_alive=1, will=will)
    assert lost.read().reason_code == 0x8D  # after 1.5 s
    assert reader.read().message_expiry_interval == 1


def test_a_session_that_is_replaced_while_it_subscribes_leaves_nothing(
    start: Callable[..., Node], connect: Callable[..., Client]
) -> None:
    node = start(1, "flooding")
    with of_version_3(node) as three:
        filters = b"".join(b"\0\4%04d\0" % number for number in range(1_000))
        three.sendall(b"\x82\xda\x36\0\1" + filters)
        until(lambda: node.filters() > 10)
        assert connect(node).connack.reason_code == 0
        until(lambda: node.filters() == 0)
