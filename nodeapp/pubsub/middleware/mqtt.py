"""MQTT: one Mosquitto broker at a node, and Eclipse Paho's client at every node.

Sources: OASIS, MQTT Version 3.1.1, 2014; Debian's mosquitto, the package paho-mqtt.  The broker and
the clients run with their defaults but for what the parameters say.  A client that loses the broker
connects again after 1 to `RECONNECT` seconds.  What is published at QoS 0 meanwhile is lost, at 1
and 2 it waits in the client.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment, RefusedError
from nodeapp.pubsub.middleware.base import Middleware, MiddlewareParameters

PORT: Final = 1883
RECONNECT: Final = 5
"""Seconds between attempts to connect, at most; paho's default is 120, minutes of a run."""


@dataclass(frozen=True)
class MqttParameters(MiddlewareParameters):
    """Parameters of `Mqtt`."""

    broker: Annotated[int, Param("node id of the broker", low=1, high=2**24 - 2)] = 1
    qos: Annotated[int, Param("quality of service: 0, 1 or 2", low=0, high=2)] = 0
    clean_session: Annotated[
        bool, Param("the broker forgets clients that it has lost, and what waits for them")
    ] = False
    keepalive: Annotated[int, Param("s between signs of life", low=1, high=3600)] = 60


class Mqtt(Middleware):
    """A client, and at the node `broker` the broker."""

    name = "mqtt"
    programs = ("mosquitto",)
    modules = ("paho.mqtt",)
    ports = (PORT,)
    Parameters = MqttParameters

    def __init__(self, host: Host, environment: Environment, parameters: MqttParameters) -> None:
        super().__init__(host, environment, parameters)
        self._client: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        """Return why there is no such broker."""
        if environment.nodes and parameters["broker"] > environment.nodes:
            return f"broker: there is no node {parameters['broker']} of {environment.nodes}"
        return super().misfit(environment, parameters)

    async def open(self) -> None:
        """Start the broker if it is here, and the client."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        if self.host.node_id == self.parameters.broker:
            await self.run_daemon("mosquitto", "-c", str(self._configuration()))
        client = self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"node{self.host.node_id}",
            clean_session=self.parameters.clean_session,
        )
        client.on_connect = self._connected
        client.on_message = lambda client, data, message: self.arrived_in_thread(message.payload)
        client.reconnect_delay_set(1, RECONNECT)
        client.connect_async(
            address_of(self.parameters.broker), PORT, keepalive=self.parameters.keepalive
        )
        client.loop_start()

    def _configuration(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="mosquitto-")
        path = Path(self._folder.name, "mosquitto.conf")
        listener = f"listener {PORT} {address_of(self.host.node_id)}"
        # Who drops root loses the signal by which the broker dies with its node.
        path.write_text(f"{listener}\nallow_anonymous true\nuser root\nlog_dest stdout\n")
        return path

    def ready(self) -> bool:
        """Return whether the broker has taken the client's connection."""
        return self._client is not None and bool(self._client.is_connected())

    def _connected(self, client: Any, *_: object) -> None:
        """Subscribe again; called by the client's thread."""
        for topic in tuple(self.topics):
            client.subscribe(topic, self.parameters.qos)

    def follow(self, topic: str) -> None:
        """Subscribe; while there is no connection, that waits for one."""
        self._check_name(topic)
        if self.ready():
            self._client.subscribe(topic, self.parameters.qos)

    def unfollow(self, topic: str) -> None:
        """End a subscription."""
        if self._client is not None:
            self._client.unsubscribe(topic)

    def carry(self, topic: str, payload: bytes) -> None:
        """Publish."""
        self._check_name(topic)
        if self._client is None or self._client.publish(topic, payload, self.parameters.qos).rc:
            self.counters["published without a connection"] += 1

    def _check_name(self, topic: str) -> None:
        if not topic or set(topic) & set("+#\0") or topic[0] == "$":
            raise RefusedError(f"{topic!r} is no topic of MQTT: without +, # and a leading $")

    def disconnect(self) -> None:
        """Leave the broker."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
        if self._folder is not None:
            self._folder.cleanup()
