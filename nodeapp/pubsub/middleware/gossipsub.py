"""Gossipsub: every node is a libp2p peer, and all that follow a topic form a mesh over TCP.

Source: the package libp2p (py-libp2p), gossipsub 1.1.  Connections are plaintext, as the marker
could not be seen otherwise, and messages are signed, as by default.  Keys follow from node ids, so
that all know each other's names: a node dials `connections` nodes of lower ids, drawn at random,
and again while they are not connected.

The library numbers a node's messages from the second at which it starts: a node that starts again
after more than one event a second uses numbers anew, and its peers drop those for two minutes.

The library needs trio, which gets a thread of its own; that ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import EndedError, Environment
from nodeapp.pubsub.middleware.base import Middleware, MiddlewareParameters

PORT: Final = 4001
AGAIN: Final = 2.0
"""Seconds between attempts to reach a node that is not connected."""
PATIENCE: Final = 10.0
"""Seconds that an attempt may take."""


@dataclass(frozen=True)
class GossipSubParameters(MiddlewareParameters):
    """Parameters of `GossipSub`, with the defaults of the gossipsub specification."""

    connections: Annotated[
        int, Param("nodes that each node dials; only followers relay", low=1, high=100)
    ] = 6
    degree: Annotated[int, Param("neighbours in the mesh of a topic", low=1, high=100)] = 6
    gossip_interval: Annotated[
        int, Param("s between heartbeats: gossip, and repair of meshes", low=1, high=60)
    ] = 1


class GossipSub(Middleware):
    """A peer, in a thread."""

    name = "gossipsub"
    modules = ("libp2p",)
    ports = (PORT,)
    needs_nodes = True
    node_memory = 24 << 20
    Parameters = GossipSubParameters

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self._trio: Any = None
        """The token of trio's loop."""
        self._orders: Any = None
        """Takes what that loop is to do, one thing after the other."""
        self._nursery: Any = None
        self._pubsub: Any = None
        self._up = asyncio.Event()

    async def open(self) -> None:
        thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        thread.start()
        await self._up.wait()

    def _run(self) -> None:
        """Run the peer in its thread until it ends."""
        import trio

        try:
            trio.run(self._peer)
        except BaseException as error:  # noqa: BLE001  it is raised where the node sees it
            self._in_loop(self.failed, EndedError(f"{self.name}: {_first(error)}"))

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(call, *arguments)

    async def _peer(self) -> None:
        import trio
        from libp2p import new_host
        from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11
        from libp2p.pubsub.gossipsub import GossipSub as Router
        from libp2p.pubsub.pubsub import Pubsub
        from libp2p.security.insecure.transport import PLAINTEXT_PROTOCOL_ID, InsecureTransport
        from libp2p.tools.anyio_service import background_trio_service
        from multiaddr import Multiaddr

        own, degree = self.host.node_id, self.parameters.degree
        keys = _keys(own)
        peer = new_host(key_pair=keys, sec_opt={PLAINTEXT_PROTOCOL_ID: InsecureTransport(keys)})
        router = Router(
            protocols=[PROTOCOL_ID_V11],
            degree=degree,
            degree_low=max(1, 2 * degree // 3),
            degree_high=2 * degree,
            heartbeat_interval=self.parameters.gossip_interval,
        )
        pubsub = Pubsub(peer, router)
        send, orders = trio.open_memory_channel(float("inf"))
        listening = Multiaddr(f"/ip4/{address_of(own)}/tcp/{PORT}")
        async with (
            peer.run(listen_addrs=[listening]),
            background_trio_service(pubsub),
            background_trio_service(router),
            trio.open_nursery() as nursery,
        ):
            if not peer.get_network().listeners:  # the library goes on without
                raise OSError(f"cannot listen on TCP port {PORT}: is it in use?")
            await pubsub.wait_until_ready()
            for node in _dialled(own, self.parameters.connections):
                nursery.start_soon(_keep_connected, peer, node)
            self._orders, self._nursery, self._pubsub = send, nursery, pubsub
            self._in_loop(self._is_up, trio.lowlevel.current_trio_token())
            async for work, *arguments in orders:
                await work(*arguments)

    def _is_up(self, token: Any) -> None:
        self._trio = token
        self._up.set()

    async def _subscribe(self, topic: str) -> None:
        self._nursery.start_soon(self._receive, await self._pubsub.subscribe(topic))

    async def _receive(self, subscription: Any) -> None:
        async for message in subscription:
            self.arrived_in_thread(message.data)

    def _order(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Have trio's loop, which is up, do something after what it was ordered before."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self._trio.run_sync_soon(self._orders.send_nowait, (work, *arguments))

    def ready(self) -> bool:
        return self.environment.nodes == 1 or bool(self._pubsub.peers)

    def follow(self, topic: str) -> None:
        self._order(self._subscribe, topic)

    def unfollow(self, topic: str) -> None:
        self._order(self._pubsub.unsubscribe, topic)

    def carry(self, topic: str, payload: bytes) -> None:
        self._order(self._pubsub.publish, topic, payload)


def _first(error: BaseException) -> str:
    """Return the first error of a group that trio raises, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


@functools.cache
def _keys(node: int) -> Any:
    from libp2p.crypto.ed25519 import create_new_key_pair

    return create_new_key_pair(hashlib.sha256(f"testbed node {node}".encode()).digest())


def _dialled(node: int, connections: int) -> list[int]:
    """Return the nodes that a node dials.

    All are connected with each other in the end, but followers of a topic need not be.
    """
    return random.Random(node).sample(range(1, node), min(connections, node - 1))


async def _keep_connected(peer: Any, node: int) -> None:
    import trio
    from libp2p import generate_peer_id_from
    from libp2p.peer.peerinfo import PeerInfo
    from multiaddr import Multiaddr

    name = generate_peer_id_from(_keys(node))
    there = PeerInfo(name, [Multiaddr(f"/ip4/{address_of(node)}/tcp/{PORT}")])
    while True:
        if name not in peer.get_connected_peers():
            # The library's errors have no common base below Exception.
            with contextlib.suppress(Exception), trio.move_on_after(PATIENCE):
                await peer.connect(there)
        await trio.sleep(AGAIN)
