"""`python -m nodeapp` and the pubsub command as processes, in network namespaces; options."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capture.namespaces import network_namespace
from nodeapp.__main__ import run_exactly
from nodeapp.client import Client, ClientError, status_lines
from nodeapp.node import open_radio
from nodeapp.pubsub.registry import kinds
from nodeapp.wire import CLIENT_PORT, NODE_PORT, Frame
from tests.nodeapp.lab import INTERFACE, configure, inside, until
from tests.nodeapp.strategies import HOSTILE_CBOR

PROJECT = Path(__file__).parents[2]


class Commands:
    """The `pubsub` command in a node's namespace."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._subscribers: list[subprocess.Popen[str]] = []

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
        subscriber = subprocess.Popen(
            inside(self.pid, sys.executable, "-m", "nodeapp.client", "sub", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )
        self._subscribers.append(subscriber)
        return subscriber

    def status(self) -> str:
        """Return what `pubsub status` shows, "" if no node answers, without starting it."""
        try:
            with network_namespace(self.pid), Client() as client:
                return "\n".join(status_lines(client.status()))
        except ClientError:
            return ""

    def kill(self) -> None:
        """End every subscriber that is left, if the test did not."""
        for subscriber in self._subscribers:
            if subscriber.poll() is None:
                subscriber.kill()
                subscriber.communicate()


class Process(Commands):
    """`python -m nodeapp` in a namespace."""

    def __init__(self, pid: int, node_id: int, protocol: str, *more: str) -> None:
        super().__init__(pid)
        arguments = ("--id", str(node_id), "--interface", INTERFACE, "--protocol", protocol, *more)
        self.process = subprocess.Popen(
            inside(pid, sys.executable, "-m", "nodeapp", *arguments),
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )

    def kill(self) -> None:
        super().kill()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

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
            until(process.status)
        return process

    yield make
    for each in started:
        each.kill()


@pytest.mark.root
@pytest.mark.parametrize("protocol", ["flooding", "broker-gpsr"])
def test_processes_publish_and_subscribe(start: Callable[..., Process], protocol: str) -> None:
    one = start(1, protocol, "--position", "0,0")
    other = start(2, protocol, "--position", "100,0", "--set", "ttl=9")
    if protocol == "broker-gpsr":
        until(lambda: "\n  2 " in one.status() and "\n  1 " in other.status())
    reader = other.subscriber("traffic", "speed>10", "--attr", "role=police", "--count", "2")
    until(lambda: "traffic 'speed>10'" in other.status())
    assert f"protocol: {protocol}\n" in other.pubsub("status").stdout
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
    for kind in kinds().values():
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
        (["--protocol", "semi-probabilistic"], "give --gpsd or --position"),
        (["--protocol", "broker-gpsr-map", "--position", "1,1"], "give --map"),
        (["--protocol", "broker-aodv"], "give --nodes"),
        (["--nodes", "0"], "not a number of nodes"),
        (["--protocol", "mqtt-bridged", "--set", "brokers=a"], "give node ids"),
        (["--protocol", "mqtt", "--nodes", "4", "--set", "broker=9"], "there is no node 9"),
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


def test_timers_end_within_a_fraction_of_a_millisecond() -> None:
    late: list[float] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        for number in range(60):
            due = loop.time() + 0.0012 + 0.00001 * number
            ended = loop.create_future()
            loop.call_at(due, ended.set_result, None)
            await ended
            late.append(loop.time() - due)

    run_exactly(wait())
    assert 0.0 <= min(late) < 0.0002  # rounded up to 2 ms, all would be later


def test_what_arrives_is_read_while_a_timer_runs() -> None:
    one, other = socket.socketpair()
    found: list[bytes] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        read = loop.create_future()
        loop.add_reader(one, lambda: read.set_result(one.recv(10)))
        loop.call_later(0.005, other.send, b"x")
        timer = loop.call_later(60.0, read.cancel)
        found.append(await read)
        timer.cancel()
        loop.remove_reader(one)

    run_exactly(serve())
    one.close()
    other.close()
    assert found == [b"x"]
