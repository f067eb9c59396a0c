"""Eclipse Zenoh: every node a router, which relays over several hops by itself, or a peer.

Source: the package eclipse-zenoh.  Nodes find each other by multicast, which reaches one hop.  With
`role=router` they link to their neighbours, and the routers' link-state protocol does the rest: no
IP routing is needed (`routing=none`, the default here).  With `role=peer` nobody relays: events
reach neighbours, or with IP routing those that gossip names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import EndedError, Environment, RefusedError
from nodeapp.pubsub.middleware.base import ROUTING, Middleware, MiddlewareParameters

PORT: Final = 7447
SCOUTING: Final = 7446


@dataclass(frozen=True)
class ZenohParameters(MiddlewareParameters):
    """Parameters of `Zenoh`."""

    routing: Annotated[str, ROUTING] = "none"
    role: Annotated[str, Param("what every node is", choices=("router", "peer"))] = "router"


class Zenoh(Middleware):
    """A session, which is a router or a peer."""

    name = "zenoh"
    modules = ("zenoh",)
    ports = (PORT, SCOUTING)
    Parameters = ZenohParameters

    def __init__(self, host: Host, environment: Environment, parameters: ZenohParameters) -> None:
        super().__init__(host, environment, parameters)
        self._session: Any = None
        self._subscribers: dict[str, Any] = {}

    def _settings(self) -> Mapping[str, object]:
        mode = self.parameters.role
        return {
            "mode": mode,
            "listen/endpoints": [f"tcp/{address_of(self.host.node_id)}:{PORT}"],
            "scouting/multicast/enabled": True,
            "scouting/multicast/listen": True,
            "scouting/multicast/autoconnect": {mode: [mode]},
            "scouting/gossip/enabled": mode == "peer",
        }

    async def open(self) -> None:
        import zenoh

        config = zenoh.Config()
        for name, value in self._settings().items():
            config.insert_json5(name, json.dumps(value))
        try:
            self._session = await self.loop.run_in_executor(None, zenoh.open, config)
        except zenoh.ZError as error:
            first = str(error).splitlines()[0]
            raise EndedError(f"zenoh cannot open a session on TCP port {PORT}: {first}") from None

    def ready(self) -> bool:
        info, alone = self._session.info, self.environment.nodes == 1
        others = info.routers_zid() if self.parameters.role == "router" else info.peers_zid()
        return alone or bool(others)

    def follow(self, topic: str) -> None:
        self._subscribers[topic] = self._session.declare_subscriber(
            topic, lambda sample: self.arrived_in_thread(sample.payload.to_bytes())
        )

    def unfollow(self, topic: str) -> None:
        self._subscribers.pop(topic).undeclare()

    def carry(self, topic: str, payload: bytes) -> None:
        self._session.put(topic, payload)

    def check_name(self, topic: str) -> None:
        if not all(topic.split("/")) or set(topic) & set("*$?#"):
            raise RefusedError(f"{topic!r} is no key of Zenoh: leave out *, $, ?, #, empty parts")

    def disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
