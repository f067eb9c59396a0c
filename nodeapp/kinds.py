"""Kinds of messages: a protocol declares its own, in its own file; here is the registry of all.

    class GossipKind(Kind):
        RUMOUR = 10, Role.EVENT

The number is a byte of every frame's header (`nodeapp.wire`).  Numbers and names are unique: a
class that claims one that another class has is refused when it is made, so at the import of its
file.  The role tells code that knows no protocol by name what a message is for: a switch, a queue,
the analyses.

The registry has what this process has imported, so a node knows the kinds of its own protocol
only.  Code that reads frames of any protocol calls `nodeapp.pubsub.registry.kinds`, which imports
all, and who makes a scenario `clash`.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Any, Final, Self


class TrafficClass(IntEnum):
    """Classes of messages between nodes; the value is the code point in the DS field of IPv4.

    So a switch or a capture filter can tell them apart without the wire format.  The code points
    are of pool 2, for local use (RFC 2474, section 6: xxxx11), and their precedence, the upper
    three bits, is 0: 802.11 sends all classes in the access category of best effort.
    """

    EVENTS = 0b000000
    PUBSUB_CONTROL = 0b000011
    ROUTING_CONTROL = 0b000111


class Role(Enum):
    """What a kind of message is for."""

    CONTROL = auto()
    """Whatever else a publish/subscribe protocol has to say."""
    EVENT = auto()
    """It carries an event."""
    INTEREST = auto()
    """It takes a subscription to a node that decides where events go."""
    DEMAND = auto()
    """It tells publishers' nodes who wants their events: without it they do not know."""
    ROUTING = auto()
    """Beacons and messages of the routing below."""

    @property
    def traffic_class(self) -> TrafficClass:
        """The class of messages between nodes."""
        if self is Role.EVENT:
            return TrafficClass.EVENTS
        return TrafficClass.ROUTING_CONTROL if self is Role.ROUTING else TrafficClass.PUBSUB_CONTROL


FIRST_CLIENT_KIND: Final = 64
"""Kinds from this number on travel only between a node and its clients (`ClientKind`)."""


class Kind(IntEnum):
    """Kinds of messages of one protocol; a subclass with members declares them."""

    role: Role

    def __new__(cls, number: int, role: Role = Role.CONTROL) -> Self:
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.role = role
        return kind

    def __init_subclass__(cls, *, of_clients: bool = False, **arguments: Any) -> None:
        """Declare the members.

        Raises `KindError` for a number or a name that is taken, ValueError for one that is wrong.
        """
        super().__init_subclass__(**arguments)
        for name, kind in cls.__members__.items():
            if name != kind.name:
                raise ValueError(f"{kind!r} has two names: it is {name} as well")
        numbers = range(FIRST_CLIENT_KIND, 256) if of_clients else range(1, FIRST_CLIENT_KIND)
        for kind in cls:
            if kind not in numbers:
                raise ValueError(
                    f"{kind!r}: numbers of its kind are {numbers.start} to {numbers.stop - 1}"
                )
            for other in KINDS.values():
                if (kind == other or kind.name == other.name) and not _is_again(kind, other):
                    raise KindError(kind, other)
        for kind in cls:
            KINDS[int(kind)] = kind
            CLASSES[int(kind)] = kind.role.traffic_class


class KindError(ValueError):
    """A kind whose number or name another one, the `holder`, has."""

    def __init__(self, kind: Kind, holder: Kind) -> None:
        super().__init__(f"{kind!r} is {holder!r} of {type(holder).__module__} already")
        self.kind = kind
        self.holder = holder


def _is_again(kind: Kind, other: Kind) -> bool:
    """Return whether a kind is one that is declared already, as its file is imported again."""
    return (type(kind).__module__, repr(kind)) == (type(other).__module__, repr(other))


KINDS: Final[dict[int, Kind]] = {}
"""The kinds that are declared, by number."""
CLASSES: Final[dict[int, TrafficClass]] = {}
"""Their traffic classes: every frame is looked up here."""


class CommonKind(Kind):
    """What protocols share: beacons, whose bodies depend on the routing, and plain events."""

    HELLO = 1, Role.ROUTING
    EVENT = 2, Role.EVENT


class ClientKind(Kind, of_clients=True):
    """Messages between a node and its clients, over loopback."""

    SUBSCRIBE = 65
    UNSUBSCRIBE = 66
    PUBLISH = 67
    NOTIFY = 68
    STATUS = 69
    ACK = 70
    ADVERTISE = 71
    NAVIGATE = 72


def name_of(number: int) -> str:
    """Return the name of a kind, or its number if no file that is imported declares it."""
    return KINDS[number].name if number in KINDS else str(number)


def event_kinds() -> frozenset[int]:
    """Return the numbers of the kinds that carry events, of those that are declared."""
    return frozenset(number for number, kind in KINDS.items() if kind.role is Role.EVENT)
