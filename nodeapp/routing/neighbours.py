"""One-hop neighbours: beacons with position and velocity (GPSR, section 2.1).

Every node broadcasts a HELLO each `hello_interval` B, jittered by 50% so that neighbours do not
stay in step: intervals are uniform in [0.5 B, 1.5 B].  A neighbour not heard for 4.5 B is gone
(T of GPSR: three times the longest interval).  Data that carry their sender's position are as good
as beacons to those who hear them (`Neighbours.learn`), and if all around do, the sender's next
beacon is an interval away from them (`Neighbours.announced`).  Another part of the node may have
something to tell its neighbours too: it goes along as the routing extension of the beacons
(`Neighbours.extension`), and they may be sent early (`Neighbours.beacon_now`).

GPSR also removes a neighbour when the link layer gives up on a frame to it (2.1, 2.5;
`Neighbours.lost`), of which a UDP socket learns nothing.  Without that, a neighbour that has moved
away swallows frames until it times out, and greedy forwarding prefers just those at the edge of the
range.  Beacons therefore carry velocities, and tables are read with every neighbour moved on along
its own, without those that must be out of range by now: the neighbour location prediction of Son,
Helmy and Krishnamachari, whose lost-link problem this is.  `prediction` turns it off, as in GPSR.

Beacons are short and sent at the lowest rate, so they are heard from farther away than longer
frames are (the grey zone of Lundgren, Nordstrom and Tschudin), and greedy forwarding again prefers
just those neighbours.  A neighbour beyond the nominal radio range is therefore not used, unless
`beyond_range` says so, as in GPSR: of use when shadowing makes some far links good ones.

The body of a HELLO is the CBOR array of the four binary64 floats x, y, vx, vy; as its layout is
fixed, one struct reads and writes it.

Sources: docs/papers.md#gpsr, docs/papers.md#location-errors, docs/papers.md#grey-zones.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final

from nodeapp.geometry import Point, nudge, squared_distance
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError
from nodeapp.routing.gpsr_parameters import BeaconParameters
from nodeapp.wire import BROADCAST, Frame, Whereabouts, WireError

_HELLO: Final = struct.Struct(">BBdBdBdBd")
_ARRAY_OF_4: Final = 0x84
_BINARY64: Final = 0xFB
_HEADS: Final = (_ARRAY_OF_4, _BINARY64, _BINARY64, _BINARY64, _BINARY64)
LIMIT: Final = 1e9
"""Metres, and metres a second: no coordinate or velocity is larger."""
TOLERANCE: Final = 0.01
"""Metres added to the radio range: announced positions are off by less than that."""
INSTANT: Final = 1e-6
"""Seconds: timers that are closer are due at once."""
MAX_NEIGHBOURS: Final = 256
"""Most neighbours that are remembered, the nearest: any id can be claimed on the air, and what is
computed from all of them, such as a planar graph, must not take long."""


class Neighbour:
    """A neighbour according to its last beacon: position, velocity, and when it was heard.

    `squared_reach`: how far it can be and be heard; the radio range, or the distance over which it
    was heard if that was more (without prediction it is not used, and is the range).
    """

    __slots__ = ("heard", "squared_reach", "vx", "vy", "x", "y")

    def __init__(
        self, x: float, y: float, vx: float, vy: float, heard: float, squared_reach: float
    ) -> None:
        self.x = x
        self.y = y
        self.vx = vx
        self.vy = vy
        self.heard = heard
        self.squared_reach = squared_reach


def encode_hello(x: float, y: float, vx: float, vy: float) -> bytes:
    """Return the body of a HELLO."""
    return _HELLO.pack(_ARRAY_OF_4, _BINARY64, x, _BINARY64, y, _BINARY64, vx, _BINARY64, vy)


def decode_hello(body: bytes) -> tuple[float, float, float, float]:
    """Return x, y, vx, vy of a HELLO's body.  Raises `WireError`."""
    if len(body) != _HELLO.size:
        raise WireError("not the body of a HELLO")
    array, head_x, x, head_y, y, head_vx, vx, head_vy, vy = _HELLO.unpack(body)
    if (array, head_x, head_y, head_vx, head_vy) != _HEADS:
        raise WireError("not the body of a HELLO")
    # Written so that NaN fails.
    if not (abs(x) < LIMIT and abs(y) < LIMIT and abs(vx) < LIMIT and abs(vy) < LIMIT):
        raise WireError("a position or velocity is not a finite number of metres")
    return x, y, vx, vy


class _LastHello:
    """The HELLO that was decoded last: a simulator hands one to all who hear it, one by one."""

    __slots__ = ("body", "vx", "vy", "x", "y")

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.x = self.y = self.vx = self.vy = 0.0


_LAST: Final = _LastHello()


def require_link_feedback(host: Host, failed: Callable[[int, bytes], None]) -> None:
    """Have `failed(to, datagram)` called for what a neighbour did not acknowledge.

    Raises `ParameterError` if the host's link layer does not report it.
    """
    if not host.watch_links(failed):
        raise ParameterError(
            "link_feedback: this link layer does not tell of frames that were not "
            "acknowledged by their receiver: leave it off"
        )


class Neighbours:
    """Sends this node's beacons and keeps the table of its neighbours."""

    def __init__(self, host: Host, parameters: BeaconParameters, radio_range: float) -> None:
        self._host = host
        self._prediction = parameters.prediction
        self._squared_range = (radio_range + TOLERANCE) ** 2
        self._beyond_range = parameters.beyond_range
        self._interval = parameters.hello_interval
        self._jitter = parameters.hello_jitter * parameters.hello_interval
        self._timeout = parameters.hello_timeout * parameters.hello_interval
        self._table: dict[int, Neighbour] = {}
        self._next_expiry = 0.0
        self._nudge = nudge(host.node_id)
        self._positions: dict[int, Point] | None = None
        self._positions_at = 0.0
        self._all_still = True
        self._due = 0.0
        self.turned_away = 0
        """Beacons of nodes for which `MAX_NEIGHBOURS` nearer ones left no room."""
        self.on_change: Callable[[], None] | None = None
        """Called when a neighbour has come or gone."""
        self.extension: Callable[[], bytes] | None = None
        """Returns the routing extension of the next beacon."""
        self.began = 0
        """When this node began, for those who have to know; beacons have it as their sequence."""

    @property
    def table(self) -> Mapping[int, Neighbour]:
        """The neighbours as they were heard last, even if that was long ago, by id."""
        return self._table

    def start(self) -> None:
        """Begin to send beacons, the first at a random time of the first interval."""
        self._host.call_later(self._host.rng.uniform(0.0, self._interval), self._beacon)

    def position(self) -> Point:
        """Return where this node is, as it announces itself (see `nodeapp.geometry`)."""
        position = self._host.position()
        return position.x + self._nudge[0], position.y + self._nudge[1]

    def whereabouts(self) -> Whereabouts:
        """Return where this node is, as it announces itself, and its velocity."""
        _, _, vx, vy = self._host.position()
        return Whereabouts(*self.position(), vx, vy)

    def _beacon(self) -> None:
        host = self._host
        early = self._due - host.now()
        if early > INSTANT:  # data have been its beacon meanwhile
            host.call_later(early, self._beacon)
            return
        self._send()
        host.call_later(self._wait(), self._beacon)

    def _send(self) -> None:
        route = b"" if self.extension is None else self.extension()
        body = encode_hello(*self.whereabouts())
        frame = Frame(
            CommonKind.HELLO, self._host.node_id, sequence=self.began, route=route, body=body
        )
        self._host.send(BROADCAST, frame.encode())

    def beacon_now(self) -> None:
        """Send a beacon, and the next one after the longest interval if nothing comes between."""
        self._due = self._host.now() + self._interval + self._jitter
        self._send()

    def _wait(self) -> float:
        return self._interval + self._host.rng.uniform(-self._jitter, self._jitter)

    def announced(self) -> None:
        """Note that all around have just heard where this node is: its beacon timer starts again.

        (GPSR, 2.1: "When any node sends a data packet, it can then reset its inter-beacon timer.")
        """
        self._due = self._host.now() + self._wait()

    def hello_received(self, frame: Frame, sender: int) -> None:
        """Take a HELLO.  Raises `WireError` if it is malformed or another node's."""
        if frame.originator != sender:
            raise WireError("a HELLO is not relayed")
        last = _LAST
        if last.body is not frame.body:
            last.x, last.y, last.vx, last.vy = decode_hello(frame.body)
            last.body = frame.body
        self.learn(sender, last.x, last.y, last.vx, last.vy)

    def learn(self, sender: int, x: float, y: float, vx: float, vy: float) -> None:
        """Take note of where a neighbour that was just heard is, and of its velocity."""
        reach = self._squared_range
        if self._prediction or not self._beyond_range or len(self._table) >= MAX_NEIGHBOURS:
            own = self.position()
            distance = squared_distance((x, y), own)
            if distance > reach:
                if not self._beyond_range:
                    self.lost(sender)
                    return
                reach = distance
            if sender not in self._table and not self._has_room(distance, own):
                self.turned_away += 1
                return
        known = self._table.get(sender)
        if known is None:
            now = self._host.now()
            self._table[sender] = Neighbour(x, y, vx, vy, now, reach)
            self._next_expiry = min(self._next_expiry, now + self._timeout)
            self._positions = None
            self._changed()
            return
        # A fixed neighbour is heard forever.
        known.heard, known.squared_reach = max(known.heard, self._host.now()), reach
        if known.x != x or known.y != y or known.vx != vx or known.vy != vy:
            known.x, known.y, known.vx, known.vy = x, y, vx, vy
            self._positions = None

    def learn_from_data(self, sender: int, at: Whereabouts) -> None:
        """Take note of where a neighbour was when it queued data that were just heard.

        Beacons may overtake data in a queue, so that data tell an older position than the known
        one.  It is then behind that, in the neighbour's direction: the neighbour went from the
        older to the newer along one velocity and then, if it turned between, along the other.
        """
        known = self._table.get(sender)
        if known is not None:
            along_x, along_y = at.vx + known.vx, at.vy + known.vy
            if (at.x - known.x) * along_x + (at.y - known.y) * along_y < 0.0:
                now = self._host.now()
                if self._prediction and known.heard < now:  # it has gone on since then
                    known.x += known.vx * (now - known.heard)
                    known.y += known.vy * (now - known.heard)
                    self._positions = None
                known.heard = max(known.heard, now)
                return
        self.learn(sender, *at)

    def _has_room(self, distance: float, own: Point) -> bool:
        """Return whether there is room for one at a squared distance; a farther one gives way."""
        if len(self._table) < MAX_NEIGHBOURS or len(self.current()) < MAX_NEIGHBOURS:
            return True
        farthest, node = max(
            (squared_distance((other.x, other.y), own), node) for node, other in self._table.items()
        )
        if farthest <= distance:
            return False
        self.lost(node)
        return True

    def know(self, node: int, x: float, y: float) -> None:
        """Keep a node that stands still as a neighbour forever, without beacons."""
        self._table[node] = Neighbour(x, y, 0.0, 0.0, math.inf, self._squared_range)

    def lost(self, node: int) -> None:
        """Forget a neighbour, if it is one, until it is heard again."""
        if self._table.pop(node, None) is not None:
            self._positions = None
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def current(self) -> dict[int, Neighbour]:
        """Return the neighbours heard lately, by id; the table itself, not to be changed."""
        now = self._host.now()
        if now >= self._next_expiry:
            oldest = now - self._timeout
            gone = [node for node, neighbour in self._table.items() if neighbour.heard < oldest]
            for node in gone:
                del self._table[node]
                self._positions = None
            if gone:
                self._changed()
            # None can expire before the one that has now been unheard for the longest.
            earliest = min((neighbour.heard for neighbour in self._table.values()), default=now)
            self._next_expiry = earliest + self._timeout
        return self._table

    def positions(self) -> dict[int, Point]:
        """Return where the neighbours are, metres, by id; not to be changed.

        The same object for as long as nothing has changed.
        """
        table = self.current()
        now = self._host.now()
        known = self._positions
        predicts = self._prediction
        if known is not None and (self._positions_at == now or (self._all_still and not predicts)):
            return known
        _, _, vx, vy = self._host.position()
        if known is not None and self._all_still and not (vx or vy):  # nor has this one moved
            return known
        self._positions_at = now
        self._all_still = not predicts or not (
            vx or vy or any(neighbour.vx or neighbour.vy for neighbour in table.values())
        )
        if self._all_still:
            self._positions = {node: (other.x, other.y) for node, other in table.items()}
        else:
            self._positions = self._predicted(table, now)
        return self._positions

    def position_of(self, node: int) -> Point | None:
        """Return where a neighbour is, within range or not; None for one that is not known."""
        position = self.positions().get(node)
        if position is None and node in self._table:
            known = self._table[node]
            age = max(self._host.now() - known.heard, 0.0)
            position = (known.x + known.vx * age, known.y + known.vy * age)
        return position

    def _predicted(self, table: dict[int, Neighbour], now: float) -> dict[int, Point]:
        ox, oy = self.position()
        positions = {}
        for node, neighbour in table.items():
            age = max(now - neighbour.heard, 0.0)  # a fixed one is heard at all times
            px, py = neighbour.x + neighbour.vx * age, neighbour.y + neighbour.vy * age
            if (px - ox) * (px - ox) + (py - oy) * (py - oy) <= neighbour.squared_reach:
                positions[node] = (px, py)
        return positions
