"""The front at a node: a broker whose network is the node app."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any, Final

from mqtt5 import DisconnectReasonCode

from nodeapp.mqtt import packets, version311
from nodeapp.mqtt.connection import Connection, abort_later
from nodeapp.mqtt.uplink import Uplink
from nodeapp.pubsub.base import EndedError

PORT: Final = 1883
UNACCEPTABLE: Final = 1
"""The return code of CONNACK for a version that is not served."""

log = logging.getLogger("nodeapp")


class Front:
    """The broker at a node."""

    def __init__(self, node: int, *, wildcards: bool) -> None:
        """`wildcards`: the node's protocol has more than topics."""
        self._uplink = Uplink(node)
        self._wildcards = wildcards
        self._connections: dict[str, Connection] = {}
        self._server: Any = None

    @classmethod
    async def open(cls, node: int, *, wildcards: bool) -> Front:
        """Return the front of a node, which serves.  Raises `EndedError`."""
        front = cls(node, wildcards=wildcards)
        await front._uplink.open()
        try:
            front._server = await asyncio.start_server(front._connected, "127.0.0.1", PORT)
        except OSError as error:
            front._uplink.close()
            raise EndedError(
                f"cannot serve clients of MQTT on 127.0.0.1, TCP port {PORT}: "
                f"{error.strerror}: stop what uses the port, or leave mqtt off"
            ) from None
        return front

    async def close(self) -> None:
        """End connections and subscriptions; there is nobody to publish wills."""
        self._server.close()
        for connection in self._connections.values():
            connection.will = None
            connection.leave(DisconnectReasonCode.SERVER_SHUTTING_DOWN, "the node ends")
        await asyncio.sleep(0)  # they say so
        self._uplink.close()

    def status(self) -> dict[str, int]:
        """Return the port, and how many clients and subscriptions there are."""
        clients = len(self._connections)
        return {"port": PORT, "clients": clients, "filters": self._uplink.filters}

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it ends."""
        try:
            head, version = await packets.first_bytes(reader)
            if version in (packets.VERSION, version311.VERSION):
                streams = head, reader, writer
                await self._serve(Connection(self._uplink, self._enter, self._wildcards, *streams))
            else:
                writer.write(version311.refusal(UNACCEPTABLE))
        except packets.ForeignError as error:
            log.warning("mqtt: a client begins with %s", error)
        except (OSError, EOFError, TimeoutError):  # a port that was tried
            pass
        finally:
            writer.close()
            # Its client may have gone without reading what is left.
            abort_later(writer.transport)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            if self._connections.get(connection.name) is connection:
                del self._connections[connection.name]

    def _enter(self, name: str, connection: Connection) -> str:
        """Have a client connected, in place of one of the same id; return its id."""
        name = name or f"auto-{uuid.uuid4().hex}"
        if name in self._connections:
            code = DisconnectReasonCode.SESSION_TAKEN_OVER
            self._connections[name].leave(code, "another client has this id")
        self._connections[name] = connection
        return name
