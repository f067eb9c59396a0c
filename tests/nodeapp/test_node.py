"""The asyncio host: the contract, in network namespaces; parts of it without."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.namespaces import network_namespace
from nodeapp import gps, wire
from nodeapp.events import Event, Subscription
from nodeapp.events import Filter as EventFilter
from nodeapp.host import Position
from nodeapp.kinds import ClientKind, CommonKind, Kind
from nodeapp.node import (
    Node,
    NodeError,
    NodeOptions,
    check,
    open_client_port,
    open_radio,
    read_brokers,
    read_map,
)
from nodeapp.pubsub.base import EndedError, Environment
from nodeapp.pubsub.flooding import Flooding
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.registry import typed
from nodeapp.wire import CLIENT_PORT, Frame
from tests.nodeapp.host_contract import HostContract, World
from tests.nodeapp.lab import INTERFACE
from tests.nodeapp.test_network import DatagramKeeper

ENVIRONMENT = Environment((0.0, 0.0, 1000.0, 1000.0), 250.0)


def options(node_id: int, protocol: str = "flooding", **other: Any) -> NodeOptions:
    defaults = {"parameters": typed(protocol, {}), "position": (0.0, 0.0)}
    return NodeOptions(node_id, "lo", protocol, ENVIRONMENT, **defaults | other)


class AsyncioWorld(World):
    def __init__(self, pids: list[int], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.nodes = []
        self.hosts = []
        self.received = [[], []]
        self.told = [[], []]
        self.clients = []
        for number, (pid, heard, told) in enumerate(
            zip(pids, self.received, self.told, strict=True), start=1
        ):
            with network_namespace(pid):
                node = Node(options(number), loop, open_radio(INTERFACE), open_client_port())
                client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                client.connect(("127.0.0.1", CLIENT_PORT))
            node.service = DatagramKeeper(heard)
            node.start()
            loop.add_reader(client, self._hear, client, told)
            self.nodes.append(node)
            self.hosts.append(node)
            self.clients.append(client)

    def _hear(self, client: socket.socket, told: list[Frame]) -> None:
        told.append(wire.decode(client.recv(65_535)))

    def request(self, index: int, datagram: bytes) -> None:
        self.clients[index].send(datagram)

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def close(self) -> None:
        for node, client in zip(self.nodes, self.clients, strict=True):
            node.close()
            self.loop.remove_reader(client)
            client.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.root
class TestAsyncioHost(HostContract):
    @pytest.fixture
    def world(self, pair: list[int], loop: asyncio.AbstractEventLoop) -> Iterator[World]:
        world = AsyncioWorld(pair, loop)
        yield world
        world.close()


@pytest.mark.root
@pytest.mark.parametrize("kind", [CommonKind.EVENT, TopicKind.SUBSCRIPTION, CommonKind.HELLO])
def test_the_ds_field_has_the_class_of_the_message(
    pair: list[int], loop: asyncio.AbstractEventLoop, kind: Kind
) -> None:
    datagram = Frame(kind, 1).encode()
    with network_namespace(pair[0]):
        node = Node(options(1), loop, open_radio(INTERFACE), open_client_port())
    with network_namespace(pair[1]):
        neighbour = open_radio(INTERFACE)
    neighbour.settimeout(5.0)
    neighbour.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    try:
        for to in (2, wire.BROADCAST):
            node.send(to, datagram)
            received, about, _, _ = neighbour.recvmsg(2048, 64)
            assert received == datagram
            ((_, _, ds_field),) = about
            assert ds_field[0] == wire.traffic_class(datagram) << 2
        assert not node.counters
    finally:
        node.start()
        node.close()
        neighbour.close()


@pytest.mark.parametrize(
    "text",
    ["", "[1", "[]", "{}", '{"waypoints": []}', '{"waypoints": 3}', '{"waypoints": [[1]]}',
     '{"waypoints": [[1, null]]}', '{"waypoints": [[1, NaN]]}', '{"waypoints": [[1, 1e999]]}',
     '{"waypoints": [[1, "far"]]}', '{"waypoints": [5, 6]}', "\xff", "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_no_map_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "map.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(NodeError, match=r"map.json is not a map: it must say") as error:
        read_map(path)
    assert "\n" not in str(error.value)


def test_a_map_is_read(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"waypoints": [[0, 1.5], [-20, 30]], "name": "town"}')
    assert read_map(path) == ((0.0, 1.5), (-20.0, 30.0))


def test_brokers_have_ids_that_have_addresses(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    path.write_text('{"range": 50, "brokers": [[16777214, 0, 1.5]]}')
    assert read_brokers(path) == (50.0, ((16_777_214, 0.0, 1.5),))
    for node in (0, 16_777_215):
        path.write_text(f'{{"range": 50, "brokers": [[{node}, 0, 1.5]]}}')
        with pytest.raises(NodeError, match=r"brokers.json does not list brokers"):
            read_brokers(path)


class LoopbackNode:
    """A node on the loopback interface with ports of its own; its radio reaches nobody."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        self.loop = loop
        port = open_client_port(0)
        self.node = Node(options(1, **settings), loop, open_radio("lo", 0), port)
        self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.client.connect(port.getsockname())
        self.client.setblocking(False)
        self.node.start()

    def ask(self, frame: Frame) -> Any:
        self.client.send(frame.encode())
        reply = wire.decode(self.loop.run_until_complete(self.loop.sock_recv(self.client, 65_535)))
        assert reply.originator == frame.originator
        return wire.decode_body(reply.body)

    def status(self) -> Any:
        return self.ask(Frame(ClientKind.STATUS, 3, 0))

    def close(self) -> None:
        self.node.close()
        self.client.close()


@pytest.fixture
def nodes(loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    made: list[LoopbackNode] = []

    def make(**settings: Any) -> LoopbackNode:
        made.append(LoopbackNode(loop, **settings))
        return made[-1]

    yield make
    for lone in made:
        lone.close()


def test_a_node_without_a_fix_says_so_and_starts_at_the_first_one(nodes: Any) -> None:
    lone = nodes(protocol="broker-gpsr", position=None, gpsd=("127.0.0.1", 1))
    event = Event(1, 1, {"topic": "traffic"})
    publish = Frame(ClientKind.PUBLISH, 4, 0, 1, 1, body=event.encode())
    assert "does not know its position yet" in lone.ask(publish)
    assert lone.status()["position"] is None
    lone.node.fix(Position(5.0, 6.0))
    assert lone.ask(publish) is None
    assert lone.status()["position"] == [5.0, 6.0]


def test_a_fix_is_carried_on_along_its_velocity_for_a_while(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = nodes()
    start = lone.loop.time()
    lone.node.fix(Position(100.0, 0.0, 10.0, -5.0))
    monkeypatch.setattr(lone.loop, "time", lambda: start + 1.0)
    assert lone.node.position()[:2] == pytest.approx((110.0, -5.0), abs=0.1)
    monkeypatch.setattr(lone.loop, "time", lambda: start + 60.0)
    assert lone.node.position()[:2] == pytest.approx((120.0, -10.0), abs=0.1)


def test_a_defect_in_a_protocol_is_logged_with_its_frame_and_survived(
    nodes: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = nodes()
    publish = Frame(ClientKind.PUBLISH, 4, 0, 1, 1, body=Event(1, 1, {"topic": "a"}).encode())

    def defective(event: Event) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(lone.node.service, "disseminate", defective)
    with caplog.at_level(logging.ERROR):
        lone.client.send(publish.encode())
        assert lone.status()["host counters"] == {"internal errors": 1}
    assert publish.encode().hex() in caplog.text
    assert "ZeroDivisionError" in caplog.text
    lone.node.call_later(0, defective, None)
    lone.status()
    assert lone.status()["host counters"]["internal errors"] == 2


def test_a_node_survives_a_defect_at_its_start_and_ends_if_its_service_cannot_go_on(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(service: Flooding) -> None:
        raise ZeroDivisionError

    def ends(service: Flooding) -> None:
        raise EndedError("no port is free")

    monkeypatch.setattr(Flooding, "start", fails)
    with caplog.at_level(logging.ERROR):
        assert nodes().status()["host counters"] == {"internal errors": 1}
    assert "defect at the start" in caplog.text
    monkeypatch.setattr(Flooding, "start", ends)
    assert str(nodes().node.ended.exception()) == "no port is free"


@pytest.mark.parametrize("number", ["ENOBUFS", "ENETDOWN", "EPERM", "EAGAIN"])
def test_what_the_kernel_does_not_send_is_counted(
    nodes: Any, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    class Deaf:
        def sendmsg(self, *_: object) -> int:
            raise OSError(getattr(errno, number), "no")

    lone = nodes()
    monkeypatch.setattr(lone.node, "_radio", Deaf())
    lone.node.send(2, b"lost")
    monkeypatch.undo()
    assert lone.status()["host counters"] == {f"send failed: {number}": 1}


def test_a_node_that_can_have_no_address_is_no_neighbour(nodes: Any) -> None:
    lone = nodes()
    for to in (0, 2**32 - 2):
        lone.node.send(to, b"lost")
    assert lone.status()["host counters"] == {"send failed: no such neighbour": 2}


def test_a_client_that_vanished_is_no_trouble(nodes: Any) -> None:
    lone = nodes()
    gone = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gone.connect(lone.client.getpeername())
    body = Subscription(EventFilter()).encode()
    gone.send(Frame(ClientKind.SUBSCRIBE, 1, 0, 0, 1, body=body).encode())
    lone.status()
    gone.close()
    for sequence in range(1, 4):
        event = Event(1, sequence, {"topic": "a"})
        lone.ask(Frame(ClientKind.PUBLISH, 4, 0, 1, sequence, body=event.encode()))
    assert lone.status()["clients"] == 1


def test_datagrams_from_elsewhere_are_counted_and_ignored(nodes: Any) -> None:
    lone = nodes()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        port = lone.node._radio.getsockname()[1]
        stranger.sendto(Frame(CommonKind.EVENT, 1).encode(), ("127.0.0.1", port))
    counters: dict[str, int] = {}
    for _ in range(50):
        counters = lone.status()["host counters"]
        if counters:
            break
    assert counters == {"foreign or early": 1}


def test_a_node_follows_gpsd(nodes: Any, loop: asyncio.AbstractEventLoop) -> None:
    lone = nodes(protocol="broker-gpsr", position=None, gpsd=("127.0.0.1", 1))

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(gps.encode_report(Position(12.0, 34.0), gps.Plane()))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        follow = gps.follow("127.0.0.1", port, gps.Plane(), lone.node.fix)
        following = asyncio.create_task(follow)
        while lone.node.position() == Position(0.0, 0.0):
            await asyncio.sleep(0.01)
        following.cancel()
        server.close()

    loop.run_until_complete(asyncio.wait_for(scenario(), 10))
    assert lone.status()["position"] == pytest.approx([12.0, 34.0], abs=1e-3)


def test_an_interface_that_cannot_tell_of_broken_links_is_not_asked_to() -> None:
    options = NodeOptions(
        1,
        "lo",
        "broker-aodv",
        Environment((0, 0, 1, 1), 250, nodes=2),
        typed("broker-aodv", {"link_feedback": "true"}),
    )
    with pytest.raises(NodeError, match=r"lo is no Wi-Fi interface.*leave link_feedback off"):
        check(options)


@pytest.mark.parametrize("parameter", ["promiscuous", "withdraw_queue"])
def test_what_a_socket_cannot_do_is_refused_with_the_backend_that_can(parameter: str) -> None:
    options = NodeOptions(
        1,
        "lo",
        "broker-gpsr",
        Environment((0, 0, 1, 1), 250),
        typed("broker-gpsr", {parameter: "true"}),
        position=(0.0, 0.0),
    )
    with pytest.raises(NodeError, match=rf"{parameter}: a UDP socket .* use the backend virtual"):
        check(options)


def test_a_key_is_refused_for_what_has_sockets_of_its_own() -> None:
    field = Environment((0, 0, 1, 1), 250, nodes=2)
    options = NodeOptions(1, "lo", "mqtt", field, typed("mqtt", {}), key=bytes(32))
    with pytest.raises(NodeError, match=r"^mqtt has sockets of its own.*: leave out --key-file$"):
        check(options)


def test_an_interface_that_does_not_exist_is_named() -> None:
    with pytest.raises(NodeError, match="nosuch0"):
        open_radio("nosuch0")
