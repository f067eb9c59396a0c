"""What every middleware shares: a third-party publish/subscribe system as a node's service.

    clients ── loopback ── node app ── this ── the system's client or daemon ── kernel ── radio

The node app's clients speak to it as to any protocol, so delivery and delay are measured as for
any other.  Nothing goes over the node app's own radio socket: the system has sockets of its own,
and the kernel routes.  Every event is delivered by the system, those of the node's own clients
too, as often as it comes: a second copy is a duplicate.

A middleware is a subclass in a file beside this one, and a line of `MIDDLEWARE` in
`nodeapp.pubsub.registry`.  It names what it needs (`programs`, `modules`) and its own `ports`, and
has `open`, `ready`, `follow`, `unfollow`, `carry` and, if it needs them, daemons (`run_daemon`).

Systems carry topics: content filters and access policies are refused, not imitated.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import ctypes
import importlib.util
import logging
import shutil
import signal
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from nodeapp.events import TOPIC, Event, Subscription
from nodeapp.host import Host
from nodeapp.installation import setup_with
from nodeapp.parameters import Param
from nodeapp.pubsub.base import EndedError, Environment, RefusedError, Service
from nodeapp.pubsub.middleware import marker
from nodeapp.wire import WireError

ROUTING: Final = Param(
    "IP routing: static shortest paths, babel, batman, or none: one hop",
    choices=("static", "babel", "batman", "none"),
)
UNCONNECTED: Final = "published without a connection"
"""What is counted of events that nobody can get."""
PR_SET_PDEATHSIG: Final = 1

log = logging.getLogger("nodeapp")


@dataclass(frozen=True)
class MiddlewareParameters:
    """Parameters of every `Middleware`."""

    routing: Annotated[str, ROUTING] = "static"
    babel_hello: Annotated[float, Param("s between hellos of babel", low=0.1, high=60)] = 1.0
    batman_interval: Annotated[
        float, Param("s between originator messages of batman", low=0.1, high=60)
    ] = 1.0


class Middleware(Service):
    """One system at one node; `name` is its registered name."""

    name: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that must be on the path."""
    setup: ClassVar[str] = ""
    """What set-up calls it, if not by its name."""
    Parameters: ClassVar[type[Any]] = MiddlewareParameters
    needs_topic = True
    brings_back = True
    node_memory = 12 << 20

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self.loop = asyncio.get_running_loop()
        self.parameters = parameters
        self.topics: dict[str, int] = {}
        """Topics that local clients follow, and with how many subscriptions."""
        self._opened = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._daemons: list[asyncio.subprocess.Process] = []
        self._closing = False

    # For a middleware.

    @abc.abstractmethod
    async def open(self) -> None:
        """Start the daemons and the client; return when the methods below may be called."""

    @abc.abstractmethod
    def ready(self) -> bool:
        """Return whether the system is connected, to a broker or to some other node."""

    @abc.abstractmethod
    def follow(self, topic: str) -> None:
        """Subscribe to a topic; a client that connects anew subscribes to all `topics` itself."""

    @abc.abstractmethod
    def unfollow(self, topic: str) -> None:
        """End the subscription to a topic."""

    @abc.abstractmethod
    def carry(self, topic: str, payload: bytes) -> None:
        """Publish a payload."""

    def check_name(self, topic: str) -> None:  # a hook that not all need
        """Refuse a topic that the system cannot carry.  Raises `RefusedError`."""

    def disconnect(self) -> None:  # a hook that not all need
        """Close connections; daemons end afterwards."""

    @classmethod
    def set_up_as(cls) -> str:
        """Return what set-up calls it."""
        return cls.setup or cls.name

    @classmethod
    def missing(cls) -> str | None:
        lacking = [name for name in cls.programs if shutil.which(name) is None]
        packages = (name.partition(".")[0] for name in cls.modules if not _importable(name))
        lacking += dict.fromkeys(packages)
        if not lacking:
            return None
        return f"{cls.name} needs {', '.join(lacking)}: {setup_with(cls.set_up_as())}"

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        if environment.wired and parameters["routing"] != "none":
            return "on a switch all nodes are neighbours: --set routing=none"
        return None

    @classmethod
    def unfit(cls, predicates: Sequence[tuple[str, str, Any]]) -> str | None:
        if [(attribute, operator) for attribute, operator, _ in predicates] == [(TOPIC, "=")]:
            return None
        return f"{cls.name} has topics and no content filters: subscribe to a topic alone"

    # The service.

    def start(self) -> None:
        self.spawn(self._start())

    async def _start(self) -> None:
        try:
            await self.open()
            for topic in self.topics:
                self.follow(topic)
        except EndedError:
            raise
        except Exception as error:
            if not isinstance(error, OSError):
                log.exception("%s did not start", self.name)
            raise EndedError(f"{self.name} did not start: {error}") from None
        self._opened = True

    def _check_topic(self, topic: str | None, what: str) -> None:
        super()._check_topic(topic, what)
        assert topic is not None
        self.check_name(topic)

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        topic = subscription.filter.topic
        assert topic is not None
        self.topics[topic] = self.topics.get(topic, 0) + 1
        try:
            predicates = subscription.filter.predicates
            unfit = self.unfit([(p.attribute, p.operator, p.value) for p in predicates])
            if unfit is not None:
                raise RefusedError(unfit)
            if self._opened and self.topics[topic] == 1:
                self.follow(topic)
        except Exception:
            self._forget(subscription, topic)
            raise

    def unsubscribe(self, subscription: Subscription) -> None:
        topic = subscription.filter.topic
        assert topic is not None
        self._forget(subscription, topic)
        if self._opened and topic not in self.topics:
            self.unfollow(topic)

    def _forget(self, subscription: Subscription, topic: str) -> None:
        super().unsubscribe(subscription)
        self.topics[topic] -= 1
        if not self.topics[topic]:
            del self.topics[topic]

    def publish(self, event: Event) -> None:
        if event.policy is not None:
            raise RefusedError(f"{self.name} has no access policies: publish without one")
        super().publish(event)

    def disseminate(self, event: Event) -> None:
        assert event.topic is not None
        if self._opened:
            self.carry(event.topic, marker.mark(event))
        else:
            self.counters[UNCONNECTED] += 1

    def status(self) -> dict[str, Any]:
        return super().status() | {"ready": self._opened and self.ready()}

    def close(self) -> None:
        self._closing = True
        self.disconnect()
        for task in self._tasks:
            task.cancel()
        for daemon in self._daemons:
            if daemon.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    daemon.terminate()

    # What a middleware may use.

    def arrived(self, payload: bytes) -> None:
        """Hand the event in a payload to the local clients; called by the loop."""
        try:
            event = marker.read(payload)
        except WireError:
            self.counters["foreign payloads"] += 1
            return
        self.counters["delivered"] += 1
        self.host.notify(event, 0)

    def arrived_in_thread(self, payload: bytes) -> None:
        """Hand the event in a payload over from a thread of the system."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.arrived, payload)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until the node ends; an `EndedError` that it raises ends the node."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Report an error; an `EndedError` ends the node."""
        if not self._closing:
            context = {"message": f"{self.name} failed", "exception": error}
            self.loop.call_exception_handler(context)

    async def run_daemon(self, *command: str) -> None:
        """Start a program that dies with this node; its end ends the node (`EndedError`).

        What it writes goes to the node's log.
        """
        program = command[0]
        try:
            daemon = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            raise EndedError(f"{program} did not start: {error.strerror}") from None
        self._daemons.append(daemon)
        self.spawn(self._watch(program, daemon))

    async def _watch(self, program: str, daemon: asyncio.subprocess.Process) -> None:
        assert daemon.stdout is not None
        last = "no message"
        async for line in daemon.stdout:
            last = line.decode(errors="replace").strip() or last
            log.info("%s: %s", program, last)
        code = await daemon.wait()
        if not self._closing:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise EndedError(f"{program} {how}: {last}")


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # of the package that it is in
        return False


def _die_with_parent() -> None:
    """Have the kernel kill this process when the node app ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
