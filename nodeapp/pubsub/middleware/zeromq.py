"""ZeroMQ: no broker; every node's SUB socket is connected to every node's PUB socket.

Sources: ZMTP 3.1 (RFC 37 of ZeroMQ), the package pyzmq.  Publishers filter: a topic that nobody at
a node follows is not sent to it.  Each subscriber gets a copy of its own over a TCP connection of
its own.  A publisher drops what its queue to a subscriber has no room for (1,000 messages).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import EndedError, Environment
from nodeapp.pubsub.middleware.base import Middleware, MiddlewareParameters

PORT: Final = 5556
END: Final = b"\0"
"""Ends a topic: ZeroMQ matches prefixes."""


@dataclass(frozen=True)
class ZeroMqParameters(MiddlewareParameters):
    """Parameters of `ZeroMq`."""

    heartbeat: Annotated[
        float,
        Param(
            "s between heartbeats of a connection, 0: none, the library's default", low=0, high=60
        ),
    ] = 0.0


class ZeroMq(Middleware):
    """A PUB and a SUB socket."""

    name = "zeromq"
    modules = ("zmq.asyncio", "zmq.utils.monitor")
    ports = (PORT,)
    needs_nodes = True
    Parameters = ZeroMqParameters

    def __init__(self, host: Host, environment: Environment, parameters: ZeroMqParameters) -> None:
        super().__init__(host, environment, parameters)
        self._context: Any = None
        self._publisher: Any = None
        self._subscriber: Any = None
        self._peers: set[bytes] = set()
        """Endpoints of those that it is connected to."""

    async def open(self) -> None:
        import zmq
        import zmq.asyncio

        self._context = zmq.asyncio.Context()
        self._publisher = self._context.socket(zmq.PUB)
        self._subscriber = self._context.socket(zmq.SUB)
        heartbeat = round(1000 * self.parameters.heartbeat)
        for used in (self._publisher, self._subscriber):
            used.setsockopt(zmq.LINGER, 0)
            if heartbeat:
                used.setsockopt(zmq.HEARTBEAT_IVL, heartbeat)
                used.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * heartbeat)
        try:
            self._publisher.bind(f"tcp://{address_of(self.host.node_id)}:{PORT}")
        except zmq.ZMQError as error:
            raise EndedError(f"zeromq cannot use TCP port {PORT}: {error.strerror}") from None
        monitor = self._subscriber.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        for node in range(1, self.environment.nodes + 1):
            self._subscriber.connect(f"tcp://{address_of(node)}:{PORT}")
        self.spawn(self._receive())
        self.spawn(self._count(monitor))

    async def _receive(self) -> None:
        while True:
            *_, payload = await self._subscriber.recv_multipart()
            self.arrived(payload)

    async def _count(self, monitor: Any) -> None:
        from zmq.utils.monitor import parse_monitor_message

        while True:
            self._note(parse_monitor_message(await monitor.recv_multipart()))

    def _note(self, seen: Mapping[str, Any]) -> None:
        from zmq.constants import Event

        if seen["event"] == Event.HANDSHAKE_SUCCEEDED:
            self._peers.add(seen["endpoint"])
        else:  # also of a connection that never came about
            self._peers.discard(seen["endpoint"])

    def ready(self) -> bool:
        return len(self._peers) >= self.environment.nodes

    def follow(self, topic: str) -> None:
        self._subscriber.subscribe(topic.encode() + END)

    def unfollow(self, topic: str) -> None:
        self._subscriber.unsubscribe(topic.encode() + END)

    def carry(self, topic: str, payload: bytes) -> None:
        """Publish; the task ends at once, as a PUB socket never waits."""
        self.spawn(self._send(topic, payload))

    async def _send(self, topic: str, payload: bytes) -> None:
        await self._publisher.send_multipart([topic.encode() + END, payload])

    def disconnect(self) -> None:
        if self._context is not None:
            self._context.destroy(linger=0)
