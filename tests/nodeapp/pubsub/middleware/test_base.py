"""What all middlewares share, with a system that hands payloads straight back."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from nodeapp.events import Event, Filter, Subscription
from nodeapp.installation import setup_with
from nodeapp.predicates import Predicate
from nodeapp.pubsub.base import EndedError, Environment, RefusedError
from nodeapp.pubsub.middleware import marker
from nodeapp.pubsub.middleware.base import Middleware, MiddlewareParameters, _importable
from nodeapp.pubsub.registry import MIDDLEWARE, typed
from nodeapp.wire import WireError
from tests.nodeapp.network import SimHost, SimNetwork

FIELD = Environment((0.0, 0.0, 800.0, 800.0), 250.0, nodes=4)
SPEED = Event(1, 7, {"topic": "speed", "value": 3})
SUBSCRIPTION = Subscription(Filter((Predicate("topic", "=", "speed"),)))


class Mirror(Middleware):
    """Carries nothing further than the node itself, twice."""

    name = "mirror"
    ports = (9,)
    command: tuple[str, ...] = ()

    async def open(self) -> None:
        if self.command:
            await self.run_daemon(*self.command)

    def ready(self) -> bool:
        return True

    def follow(self, topic: str) -> None:
        self.counters[f"follow {topic}"] += 1

    def unfollow(self, topic: str) -> None:
        self.counters[f"unfollow {topic}"] += 1

    def carry(self, topic: str, payload: bytes) -> None:
        self.arrived(payload)
        self.arrived(payload)

    def check_name(self, topic: str) -> None:
        if topic == "no":
            raise RefusedError("no topic of mirror")


class Listener(SimHost):
    """A host that keeps what it is notified of."""

    def __init__(self) -> None:
        super().__init__(SimNetwork(), 1, (0.0, 0.0))
        self.heard_events: list[Event] = []

    def notify(self, event: Event, hops: int) -> None:
        self.heard_events.append(event)


def with_mirror(work: Callable[[Mirror, Listener], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        host = Listener()
        mirror = Mirror(host, FIELD, MiddlewareParameters())
        await mirror._start()
        await work(mirror, host)

    asyncio.run(main())


def test_the_marker_is_read_back_and_anything_else_refused() -> None:
    payload = marker.mark(SPEED)
    assert payload.startswith(marker.MAGIC)
    assert marker.read(payload) == SPEED
    for damaged in (b"", payload[:10], b"x" + payload[1:], payload[:-1]):
        with pytest.raises(WireError):
            marker.read(damaged)


def test_the_system_delivers_all_and_its_second_copies_are_duplicates() -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        mirror.subscribe(SUBSCRIPTION)
        mirror.publish(SPEED)
        assert host.heard_events == [SPEED, SPEED]
        mirror.publish(SPEED)  # the client repeats a request whose answer it missed
        assert len(host.heard_events) == 2
        mirror.arrived(b"somebody else's")
        assert mirror.counters["foreign payloads"] == 1

    with_mirror(work)


def test_a_topic_is_followed_once_until_its_last_subscription_ends() -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        other = Subscription(SUBSCRIPTION.filter, {"role": "driver"})
        for subscription in (SUBSCRIPTION, other):
            mirror.subscribe(subscription)
        mirror.unsubscribe(other)
        assert mirror.counters == {"follow speed": 1}
        mirror.unsubscribe(SUBSCRIPTION)
        assert mirror.counters == {"follow speed": 1, "unfollow speed": 1}

    with_mirror(work)


def test_what_systems_of_topics_cannot_do_is_refused() -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        fast = Filter((Predicate("topic", "=", "speed"), Predicate("value", ">", 2)))
        with pytest.raises(RefusedError, match="mirror has topics and no content filters"):
            mirror.subscribe(Subscription(fast))
        assert not mirror.local
        with pytest.raises(RefusedError, match="mirror has no access policies"):
            mirror.publish(Event(1, 7, SPEED.attributes, SUBSCRIPTION.filter))
        with pytest.raises(RefusedError, match="give the event a topic"):
            mirror.publish(Event(1, 8, {"value": 3}))
        with pytest.raises(RefusedError, match="at most"):
            mirror.publish(Event(1, 9, SPEED.attributes, payload=bytes(65_000)))

    with_mirror(work)


def test_a_topic_that_the_system_refuses_leaves_nothing() -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        subscription = Subscription(Filter((Predicate("topic", "=", "no"),)))
        for _ in range(2):
            with pytest.raises(RefusedError, match="no topic of mirror"):
                mirror.subscribe(subscription)
            with pytest.raises(RefusedError, match="no topic of mirror"):
                mirror.publish(Event(1, 9, {"topic": "no"}))
        assert not mirror.local
        assert not mirror.topics
        assert not mirror.counters
        assert not host.heard_events

    with_mirror(work)


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("mqtt", "a/#"),
        ("mqtt", "$a"),
        ("mqtt", "a\tb"),
        ("mqtt", "\ufffe"),
        ("mqtt", "/" * 201),
        ("mqtt-bridged", "a+"),
        ("nats", "a b"),
        ("nats", "a\x0bb"),
        ("nats", "a" * 5000),
        ("zenoh", "a//b"),
        ("dds", "a b"),
        ("dds", "DCPSTopic"),
        ("dds", "straße"),
    ],
)
def test_each_system_knows_its_topics(name: str, topic: str) -> None:
    async def main() -> None:
        service = MIDDLEWARE[name].service
        assert issubclass(service, Middleware)
        node = service(Listener(), FIELD, typed(name, {}))
        node.check_name("a")
        if name in {"mqtt", "nats"}:
            node.check_name("東京\u3000x")
        with pytest.raises(RefusedError, match="is no "):
            node.check_name(topic)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left"),
        (ZeroDivisionError("division by zero"), "division by zero"),
        (EndedError("the port is in use"), "^the port is in use$"),
    ],
)
def test_a_start_that_fails_ends_the_node(error: Exception, reason: str) -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        async def fail() -> None:
            raise error

        mirror.open = fail  # type: ignore[method-assign]
        with pytest.raises(EndedError, match=reason):
            await mirror._start()

    with_mirror(work)


def test_before_it_has_started_topics_wait_and_events_are_lost() -> None:
    async def main() -> None:
        mirror, other = (
            Mirror(Listener(), FIELD, MiddlewareParameters()),
            Event(1, 8, {"topic": "a"}),
        )
        mirror.subscribe(SUBSCRIPTION)
        mirror.publish(other)
        assert mirror.counters == {"published": 1, "published without a connection": 1}
        await mirror._start()
        assert mirror.counters["follow speed"] == 1

    asyncio.run(main())


def test_a_subscription_that_a_defect_prevents_is_not_there() -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        def fail(topic: str) -> None:
            raise LookupError

        mirror.follow = fail  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(LookupError):
                mirror.subscribe(SUBSCRIPTION)
        assert not mirror.local
        assert not mirror.topics

    with_mirror(work)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("sh", "-c", "echo no room; exit 3"), "sh ended with exit code 3: no room"),
        (("sh", "-c", "kill -9 $$"), "sh was killed by signal 9: no message"),
        (("no-such-program",), "no-such-program did not start: No such file or directory"),
    ],
)
def test_a_daemon_that_ends_is_the_end_of_its_node(command: tuple[str, ...], reason: str) -> None:
    async def work(mirror: Mirror, host: Listener) -> None:
        failed: asyncio.Future[Any] = mirror.loop.create_future()
        mirror.loop.set_exception_handler(
            lambda loop, context: failed.set_result(context["exception"])
        )
        mirror.command = command
        mirror.start()
        error = await asyncio.wait_for(failed, 10)
        assert isinstance(error, EndedError)
        assert str(error) == reason

    with_mirror(work)


@pytest.mark.parametrize("name", MIDDLEWARE)
def test_what_a_node_imports_is_loaded_once_for_all(name: str) -> None:
    service = MIDDLEWARE[name].service
    tree = ast.parse(Path(str(sys.modules[service.__module__].__file__)).read_text("utf-8"))
    late = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for line in ast.walk(function):
                if isinstance(line, ast.ImportFrom):
                    late.add(str(line.module))
                elif isinstance(line, ast.Import):
                    late |= {alias.name for alias in line.names}
    assert late
    if not all(map(_importable, service.modules)):
        pytest.skip(f"{name} is not set up")
    check = (
        "import importlib, sys; late, *modules = sys.argv[1:]\n"
        "for name in modules: importlib.import_module(name)\n"
        "print(set(late.split()) - {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", check, " ".join(late), *service.modules],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n", "each node would pay for it, in memory and time"


@pytest.mark.parametrize("name", MIDDLEWARE)
def test_access_points_fit_and_routes_on_a_switch_are_refused(name: str) -> None:
    service, values = MIDDLEWARE[name].service, dataclasses.asdict(typed(name, {}))
    assert service.misfit(FIELD, values) is None
    mesh = dataclasses.replace(FIELD, brokers=((1, 0.0, 0.0),))
    assert service.misfit(mesh, values) is None
    wired = dataclasses.replace(FIELD, wired=True)
    assert "routing=none" in str(service.misfit(wired, values | {"routing": "static"}))
    assert service.misfit(wired, values | {"routing": "none"}) is None


def test_a_broker_that_does_not_exist_is_refused() -> None:
    values = dataclasses.asdict(typed("mqtt", {"broker": 9}))
    assert MIDDLEWARE["mqtt"].service.misfit(FIELD, values) == "broker: there is no node 9 of 4"
    bridged = MIDDLEWARE["mqtt-bridged"].service
    for brokers, reason in (("1,9", "there is no node 9"), ("1,1", "each once"), ("a", "node ids")):
        values = dataclasses.asdict(typed("mqtt-bridged", {"brokers": brokers}))
        assert reason in str(bridged.misfit(FIELD, values))


def test_in_the_machine_its_image_is_what_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert setup_with("mqtt").endswith("run_testbed.sh setup --with mqtt")
    monkeypatch.setattr("nodeapp.installation.GUEST", tmp_path)
    assert setup_with("mqtt") == "sudo ./run_testbed.sh vm build --with mqtt"


def test_what_is_not_installed_is_named_with_its_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Mirror, "programs", ("no-such-program", "sh"))
    monkeypatch.setattr(Mirror, "modules", ("no_such.package", "asyncio"))
    missing = str(Mirror.missing())
    assert missing.startswith("mirror needs no-such-program, no_such: ")
    assert missing.endswith("setup --with mirror")
