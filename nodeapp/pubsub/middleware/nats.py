"""NATS: a server at every node, all in one cluster, and each node's client at its own server.

Source: Debian's nats-server, the package nats-py (core NATS: at most once, nothing is stored).
Servers connect to those of lower node ids over IP routing, and an event goes from its publisher's
server to each that has a subscriber, never further: the cluster is a full mesh of TCP connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
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
MAX_SUBJECT: Final = 4000
"""Bytes of a subject: the server ends the connection at a line of more than 4,096."""
_BARRED: Final = re.compile(r"[\0-\x20\x7f-\x9f*>]")

log = logging.getLogger("nodeapp")


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
                error_cb=self._note,
                closed_cb=self._closed,
            )
        except (Error, OSError) as error:
            raise EndedError(f"nats-server does not answer on TCP port {PORT}: {error}") from None

    async def _note(self, error: Exception) -> None:
        """Take an error of the client: in our own code, or of a connection that it makes again."""
        from nats.errors import Error

        if not isinstance(error, Error | OSError):
            self.failed(error)
        elif self._client is not None:  # else the server is not up yet
            log.info("nats: %s", error)

    async def _closed(self) -> None:
        self.failed(EndedError("nats-server has turned its client away"))

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
        long = len(topic.encode()) > MAX_SUBJECT
        if long or not all(topic.split(".")) or _BARRED.search(topic):
            what = f"leave out *, >, spaces, control characters; at most {MAX_SUBJECT:,} bytes"
            raise RefusedError(f"{topic[:50]!r} is no subject of NATS: {what}")

    def disconnect(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            if self._client is not None:
                self.loop.create_task(self._client.close())
