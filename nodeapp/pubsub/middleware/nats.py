"""NATS: a server at every node, all in one cluster, and each node's client at its own server.

Source: Debian's nats-server, the package nats-py (core NATS: at most once, nothing is stored).
Servers connect to those of lower node ids over IP routing, and an event goes from its publisher's
server to each that has a subscriber, never further: the cluster is a full mesh of TCP connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.pubsub.base import EndedError, Environment, RefusedError
from nodeapp.pubsub.middleware.base import Middleware

PORT: Final = 4222
CLUSTER: Final = 6222
ATTEMPTS: Final = 100
"""Attempts to connect to the node's own server, `PAUSE` seconds apart."""
PAUSE: Final = 0.1


class Nats(Middleware):
    """A server of the cluster and its client."""

    name = "nats"
    programs = ("nats-server",)
    modules = ("nats",)
    ports = (PORT, CLUSTER)
    needs_nodes = True
    node_memory = 17 << 20

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self._client: Any = None
        self._subscriptions: dict[str, asyncio.Task[Any]] = {}

    async def open(self) -> None:
        import nats
        from nats.errors import Error

        own = address_of(self.host.node_id)
        others = ",".join(
            f"nats://{address_of(node)}:{CLUSTER}"
            for node in range(1, self.host.node_id)  # both ends at once would be two connections
        )
        await self.run_daemon(
            *("nats-server", "-a", own, "-p", str(PORT), "-n", f"node{self.host.node_id}"),
            *("--cluster_name", "testbed", "--cluster", f"nats://{own}:{CLUSTER}"),
            *(("--routes", others) if others else ()),
        )
        try:
            self._client = await nats.connect(
                f"nats://{own}:{PORT}",
                max_reconnect_attempts=ATTEMPTS,
                reconnect_time_wait=PAUSE,
                error_cb=self._ignore,
            )
        except (Error, OSError) as error:
            raise EndedError(f"nats-server does not answer on TCP port {PORT}: {error}") from None

    async def _ignore(self, error: Exception) -> None:
        """The server is not up yet: the client tries again."""

    def ready(self) -> bool:
        return bool(self._client.is_connected)

    def follow(self, topic: str) -> None:
        async def arrived(message: Any) -> None:
            self.arrived(message.data)

        self._subscriptions[topic] = self.spawn(self._client.subscribe(topic, cb=arrived))

    def unfollow(self, topic: str) -> None:
        self.spawn(self._end(self._subscriptions.pop(topic)))

    async def _end(self, subscribing: asyncio.Task[Any]) -> None:
        await (await subscribing).unsubscribe()

    def carry(self, topic: str, payload: bytes) -> None:
        self.spawn(self._client.publish(topic, payload))

    def check_name(self, topic: str) -> None:
        if not all(topic.split(".")) or set(topic) & set("*> \t\r\n"):
            raise RefusedError(f"{topic!r} is no subject of NATS: leave out *, > and spaces")

    def disconnect(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            if self._client is not None:
                self.loop.create_task(self._client.close())
