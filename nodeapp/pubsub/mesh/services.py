"""The three protocols of a mesh: mobility prediction, and the two that it is compared with.

Every node runs the same service.  It is a broker if it is one of the environment's brokers, and a
client otherwise.  Brokers have clients on their own hosts as well, wired ones that do not move.

Source: docs/papers.md#mesh-prediction.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from nodeapp.events import Event, Subscription
from nodeapp.host import Host
from nodeapp.pubsub.base import Environment, Promises, RefusedError, Route, Service
from nodeapp.pubsub.mesh.broker import MakeStrategy, MeshBroker
from nodeapp.pubsub.mesh.client import MeshClient
from nodeapp.pubsub.mesh.parameters import MeshParameters, ProbingParameters
from nodeapp.pubsub.mesh.strategies import Batching, Prediction, Probing
from nodeapp.pubsub.patterns import LOCAL, TableFullError, encode_pattern

MAX_SUBSCRIPTIONS: Final = 1000
"""Bytes of all subscriptions of a client: with the rest of a report they fit one frame."""


class MeshService(Service):
    """One node of a mesh; a protocol is a `strategy`.

    Raises `nodeapp.parameters.ParameterError` if the host cannot do what a parameter asks for.
    """

    Parameters: ClassVar[type[Any]] = MeshParameters
    needs_position = True
    needs_brokers = True
    needs_routes = True
    # In the paper nobody fails.  A client that was out of reach is looked for 10 s later, at eight
    # brokers for 1 s each; one that is gone for ten minutes, which is longer than a run of `check`
    # takes, for each of its events until its lease is over.
    promises = Promises(arrival=20.0, outlives=False)
    strategy: ClassVar[MakeStrategy]

    def __init__(self, host: Host, environment: Environment, parameters: MeshParameters) -> None:
        super().__init__(host, environment, parameters)
        self._ttl = parameters.ttl
        self.broker: MeshBroker | None = None
        self.client: MeshClient | None = None
        if any(node == host.node_id for node, _, _ in environment.brokers):
            self.broker = MeshBroker(
                host,
                environment,
                parameters,
                self.counters,
                type(self).strategy,
                self.deliver_event,
            )
            self.handlers.update(self.broker.handlers)
        else:
            self.client = MeshClient(
                host, environment, parameters, self.counters, self.deliver_event, self.local
            )
            self.handlers.update(self.client.handlers)

    @property
    def _role(self) -> MeshBroker | MeshClient:
        role = self.broker or self.client
        assert role is not None
        return role

    def start(self) -> None:
        self._role.start()

    def status(self) -> dict[str, Any]:
        role = "broker" if self.broker else "client"
        return {**super().status(), "role": role, **self._role.status()}

    def subscribe(self, subscription: Subscription) -> None:
        if self.broker is not None:
            try:
                self.broker.hold(encode_pattern(subscription.filter))
            except TableFullError:
                raise RefusedError("the table of this broker is full: raise table_limit") from None
            super().subscribe(subscription)
            return
        size = sum(len(held.encode()) for held in (*self.local, subscription))
        if size > MAX_SUBSCRIPTIONS:
            raise RefusedError(
                f"subscriptions of {size} bytes; {MAX_SUBSCRIPTIONS} fit a report: use fewer or "
                "shorter conditions"
            )
        super().subscribe(subscription)
        assert self.client is not None
        self.client.changed()

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        if self.broker is not None:
            self.broker.release(encode_pattern(subscription.filter))
        elif self.client is not None:
            self.client.changed()

    def navigate(self, route: Route) -> None:
        if self.client is None:
            raise RefusedError("this node is a broker, which goes nowhere")
        self.client.navigate(route)

    def disseminate(self, event: Event) -> None:
        if self.broker is not None:
            self.broker.event(self.event_frame(event, ttl=self._ttl), event, LOCAL)
        elif self.client is not None:
            self.client.publish(event)


class MobilityPrediction(MeshService):
    """Events go to where the client is predicted to be."""

    strategy: ClassVar[MakeStrategy] = Prediction


class PeriodicProbing(MeshService):
    """Clients fetch their events."""

    Parameters = ProbingParameters
    # An event waits for the next probe, 10 s at most; a client that is gone asks for nothing.
    promises = Promises(arrival=15.0)
    strategy: ClassVar[MakeStrategy] = Probing


class BatchForwarding(MeshService):
    """Events follow a client when it has arrived."""

    strategy: ClassVar[MakeStrategy] = Batching
