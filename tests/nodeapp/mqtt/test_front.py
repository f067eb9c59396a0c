"""Clients of MQTT 3.1.1, Debian's Mosquitto, at nodes in two namespaces; bytes else."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

from capture.namespaces import network_namespace
from tests.nodeapp.lab import until
from tests.nodeapp.mqtt.lab import NEEDS, Node, lines
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
    with network_namespace(node.pid):
        client = socket.create_connection(("127.0.0.1", 1883), timeout=20)
    with client:
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
    large = f"30 83 80 04 0001 61 {'00' * 65_536}"
    assert answer(node, CONNECT, large, size=5) == ACCEPTED
    log = node.end()
    for reason in ("retained messages are not kept", "fit, topic included", "clean_session=1"):
        assert reason in log
    assert "Traceback" not in log


def test_a_client_that_is_silent_too_long_is_lost(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    assert answer(node, CONNECT.replace("0000", "0001", 1), size=5) == ACCEPTED
    assert "clients                        0" in node.status()


def test_a_second_client_of_the_same_id_takes_over(start: Callable[..., Node]) -> None:
    node = start(1, "flooding")
    with network_namespace(node.pid):
        first = socket.create_connection(("127.0.0.1", 1883), timeout=20)
    with first:
        first.sendall(bytes.fromhex(CONNECT))
        assert first.recv(4).hex() == ACCEPTED
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
