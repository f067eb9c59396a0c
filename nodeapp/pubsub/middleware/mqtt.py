"""MQTT: Mosquitto brokers, one or several bridged, and Eclipse Paho's client at every node.

Sources: OASIS, MQTT Version 3.1.1, 2014; Debian's mosquitto, the package paho-mqtt.  The broker and
the clients run with their defaults but for what the parameters say.  A client that loses the broker
connects again after 1 to `RECONNECT` seconds.  What is published at QoS 0 meanwhile is lost, at 1
and 2 it waits in the client.

With bridges, the first broker is the hub of a star: the others are its clients for all topics, in
both directions (mosquitto.conf(5), bridges).  A client stays with its broker wherever it moves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment, RefusedError
from nodeapp.pubsub.fields import is_plain
from nodeapp.pubsub.middleware.base import UNCONNECTED, Middleware, MiddlewareParameters

PORT: Final = 1883
SLASHES: Final = 200
"""Most slashes in a topic: Mosquitto ends the connection of a client with more."""
RECONNECT: Final = 5
"""Seconds between attempts to connect, at most; paho's default is 120, minutes of a run."""


@dataclass(frozen=True)
class ClientParameters(MiddlewareParameters):
    """Parameters of every client."""

    qos: Annotated[int, Param("quality of service: 0, 1 or 2", low=0, high=2)] = 0
    clean_session: Annotated[
        bool, Param("the broker forgets clients that it has lost, and what waits for them")
    ] = False
    keepalive: Annotated[int, Param("s between signs of life", low=1, high=3600)] = 60


@dataclass(frozen=True)
class MqttParameters(ClientParameters):
    """Parameters of `Mqtt`."""

    broker: Annotated[int, Param("node id of the broker", low=1, high=2**24 - 2)] = 1


@dataclass(frozen=True)
class BridgedParameters(ClientParameters):
    """Parameters of `MqttBridged`."""

    brokers: Annotated[str, Param("node ids of the brokers, commas between; first the hub")] = "1,2"


class Mqtt(Middleware):
    """A client, and at the node `broker` the broker."""

    name = "mqtt"
    programs = ("mosquitto",)
    modules = ("paho.mqtt.client",)
    ports = (PORT,)
    Parameters: ClassVar[type[Any]] = MqttParameters

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self._brokers = self.brokers(vars(parameters))
        self._client: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._left: set[str] = set()
        """Topics that were unfollowed without a connection: the broker may know of them."""

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        brokers = cls.brokers(parameters)
        if not brokers or len(set(brokers)) < len(brokers):
            return "brokers: give node ids, each once, with commas between, like 1,8,15"
        for broker in brokers:
            if broker < 1 or (environment.nodes and broker > environment.nodes):
                return f"broker: there is no node {broker} of {environment.nodes}"
        return super().misfit(environment, parameters)

    @classmethod
    def brokers(cls, parameters: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the node ids of the brokers, empty if they are none."""
        return (parameters["broker"],)

    def _home(self) -> int:
        """Return the broker of this node's client: its own, or by its id one of all."""
        own, brokers = self.host.node_id, self._brokers
        return own if own in brokers else brokers[own % len(brokers)]

    async def open(self) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        if self.host.node_id in self._brokers:
            await self.run_daemon("mosquitto", "-c", str(self._configuration()))
        client = self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"node{self.host.node_id}",
            clean_session=self.parameters.clean_session,
        )
        client.on_connect = self._connected
        client.on_message = self._received
        client.reconnect_delay_set(1, RECONNECT)
        client.connect_async(address_of(self._home()), PORT, keepalive=self.parameters.keepalive)
        client.loop_start()

    def _configuration(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="mosquitto-")
        path = Path(self._folder.name, "mosquitto.conf")
        listener = f"listener {PORT} {address_of(self.host.node_id)}"
        # A broker that drops root loses the signal by which it dies with its node.
        lines = [listener, "allow_anonymous true", "user root", "log_dest stdout"]
        hub = self._brokers[0]
        if self.host.node_id != hub:
            lines += [f"connection node{self.host.node_id}", f"address {address_of(hub)}:{PORT}"]
            lines += [f"topic # both {self.parameters.qos}", "restart_timeout 1 5"]
            lines.append(f"keepalive_interval {max(5, self.parameters.keepalive)}")
            lines.append(f"cleansession {str(self.parameters.clean_session).lower()}")
        path.write_text("\n".join(lines) + "\n")
        return path

    def ready(self) -> bool:
        return bool(self._client.is_connected())

    def _connected(self, client: Any, *_: object) -> None:
        """Subscribe again; called by the client's thread."""
        for topic in self._left - {*self.topics}:
            client.unsubscribe(topic)
        self._left.clear()
        for topic in tuple(self.topics):
            client.subscribe(topic, self.parameters.qos)

    def _received(self, client: Any, data: object, message: Any) -> None:
        """Pass a message on; called by the client's thread."""
        self.arrived_in_thread(bytes(message.payload))

    def follow(self, topic: str) -> None:
        if self.ready():
            self._client.subscribe(topic, self.parameters.qos)

    def unfollow(self, topic: str) -> None:
        if self.ready():
            self._client.unsubscribe(topic)
        else:
            self._left.add(topic)

    def carry(self, topic: str, payload: bytes) -> None:
        sent = self._client.publish(topic, payload, self.parameters.qos)
        if sent.rc and self.parameters.qos == 0:  # at others it waits for a connection
            self.counters[UNCONNECTED] += 1

    def check_name(self, topic: str) -> None:
        fits = is_plain(topic) and topic.count("/") <= SLASHES
        if not topic or not fits or set(topic) & set("+#\0") or topic[0] == "$":
            what = f"leave out +, #, control characters, a leading $; at most {SLASHES} slashes"
            raise RefusedError(f"{topic[:50]!r} is no topic of Mosquitto: {what}")

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
        if self._folder is not None:
            self._folder.cleanup()


class MqttBridged(Mqtt):
    """A client at every node, and brokers at some."""

    name = "mqtt-bridged"
    setup = Mqtt.name
    Parameters = BridgedParameters

    @classmethod
    def brokers(cls, parameters: Mapping[str, Any]) -> tuple[int, ...]:
        words = parameters["brokers"].split(",")
        return tuple(map(int, words)) if all(word.isdecimal() for word in words) else ()
