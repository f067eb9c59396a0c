"""The client library and the command line, against a scripted node."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from nodeapp import client as client_module
from nodeapp import wire
from nodeapp.client import Client, ClientError, main
from nodeapp.events import Event, Filter, Subscription
from nodeapp.kinds import ClientKind
from nodeapp.wire import BY_HAND, Frame

Script = Callable[[Frame], list[Frame]]


def ack(request: Frame, refusal: str | None = None) -> Frame:
    body = wire.encode_body(refusal)
    return Frame(ClientKind.ACK, request.originator, request.kind, hops=0, body=body)


class FakeNode:
    """Answers every datagram with what its script returns, from a thread."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self.requests: list[Frame] = []
        self._script = script
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            datagram, address = self._socket.recvfrom(65_535)
            if not datagram:
                break
            request = wire.decode(datagram)
            self.requests.append(request)
            for reply in self._script(request):
                self._socket.sendto(reply.encode(), address)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stop:
            stop.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()


@pytest.fixture
def fake() -> Iterator[Callable[..., FakeNode]]:
    made: list[FakeNode] = []

    def make(script: Script, port: int = 0) -> FakeNode:
        made.append(FakeNode(script, port))
        return made[-1]

    yield make
    for node in made:
        node.close()


def obliging(request: Frame) -> list[Frame]:
    if request.kind == ClientKind.STATUS:
        status = {"node": 7, "position": [1.0, 2.0], "counters": {"published": 1}}
        return [request._replace(body=wire.encode_body(status))]
    return [ack(request)]


def test_a_request_is_repeated_until_it_is_answered(
    fake: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPEAT", 0.01)
    silent = iter(["first", "second"])
    node = fake(lambda request: [] if next(silent, None) else obliging(request))
    with Client(node.port) as client:
        assert client.status()["node"] == 7
    assert len(node.requests) >= 3  # more if the third answer came late
    assert len(set(node.requests)) == 1  # the same request, token and all


def test_refusals_and_silence_are_errors(fake: Callable[..., FakeNode]) -> None:
    refusing = fake(lambda request: [ack(request, "no")])
    with Client(refusing.port) as client, pytest.raises(ClientError, match="the node refused: no"):
        client.subscribe(Filter())
    silent = fake(lambda request: [])
    with Client(silent.port, timeout=0.05) as client, pytest.raises(ClientError, match="no node"):
        client.status()


def test_a_stale_answer_is_not_taken_for_the_one(fake: Callable[..., FakeNode]) -> None:
    def script(request: Frame) -> list[Frame]:
        return [ack(request._replace(originator=request.originator ^ 1), "stale"), ack(request)]

    with Client(fake(script).port) as client:
        client.unsubscribe(1)


def test_an_event_by_hand_has_a_number_that_programs_do_not_use(
    fake: Callable[..., FakeNode],
) -> None:
    node = fake(obliging)
    with Client(node.port) as client:
        event = client.publish({"topic": "traffic"}, size=100)
        assert client.publish({"topic": "traffic"}, sequence=3).sequence == 3
    assert event.publisher == 7
    assert event.sequence & BY_HAND
    assert len(node.requests[1].body) == 100


def test_a_client_may_advertise(fake: Callable[..., FakeNode]) -> None:
    node = fake(obliging)
    with Client(node.port) as client:
        client.advertise("traffic")
    assert main(["--port", str(node.port), "adv", "weather"]) == 0
    assert [each.kind for each in node.requests] == [ClientKind.ADVERTISE] * 2
    assert [wire.decode_body(each.body) for each in node.requests] == ["traffic", "weather"]


def test_notifications_come_also_while_a_request_waits(fake: Callable[..., FakeNode]) -> None:
    body = Event(3, 4, {"topic": "traffic"}).encode()

    def script(request: Frame) -> list[Frame]:
        notice = Frame(ClientKind.NOTIFY, 7, request.sequence, 3, 4, hops=2, body=body)
        return [notice, ack(request)]

    with Client(fake(script).port) as client:
        client.subscribe(Filter.parse(["traffic"]))
        notification = client.receive(1.0)
        assert notification is not None
        assert (notification.event.id, notification.hops) == ((3, 4), 2)
        assert client.receive(0.01) is None


def test_subscriptions_are_renewed_and_made_again_at_a_restarted_node(
    fake: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RENEWAL", 0.02)
    monkeypatch.setattr(client_module, "RECONNECT", 0.02)
    first = FakeNode(obliging)
    with Client(first.port) as client:
        client.subscribe(Filter.parse(["traffic"]))
        client.receive(0.2)
        first.close()
        assert len(first.requests) > 2
        assert client.receive(0.1) is None  # nobody there
        second = fake(obliging, first.port)
        client.receive(0.2)
    assert {request.kind for request in second.requests} == {ClientKind.SUBSCRIBE}
    assert Subscription.decode(second.requests[0].body).filter.topic == "traffic"


def test_a_renewal_that_is_refused_for_long_is_an_error(
    fake: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RENEWAL", 0.02)
    monkeypatch.setattr(client_module, "RECONNECT", 0.02)
    refusals = iter([None, "no position yet", "no position yet", None])
    node = fake(lambda request: [ack(request, next(refusals, None))])
    with Client(node.port) as client:
        client.subscribe(Filter())
        assert client.receive(0.3) is None  # a node that was restarted waits for its position
        assert len(node.requests) > 4
    node = fake(lambda request: [ack(request, "full" if node.requests[1:] else None)])
    monkeypatch.setattr(client_module, "PATIENCE", 0.1)
    with Client(node.port) as client:
        client.subscribe(Filter())
        with pytest.raises(ClientError, match="full"):
            client.receive(20.0)


def test_a_late_answer_to_another_request_ends_no_subscription(
    fake: Callable[..., FakeNode],
) -> None:
    def script(request: Frame) -> list[Frame]:
        late = ack(request._replace(originator=request.originator ^ 1), "no")
        return [ack(request), late]

    with Client(fake(script).port) as client:
        client.subscribe(Filter())
        assert client.receive(0.1) is None


def test_a_subscription_ended_from_elsewhere_ends_the_waiting(
    fake: Callable[..., FakeNode],
) -> None:
    ended = Frame(ClientKind.UNSUBSCRIBE, 7, 0, sequence=1, hops=0)
    with Client(fake(lambda request: [ack(request), ended]).port) as client:
        client.subscribe(Filter())
        assert list(client) == []
        assert not client.subscribed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pub", "speed>5"], "write name=value"),
        (["pub", "traffic", "--policy", "a<true"], "booleans have no order"),
        (["sub", "a b c"], "is not a condition"),
        (["sub", "speed>"], "'speed>' has no value: write one"),
        (["sub", "traffic", "--attr", "x!=1"], "write name=value"),
        (["pub", "traffic", "--size", "70000"], "at most"),
    ],
)
def test_bad_words_end_in_one_line(
    arguments: list[str],
    told: str,
    fake: Callable[..., FakeNode],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--port", str(fake(obliging).port), *arguments]) == 1
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_the_commands_answer(
    fake: Callable[..., FakeNode], capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(fake(obliging).port)
    assert main(["--port", port, "pub", "traffic", "speed=5", "--policy", "role=police"]) == 0
    assert main(["--port", port, "unsub", "traffic"]) == 0
    assert main(["--port", port, "status"]) == 0
    assert "node: 7\nposition: 1, 2\ncounters:\n  published" in capsys.readouterr().out
    assert main(["--port", port, "status", "--json"]) == 0
    assert '"node": 7' in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["pub"], ["sub"], ["unsub"], ["status"]])
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert "pubsub" in capsys.readouterr().out
