"""The asyncio host: the contract and the process, in network namespaces; parts of it without."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.namespaces import network_namespace
from nodeapp import gps, wire
from nodeapp.events import Event, Subscription
from nodeapp.events import Filter as EventFilter
from nodeapp.host import Position
from nodeapp.node import (
    Node,
    NodeError,
    NodeOptions,
    check,
    open_client_port,
    open_radio,
    read_map,
)
from nodeapp.pubsub.base import Environment
from nodeapp.wire import CLIENT_PORT, NODE_PORT, Frame, Kind
from tests.nodeapp.host_contract import HostContract, World
from tests.nodeapp.lab import INTERFACE, configure, inside, namespaces, until
from tests.nodeapp.strategies import HOSTILE_CBOR
from tests.nodeapp.test_network import Recorder

PROJECT = Path(__file__).parents[2]
ENVIRONMENT = Environment((0.0, 0.0, 1000.0, 1000.0), 250.0)


def options(node_id: int, protocol: str = "flooding", **other: Any) -> NodeOptions:
    return NodeOptions(node_id, "lo", protocol, ENVIRONMENT, **{"position": (0.0, 0.0)} | other)


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
            node.service = Recorder(heard)
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


@pytest.fixture(scope="module")
def pair() -> Iterator[list[int]]:
    with namespaces(2) as pids:
        yield pids


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
@pytest.mark.parametrize("kind", [Kind.EVENT, Kind.SUBSCRIPTION, Kind.HELLO])
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


class Process:
    """`python -m nodeapp` in a namespace."""

    def __init__(self, pid: int, node_id: int, protocol: str, *more: str) -> None:
        self.pid = pid
        arguments = ("--id", str(node_id), "--interface", INTERFACE, "--protocol", protocol, *more)
        self.process = subprocess.Popen(
            inside(pid, sys.executable, "-m", "nodeapp", *arguments),
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )

    def pubsub(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            inside(self.pid, sys.executable, "-m", "nodeapp.client", *arguments),
            capture_output=True,
            text=True,
            cwd=PROJECT,
            timeout=30,
            check=False,
        )

    def subscriber(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            inside(self.pid, sys.executable, "-m", "nodeapp.client", "sub", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )

    def status(self) -> str:
        return self.pubsub("status").stdout

    def end(self) -> str:
        """Stop the node, which must be running, and return what it logged."""
        assert self.process.poll() is None
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=10)
        assert self.process.returncode == 0
        return str(log)


@pytest.fixture
def start(pair: list[int]) -> Iterator[Callable[..., Process]]:
    """Yield a function that starts a node, 1 or 2, and waits until it answers."""
    started: list[Process] = []

    def make(node_id: int, protocol: str, *more: str, answers: bool = True) -> Process:
        process = Process(pair[node_id - 1], node_id, protocol, *more)
        started.append(process)
        if answers:
            until(lambda: process.pubsub("status").returncode == 0)
        return process

    yield make
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.mark.root
@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr"])
def test_processes_publish_and_subscribe(start: Callable[..., Process], protocol: str) -> None:
    one = start(1, protocol, "--position", "0,0")
    other = start(2, protocol, "--position", "100,0", "--set", "ttl=9")
    if protocol == "broker-gpsr":
        until(lambda: "\n  2 " in one.status() and "\n  1 " in other.status())
    reader = other.subscriber("traffic", "speed>10", "--attr", "role=police", "--count", "2")
    until(lambda: "traffic 'speed>10'" in other.status())
    if protocol == "broker-gpsr":
        until(lambda: "stored subscriptions: 1" in one.status())
    for words in (["speed=5"], ["speed=12"], ["speed=13", "--policy", "role=press"], ["speed=14"]):
        assert one.pubsub("pub", "traffic", *words).returncode == 0
    out, err = reader.communicate(timeout=15)
    told = [
        re.fullmatch(r"traffic speed=(\d+)  \(node 1, (\d+) hops?\)", x) for x in out.splitlines()
    ]
    assert [match and match[1] for match in told] == ["12", "14"]
    assert reader.returncode == 0, err
    until(lambda: "subscriptions: none" in other.status())
    for process in (one, other):
        log = process.end()
        assert "defect" not in log
        assert "Traceback" not in log


@pytest.mark.root
def test_subscriptions_end_by_ctrl_c_and_by_unsub(start: Callable[..., Process]) -> None:
    node = start(1, "flooding")
    reader, other = node.subscriber("traffic"), node.subscriber("weather")
    until(lambda: "subscriptions: traffic, weather" in node.status())
    reader.send_signal(signal.SIGINT)
    _, err = reader.communicate(timeout=10)
    assert (reader.returncode, "Traceback" in err) == (0, False)
    until(lambda: "subscriptions: weather" in node.status())
    assert node.pubsub("unsub", "weather").returncode == 0
    _, err = other.communicate(timeout=10)
    assert (other.returncode, "ended by 'pubsub unsub'" in err) == (0, True)
    refused = node.pubsub("unsub", "weather")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    node.end()
    nobody = node.pubsub("status")
    assert nobody.returncode == 1
    assert nobody.stderr.startswith("pubsub: no node answers")
    assert nobody.stderr.count("\n") == 1


@pytest.mark.root
@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr"])
def test_random_bytes_from_a_neighbour_and_a_client_do_no_harm(
    start: Callable[..., Process], pair: list[int], protocol: str
) -> None:
    node = start(1, protocol, "--position", "0,0")
    rng = random.Random(1)
    datagrams = [rng.randbytes(rng.randrange(80)) for _ in range(500)]
    for kind in Kind:
        frames = [Frame(kind, 2, 1, 2, 3, ttl=3, body=body).encode() for body in HOSTILE_CBOR]
        datagrams += frames
    with network_namespace(pair[1]):
        neighbour = open_radio(INTERFACE)
    with network_namespace(pair[0]):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for datagram in datagrams:
        neighbour.sendto(datagram, ("10.0.0.1", NODE_PORT))
        client.sendto(datagram, ("127.0.0.1", CLIENT_PORT))
    until(lambda: "malformed" in node.status())
    assert node.pubsub("pub", "traffic").returncode == 0
    neighbour.close()
    client.close()
    log = node.end()
    assert "defect" not in log


@pytest.mark.root
def test_a_radio_that_goes_down_and_comes_back_is_survived(
    start: Callable[..., Process], pair: list[int]
) -> None:
    one, other = start(1, "flooding"), start(2, "flooding")
    reader = other.subscriber("traffic", "--count", "1")
    until(lambda: "subscriptions: traffic" in other.status())
    configure(pair[0], "ip", "link", "set", INTERFACE, "down")
    assert one.pubsub("pub", "traffic").returncode == 0
    until(lambda: "send failed: ENET" in one.status())
    configure(pair[0], "ip", "link", "set", INTERFACE, "up")
    until(lambda: one.pubsub("pub", "traffic").returncode == 0 and reader.poll() is not None)
    reader.communicate(timeout=5)
    one.end()
    other.end()


@pytest.mark.root
def test_a_second_node_in_a_namespace_is_told_so(start: Callable[..., Process]) -> None:
    node = start(1, "flooding")
    second = start(1, "flooding", answers=False)
    _, err = second.process.communicate(timeout=10)
    assert second.process.returncode == 1
    assert "another node runs here" in err
    assert "Traceback" not in err
    node.end()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--interface", "nosuch0"], "cannot use interface nosuch0"),
        (["--id", "0"], "not a node id"),
        (["--id", "16777215"], "not a node id"),
        (["--protocol", "smoke"], "invalid choice"),
        (["--set", "speed=1"], "there are: ttl, max_jitter"),
        (["--set", "ttl=0"], "below 1"),
        (["--set", "ttl"], "not name=value"),
        (["--position", "1"], "not x,y in metres"),
        (["--position", "nan,1"], "not x,y in metres"),
        (["--area", "0,0,0,5"], "x0 must be below x1"),
        (["--range", "-1"], "must be above 0"),
        (["--origin", "95,0"], "latitude"),
        (["--gpsd", "here:port"], "not host:port"),
        (["--gpsd", "localhost", "--position", "1,1"], "not allowed with"),
        (["--protocol", "broker-gpsr"], "give --gpsd or --position"),
        (["--protocol", "broker-gpsr-map", "--position", "1,1"], "give --map"),
        (["--protocol", "broker-aodv"], "give --nodes"),
        (["--nodes", "0"], "not a number of nodes"),
        (["--map", "/nonexistent/map.json"], "cannot read the map /nonexistent/map.json: No such"),
    ],
)
def test_bad_options_end_in_one_line_that_says_what_to_do(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from nodeapp.__main__ import main

    usual = ["--id", "1", "--interface", "lo", "--protocol", "flooding"]
    try:
        code = main([*usual, *arguments])
    except SystemExit as error:  # of argparse
        code = int(str(error.code))
    assert code != 0
    err = capsys.readouterr().err
    assert told in err.splitlines()[-1]


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


class Desk:
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
        return self.ask(Frame(Kind.STATUS, 3, 0))

    def close(self) -> None:
        self.node.close()
        self.client.close()


@pytest.fixture
def desks(loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    made: list[Desk] = []

    def make(**settings: Any) -> Desk:
        made.append(Desk(loop, **settings))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


def test_a_node_without_a_fix_says_so_and_starts_at_the_first_one(desks: Any) -> None:
    desk = desks(protocol="broker-gpsr", position=None, gpsd=("127.0.0.1", 1))
    event = Event(1, 1, {"topic": "traffic"})
    publish = Frame(Kind.PUBLISH, 4, 0, 1, 1, body=event.encode())
    assert "does not know its position yet" in desk.ask(publish)
    assert desk.status()["position"] is None
    desk.node.fix(Position(5.0, 6.0))
    assert desk.ask(publish) is None
    assert desk.status()["position"] == [5.0, 6.0]


def test_a_fix_is_carried_on_along_its_velocity_for_a_while(
    desks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desks()
    start = desk.loop.time()
    desk.node.fix(Position(100.0, 0.0, 10.0, -5.0))
    monkeypatch.setattr(desk.loop, "time", lambda: start + 1.0)
    assert desk.node.position()[:2] == pytest.approx((110.0, -5.0), abs=0.1)
    monkeypatch.setattr(desk.loop, "time", lambda: start + 60.0)
    assert desk.node.position()[:2] == pytest.approx((120.0, -10.0), abs=0.1)


def test_a_defect_in_a_protocol_is_logged_with_its_frame_and_survived(
    desks: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desks()
    publish = Frame(Kind.PUBLISH, 4, 0, 1, 1, body=Event(1, 1, {"topic": "a"}).encode())

    def defective(event: Event) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(desk.node.service, "disseminate", defective)
    with caplog.at_level(logging.ERROR):
        desk.client.send(publish.encode())
        assert desk.status()["host counters"] == {"internal errors": 1}
    assert publish.encode().hex() in caplog.text
    assert "ZeroDivisionError" in caplog.text
    desk.node.call_later(0, defective, None)
    desk.status()
    assert desk.status()["host counters"]["internal errors"] == 2


@pytest.mark.parametrize("number", ["ENOBUFS", "ENETDOWN", "EPERM", "EAGAIN"])
def test_what_the_kernel_does_not_send_is_counted(
    desks: Any, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    class Deaf:
        def sendmsg(self, *_: object) -> int:
            raise OSError(getattr(errno, number), "no")

    desk = desks()
    monkeypatch.setattr(desk.node, "_radio", Deaf())
    desk.node.send(2, b"lost")
    monkeypatch.undo()
    assert desk.status()["host counters"] == {f"send failed: {number}": 1}


def test_a_client_that_vanished_is_no_trouble(desks: Any) -> None:
    desk = desks()
    gone = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gone.connect(desk.client.getpeername())
    body = Subscription(EventFilter()).encode()
    gone.send(Frame(Kind.SUBSCRIBE, 1, 0, 0, 1, body=body).encode())
    desk.status()
    gone.close()
    for sequence in range(1, 4):
        event = Event(1, sequence, {"topic": "a"})
        desk.ask(Frame(Kind.PUBLISH, 4, 0, 1, sequence, body=event.encode()))
    assert desk.status()["clients"] == 1


def test_datagrams_from_elsewhere_are_counted_and_ignored(desks: Any) -> None:
    desk = desks()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        port = desk.node._radio.getsockname()[1]
        stranger.sendto(Frame(Kind.EVENT, 1).encode(), ("127.0.0.1", port))
    counters: dict[str, int] = {}
    for _ in range(50):
        counters = desk.status()["host counters"]
        if counters:
            break
    assert counters == {"foreign or early": 1}


def test_a_node_follows_gpsd(desks: Any, loop: asyncio.AbstractEventLoop) -> None:
    desk = desks(protocol="broker-gpsr", position=None, gpsd=("127.0.0.1", 1))

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(gps.encode_report(Position(12.0, 34.0), gps.Plane()))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        follow = gps.follow("127.0.0.1", port, gps.Plane(), desk.node.fix)
        following = asyncio.create_task(follow)
        while desk.node.position() == Position(0.0, 0.0):
            await asyncio.sleep(0.01)
        following.cancel()
        server.close()

    loop.run_until_complete(asyncio.wait_for(scenario(), 10))
    assert desk.status()["position"] == pytest.approx([12.0, 34.0], abs=1e-3)


def test_an_interface_that_cannot_tell_of_broken_links_is_not_asked_to() -> None:
    options = NodeOptions(
        1,
        "lo",
        "broker-aodv",
        Environment((0, 0, 1, 1), 250, nodes=2),
        {"link_feedback": "true"},
    )
    with pytest.raises(NodeError, match=r"lo is no Wi-Fi interface.*leave link_feedback off"):
        check(options)


def test_an_interface_that_does_not_exist_is_named() -> None:
    with pytest.raises(NodeError, match="nosuch0"):
        open_radio("nosuch0")
