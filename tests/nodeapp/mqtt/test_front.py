"""Clients of MQTT 3.1.1, Debian's Mosquitto, at nodes in two namespaces; bytes else."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from capture.namespaces import network_namespace
from tests.nodeapp.lab import until
from tests.nodeapp.mqtt.lab import NEEDS, Node, dial, lines
from tests.nodeapp.test_main import Process

pytestmark = NEEDS


def test_wildcards_and_qos_over_flooding(start: Callable[..., Node]) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    wild = other.subscribe("-t", "room/+/heat", "-q", "2", "-C", "3", "-F", "%q %t %p")
    rest = other.subscribe("-t", "room/#", "-t", "room/1/#", "-C", "4", "-F", "%q %t %p")
    own = one.subscribe("-t", "#", "-C", "4", "-F", "%t")
    assert "clients                        2" in other.status()
    topics = [("room/1/heat", 0), ("room/1/light", 1), ("room/2/heat", 1), ("room/2/heat", 2)]
    for number, (topic, qos) in enumerate(topics):
        assert one.publish("-t", topic, "-q", str(qos), "-m", f"{number} °C") == ""
    assert lines(wild) == ["0 room/1/heat 0 °C", "1 room/2/heat 2 °C", "2 room/2/heat 3 °C"]
    assert lines(rest) == [f"0 {topic} {n} °C" for n, (topic, _) in enumerate(topics)]
    assert lines(own) == [topic for topic, _ in topics]
    until(lambda: other.filters() == 0 and "subscriptions: none" in other.status())
    for node in (one, other):
        log = node.end()
        assert "defect" not in log
        assert "Traceback" not in log


def test_a_topic_protocol_refuses_wildcards_alone(start: Callable[..., Node]) -> None:
    one, other = start(1, "broker-gpsr"), start(2, "broker-gpsr")
    until(lambda: "\n  2 " in one.status() and "\n  1 " in other.status())
    told = other.mosquitto("sub", "-t", "room/#", "-d").communicate(timeout=20)[0]
    assert "Subscribed (mid: 1): 128" in told
    reader = other.subscribe("-t", "room/1", "-q", "1", "-C", "1", "-F", "%q %t %p")
    until(lambda: "stored subscriptions: 1" in one.status() + other.status())
    assert one.publish("-t", "room/1", "-q", "2", "-m", "warm") == ""
    assert lines(reader) == ["1 room/1 warm"]
    assert "room/#" in other.end()


def test_wills_are_sent_when_a_client_is_lost(start: Callable[..., Node]) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    reader = other.subscribe("-t", "gone", "-q", "1", "-C", "1", "-F", "%q %p")
    will = ("--will-topic", "gone", "--will-payload", "lost", "--will-qos", "1")
    one.subscribe("-t", "a", *will).kill()
    assert lines(reader) == ["1 lost"]


def answer(node: Node, *packets: str, size: int = 4) -> str:
    """Return the first bytes that come back for packets (hexadecimal digits); none at the end."""
    with dial(node) as client:
        return exchanged(client, *packets, size=size)


def exchanged(client: socket.socket, *packets: str, size: int = 4) -> str:
    for packet in packets:
        client.sendall(bytes.fromhex(packet))
    received = b""
    while len(received) < size and (more := client.recv(size - len(received))):
        received += more
    return received.hex()


CONNECT = "100d 0004 4d515454 04 02 0000 0001 61"
"""Of client a, which begins a new session."""
ACCEPTED = "20020000"


def test_what_cannot_be_right_is_refused_by_codes(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    assert answer(node, "100d 0004 4d515454 06 02 0000 0001 61") == "20020001"  # version 6
    assert answer(node, CONNECT) == ACCEPTED
    assert answer(node, "100d 0004 4d515454 04 00 0000 0001 61") == "20020005"  # its session stays
    will = "1013 0004 4d515454 04 26 0000 0001 61 0001 67 0001 68"
    assert answer(node, will) == "20020005"  # and is retained
    for refused in ("$share/group/a", "$SYS/#"):
        told = node.mosquitto("sub", "-t", refused, "-d").communicate(timeout=20)[0]
        assert "Subscribed (mid: 1): 128" in told
    # PUBLISH, retained: the connection is closed; without, a ping is answered.
    assert answer(node, CONNECT, "3104 0001 61 78", size=5) == ACCEPTED
    assert answer(node, CONNECT, "3004 0001 61 78", "c000", size=6) == ACCEPTED + "d000"
    for length, size in (("abbd03", 57_000), ("838004", 65_536)):
        large = f"30 {length} 0001 61 {'00' * size}"
        assert answer(node, CONNECT, large, size=5) == ACCEPTED
    log = node.end()
    for reason in ("are not kept", "fit, topic included", "60000 bytes at most", "clean_session=1"):
        assert reason in log
    assert "Traceback" not in log


def test_malformed_packets_end_the_connection(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    for packet in (
        "3008 0004 6772fc6e 7879",  # a topic that is not UTF-8, ...
        "8209 0001 0004 6772fc6e 00",  # and such a filter
        "3005 0003 612f2b",  # on a wildcard
        "3606 0001 61 0007 78",  # at quality 3
        "8206 0001 0001 61 03",  # to subscribe at it
        "8202 0001",  # no filter
        "8006 0001 0001 61 00",  # without its flags
        "8206 0000 0001 61 00",  # identifier 0
        "f000",
    ):
        assert answer(node, CONNECT, packet, "c000", size=5) == ACCEPTED, packet
    for connect in (
        "100d 0004 4d515454 04 03 0000 0001 61",  # its reserved flag
        "1013 0004 4d515454 04 1e 0000 0001 61 0001 67 0001 68",  # a will at quality 3
        "1010 0004 4d515454 04 42 0000 0001 61 0001 70",  # a password without a user
    ):
        assert answer(node, connect) == "", connect
    log = node.end()
    assert "Traceback" not in log
    assert "defect" not in log


@pytest.mark.parametrize("rest", ["", "30 20 00"], ids=["whole", "in a packet"])
def test_a_client_that_is_silent_too_long_is_lost(start: Callable[..., Node], rest: str) -> None:
    node = start(1, "flooding")
    assert answer(node, CONNECT.replace("0000", "0001", 1), rest, size=5) == ACCEPTED
    until(lambda: "clients                        0" in node.status())


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_all_arrives_of_a_client_that_publishes_and_goes(
    start: Callable[..., Node], qos: str
) -> None:
    node = start(1, "flooding")
    reader = node.subscribe("-t", "x", "-q", qos, "-C", "200")
    writer = node.mosquitto("pub", "-t", "x", "-q", qos, "-l")
    told, _ = writer.communicate("".join(f"{number}\n" for number in range(200)), timeout=20)
    assert (told, writer.returncode) == ("", 0)
    assert lines(reader) == [str(number) for number in range(200)]


def test_a_burst_that_waited_for_the_node_reaches_its_clients(start: Callable[..., Node]) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    reader = other.subscribe("-t", "x", "-C", "600")
    other.process.send_signal(signal.SIGSTOP)
    numbers = [str(number) for number in range(600)]
    one.mosquitto("pub", "-t", "x", "-q", "1", "-l").communicate("\n".join(numbers), timeout=20)
    other.process.send_signal(signal.SIGCONT)
    assert lines(reader) == numbers


def test_packets_are_taken_in_their_order(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    subscribe, unsubscribe = "8206 0001 0001 61 00", "a205 0002 0001 61"
    event = "3003 0001 61"
    told = answer(node, CONNECT, subscribe + unsubscribe + subscribe + event, size=23)
    granted = "9003 0001 00".replace(" ", "")
    assert told == f"{ACCEPTED}{granted}b0020002{granted}30030001" + "61"


def test_a_message_before_the_end_of_a_client_is_published_and_its_will_is_not(
    start: Callable[..., Node],
) -> None:
    node = start(1, "flooding")
    reader = node.subscribe("-t", "#", "-C", "2", "-F", "%t")
    will = "1013 0004 4d515454 04 06 0000 0001 61 0001 67 0001 68"
    assert answer(node, will + "3003 0001 61" + "e000", size=5) == ACCEPTED
    assert node.publish("-t", "last", "-m", "") == ""
    assert lines(reader) == ["a", "last"]


def test_a_client_that_is_refused_displaces_nobody(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    with dial(node) as first:
        assert exchanged(first, CONNECT) == ACCEPTED
        stays = "100d 0004 4d515454 04 00 0000 0001 61"
        assert answer(node, stays) == "20020005"
        assert exchanged(first, "c000", size=2) == "d000"
    assert answer(node, "100c 0004 4d515454 04 00 0000 0000") == "20020002"  # without a name


def test_a_client_that_does_not_read_is_closed(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    with dial(node) as deaf:
        subscribe = "8206 0001 0001 61 00"
        assert exchanged(deaf, CONNECT, subscribe, size=9) == f"{ACCEPTED}9003000100"
        large = f"{'x' * 50_000}\n"
        until(lambda: node.mosquitto("pub", "-t", "a", "-l").communicate(100 * large))
        for _ in range(2):  # what its socket takes, and what may wait for it
            node.mosquitto("pub", "-t", "a", "-l").communicate(100 * large, timeout=20)
        until(lambda: node.filters() == 0)
    assert "does not read what it subscribed to" in node.end()


def test_a_second_client_of_the_same_id_takes_over(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    with dial(node) as first:
        assert exchanged(first, CONNECT) == ACCEPTED
        assert answer(node, CONNECT) == ACCEPTED
        assert first.recv(1) == b""


def test_a_port_in_use_is_told_in_one_line(pair: list[int]) -> None:
    with network_namespace(pair[0]), closing(socket.socket()) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 1883))
        holder.listen()
        node = Process(pair[0], 1, "flooding", "--mqtt")
        _, log = node.process.communicate(timeout=20)
    assert node.process.returncode == 1
    last = log.splitlines()[-1]
    assert last.startswith("nodeapp: cannot serve clients of MQTT on 127.0.0.1, TCP port 1883")
    assert "address already in use" in last
