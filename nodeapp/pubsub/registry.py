"""The publish/subscribe protocols by name.  A new one is a file beside this and a line below.

A third-party system is a file of `nodeapp.pubsub.middleware` and a line of `MIDDLEWARE`.

If its parts exist (a decision point, routing, a topic hash) it is a class of one line in
`over_gpsr` or `over_aodv` and a line below.

A module is loaded when its protocol is asked for, so that a node pays for its own only.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from nodeapp.compiled import VARIABLE
from nodeapp.discovery import loading
from nodeapp.host import Host
from nodeapp.kinds import FIRST_CLIENT_KIND, KINDS, Kind, KindError, Role
from nodeapp.parameters import ParameterError, convert, parameters_of
from nodeapp.pubsub.base import Environment, Service

_INTERPRETED: Final = "interpreted classes cannot inherit from compiled"
"""What compiled code says of an object of such a class."""


class ProtocolError(ValueError):
    """A protocol whose file is not as it has to be; the message is one line and says where."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol: where its `Service` is ("module:class") and what it does, in a line."""

    location: str
    summary: str
    floods: bool = False
    """Whether every node that hears of an event sends it as often as the parameter `repeat` says,
    once without one: what comes to nodes is then known from a scenario before it runs."""

    @property
    def module(self) -> str:
        """The full name of the module that holds the service."""
        return f"nodeapp.pubsub.{self.location.partition(':')[0]}"

    @property
    def service(self) -> type[Service]:
        """Its class.  Raises `ProtocolError` if it cannot be loaded."""
        name = self.location.partition(":")[2]
        with loading(self.module, ProtocolError):
            try:
                service = getattr(importlib.import_module(self.module), name, None)
            except KindError as error:
                raise ProtocolError(_with_advice(error)) from None
        if not (isinstance(service, type) and issubclass(service, Service)):
            raise ProtocolError(
                f"{self.module.replace('.', '/')}.py has no subclass {name} of Service: add it, or "
                "name its class in nodeapp/pubsub/registry.py"
            )
        return service

    @property
    def parameters(self) -> type[Any]:
        """The dataclass of its parameters, for `nodeapp.parameters.parameters_of`.

        Raises `ProtocolError` as `service` does, and if it is not as `parameters_of` needs it.
        """
        service = self.service
        with loading(self.module, ProtocolError):
            declaration = service.Parameters
            parameters_of(declaration)
        return declaration


PROTOCOLS: Final[Mapping[str, Protocol]] = MappingProxyType(
    {
        "flooding": Protocol(
            "flooding:Flooding", "every node rebroadcasts each event once", floods=True
        ),
        "semi-probabilistic": Protocol(
            "semi_probabilistic:SemiProbabilistic",
            "events follow nearby subscriptions, else a random fraction of the links",
        ),
        "broker-aodv": Protocol(
            "over_aodv:BrokerAodv", "brokers at the node a topic hashes to, reached by AODV"
        ),
        "broker-gpsr": Protocol(
            "over_gpsr:BrokerGpsr", "brokers at the location a topic hashes to, reached by GPSR"
        ),
        "broker-gpsr-cell": Protocol(
            "over_gpsr:BrokerGpsrCell", "broker-gpsr with middles of cells as locations"
        ),
        "broker-gpsr-map": Protocol(
            "over_gpsr:BrokerGpsrMap", "broker-gpsr with points of a road map only"
        ),
        "georendezvous": Protocol(
            "georendezvous:GeoRendezvous",
            "several rendezvous cells per topic, by cell hash routing; shortest path wins",
        ),
        "rendezvous-aodv": Protocol(
            "over_aodv:RendezvousAodv", "publishers get subscribers from the node a topic hashes to"
        ),
        "rendezvous-gpsr": Protocol(
            "over_gpsr:RendezvousGpsr", "publishers get subscribers from the location it hashes to"
        ),
        "rendezvous-gpsr-cell": Protocol(
            "over_gpsr:RendezvousGpsrCell", "rendezvous-gpsr with middles of cells as locations"
        ),
        "rendezvous-gpsr-map": Protocol(
            "over_gpsr:RendezvousGpsrMap", "rendezvous-gpsr with points of a road map only"
        ),
        "subscription-forwarding": Protocol(
            "subscription_forwarding:SubscriptionForwarding",
            "events follow subscriptions back over a spanning tree of all nodes",
        ),
        "semantic-overlay": Protocol(
            "overlay.peer:SemanticOverlay",
            "peers link to those of similar interests: Bloom filters of cells as identifiers",
        ),
        "mirinae": Protocol(
            "overlay.mirinae:Mirinae",
            "events go through a hypercube of identifiers, by id covers",
        ),
        "mobility-prediction": Protocol(
            "mesh.services:MobilityPrediction",
            "brokers of a mesh send events to where a client's route leads",
        ),
        "periodic-probing": Protocol(
            "mesh.services:PeriodicProbing",
            "clients of a mesh fetch events from their serving broker at intervals",
        ),
        "batch-forwarding": Protocol(
            "mesh.services:BatchForwarding",
            "brokers of a mesh keep events until a client has arrived",
        ),
    }
)


MIDDLEWARE: Final[Mapping[str, Protocol]] = MappingProxyType(
    {
        "mqtt": Protocol("middleware.mqtt:Mqtt", "Mosquitto, one broker, and Paho's clients"),
        "nats": Protocol("middleware.nats:Nats", "NATS: a cluster with a server at every node"),
        "gossipsub": Protocol(
            "middleware.gossipsub:GossipSub", "libp2p's gossipsub: a mesh of peers for each topic"
        ),
        "dds": Protocol("middleware.dds:Dds", "Eclipse Cyclone DDS: nobody relays, no broker"),
        "mqtt-bridged": Protocol("middleware.mqtt:MqttBridged", "Mosquitto brokers, bridged"),
        "zenoh": Protocol(
            "middleware.zenoh:Zenoh", "Eclipse Zenoh: every node a router, or a peer"
        ),
        "zeromq": Protocol(
            "middleware.zeromq:ZeroMq", "ZeroMQ: all connect to all, without a broker"
        ),
    }
)
"""Third-party systems, which have clocks and sockets of their own."""

SYSTEMS: Final[Mapping[str, Protocol]] = MappingProxyType({**PROTOCOLS, **MIDDLEWARE})
"""All that a run can use."""


UNSEALED: Final = "{} has sockets of its own, whose frames cannot be sealed"


def service_of(name: str) -> type[Service]:
    """Return the class of a protocol's service, by which others know what the protocol is like.

    That is `Service` itself, which declares nothing, for a name that is not registered: the
    protocol of a run may be of another version.
    """
    return SYSTEMS[name].service if name in SYSTEMS else Service


def check_loads(name: str) -> None:
    """Raise `ProtocolError` if protocol `name` is registered and cannot be loaded."""
    if name in SYSTEMS:
        SYSTEMS[name].parameters  # noqa: B018  which imports it


def has_parameters(name: str, declaration: type[Any]) -> bool:
    """Return whether protocol `name` is registered and has all parameters of a dataclass."""
    return name in SYSTEMS and issubclass(SYSTEMS[name].parameters, declaration)


@functools.cache
def _broken() -> Mapping[str, BaseException]:
    """Import all protocols; return why some cannot be, by name: it is their own trouble."""
    errors: dict[str, BaseException] = {}
    for name, protocol in PROTOCOLS.items():
        try:
            importlib.import_module(protocol.module)
        except (Exception, SystemExit) as error:  # noqa: BLE001  code of users
            errors[name] = error
    return errors


@functools.cache
def kinds() -> Mapping[int, Kind]:
    """Return the kinds of messages of all protocols, by number; imports the protocols.

    Those of a protocol that cannot be imported are missing.
    """
    _broken()
    return MappingProxyType(KINDS)


def clash(name: str) -> str | None:
    """Return which kind of protocol `name` another has, and what to do; None if none.

    A node, which imports its own protocol alone, would not notice, and analyses would take its
    frames for those of the other, the earlier one in the registry.
    """
    own = SYSTEMS[name].module.split(".")[:3]

    def is_own(kind: Kind) -> bool:
        return type(kind).__module__.split(".")[:3] == own

    if not any(map(is_own, KINDS.values())):
        return None
    for earlier in itertools.takewhile(name.__ne__, PROTOCOLS):
        error = _broken().get(earlier)
        if isinstance(error, KindError) and is_own(error.holder):
            return _with_advice(KindError(error.holder, error.kind))
    return None


def _with_advice(error: KindError) -> str:
    free = set(range(1, FIRST_CLIENT_KIND)) - kinds().keys()
    return f"{error}: take another name, and one of the numbers {', '.join(map(str, sorted(free)))}"


def kinds_of(*roles: Role) -> list[int]:
    """Return the numbers of the kinds of all protocols that have one of some roles, ascending."""
    return sorted(number for number, kind in kinds().items() if kind.role in roles)


def obstacle(name: str, environment: Environment) -> str | None:
    """Return why protocol `name` cannot work in an environment and what to do; None if it can."""
    service = SYSTEMS[name].service
    if service.needs_map and not environment.waypoints:
        return (
            f"{name} needs a road map: the topologies freeway and manhattan have one "
            "(python -m nodeapp: give --map)"
        )
    if service.needs_brokers and not environment.brokers:
        return (
            f"{name} runs on the brokers of a mesh: the topologies mesh_grid and mesh_legs have "
            "them (python -m nodeapp: give --brokers)"
        )
    if service.needs_nodes and not environment.nodes:
        return (
            f"{name} needs to know all node ids: number the nodes from 1 "
            "(python -m nodeapp: give --nodes)"
        )
    return None


def missing(name: str) -> str | None:
    """Return what of a system is not installed on this machine and what to do; None if all is."""
    return SYSTEMS[name].service.missing()


def typed(name: str, values: Mapping[str, object]) -> Any:
    """Return the parameters of protocol `name`, an object of its dataclass, once for all nodes.

    `values` may be texts; what they do not have is the default.  Raises KeyError for an unknown
    name, `nodeapp.parameters.ParameterError` for values that do not exist or are out of range,
    `ProtocolError` for a protocol that cannot be loaded.
    """
    declaration = SYSTEMS[name].parameters
    return declaration(**convert(parameters_of(declaration), values))


def create(name: str, host: Host, parameters: Any, environment: Environment) -> Service:
    """Return the service of protocol `name` for a host; it does nothing until `start`.

    `parameters` are what `typed` returns.  Raises KeyError for an unknown name,
    `nodeapp.parameters.ParameterError` if the host cannot do what a parameter asks for and with
    what `obstacle` returns, `ProtocolError` for a protocol that cannot be loaded.
    """
    missing = obstacle(name, environment)
    if missing is not None:
        raise ParameterError(missing)
    try:
        return SYSTEMS[name].service(host, environment, parameters)
    except TypeError as error:
        if str(error) != _INTERPRETED:
            raise
        raise ProtocolError(
            f"{name} derives a class from a compiled one: add its file to MODULES in "
            f"testbed/compiling.py and run setup, or set {VARIABLE} to 0"
        ) from None
