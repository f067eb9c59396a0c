"""GPSR: greedy perimeter stateless routing.

A frame carries the location it is bound for.  Greedy mode: it goes to the neighbour nearest to
that location, if that is nearer than this node.  If none is, it enters perimeter mode at this
node x (Lp) and walks the faces of the planar Gabriel graph that the line from x to the location D
passes through, by the right-hand rule.  At an edge that crosses the line nearer to D than where
the face was entered (Lf), it turns into the next face instead of crossing.  A node nearer to D
than x puts it back to greedy mode.

A frame about to take the first edge of the face (e0) again has toured the face: D cannot be
reached.  Two outcomes of that:
  * a frame for one node (`destination` is its id) is dropped and counted;
  * a frame for whichever node is nearest (`destination` ANY_NODE) is there.  The node nearest to D
    is on the border of the face that holds D, a frame that reaches it finds no nearer one, enters
    perimeter mode there, and tours just this face: it is the home node of GHT (section 4.1).

A node that has the destination among its neighbours sends straight to it, wherever D is.

Nodes move while a frame walks, if only by millimetres, and one such case would repeat endlessly:
x itself, a little nearer to D than it was, seems to be progress, or its edges seem to cross the
line.  The frame therefore carries the id of x as well (`entry`): x never puts it back to greedy
mode, and an edge of x never crosses the line, as neither would if x stood still.  With
`entry_counts` x is a node like any other, as in the paper: a frame that comes back to x while x
drives nearer to D is greedy again, and tours the void once more if that leads nowhere.

What the published GPSR has from its radio are options, as a UDP socket has none of it:

  * `link_feedback` (2.1, 2.5): a neighbour that did not acknowledge a frame, however often the
    link layer tried, is forgotten at once, and the frame is forwarded again, to another one.  A
    frame that this node had put into perimeter mode is greedy again; one that came here in that
    mode goes on from the edge that it came by.  Each attempt costs one of its time to live.
  * `withdraw_queue` (2.5): so are the frames that wait in the interface queue for that neighbour.
  * `piggyback` (2.1): data carry their sender's position, as good as a beacon to all who hear them.
  * `promiscuous` (2.1, 2.5): all in range hear them, whoever they are for; after sending data a
    node's next beacon is therefore a whole interval away.
  * `replanarize` (2.5): the paper works out the planar graph when a neighbour comes or goes, not
    when one moves ("neighbours"); here it is also done when positions have changed ("positions").

The walk relies on the paper's assumptions: links are those of a unit disk and beacons are fresh.
When nodes move, ends of an edge may differ about it.  A walk that comes over an edge that its other
end does not have can go round a face without its first edge; in the paper, and here, the time to
live ends it.  With `edges_once` a node knows the edges that it sent a frame along lately: a
frame about to take one of them again on the same face has toured it, as at the first edge.  Whoever
finds that is near the location, and need not be the nearest node.

Sources: docs/papers.md#gpsr; of the home node, docs/papers.md#ght; of walks that do not end,
docs/papers.md#face-routing-pitfalls.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from nodeapp.geometry import (
    Point,
    bearing,
    crossing,
    gabriel_neighbours,
    nearest,
    next_counterclockwise,
    squared_distance,
)
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import ParameterError
from nodeapp.routing.gpsr_parameters import GpsrParameters
from nodeapp.routing.neighbours import Neighbours, require_link_feedback
from nodeapp.wire import (
    ANY_NODE,
    Frame,
    GeoRoute,
    WireError,
    decode,
    decode_geo_route,
    split_sender,
    with_sender,
)

WALKS: Final = 256
"""Perimeter frames sent lately of which it is known how they came here; more than a queue holds."""
EDGES: Final = 1024
"""Edges along which perimeter frames were sent lately, with `edges_once`."""


class Gpsr:
    """Routes frames to locations.

    `deliver(frame, location)` is called when a frame has arrived: at the node it is for, or for
    ANY_NODE at the nearest one.  `capture(frame, location)` is called before that at every node a
    frame passes, the first one included; if it returns True the frame goes no further.
    `neighbours` is the node's table of neighbours if another part of it keeps one.

    Raises `ParameterError` if the host's radio cannot do what a parameter asks for.
    """

    def __init__(
        self,
        host: Host,
        parameters: GpsrParameters,
        radio_range: float,
        counters: Counter[str],
        deliver: Callable[[Frame, Point], None],
        capture: Callable[[Frame, Point], bool],
        neighbours: Neighbours | None = None,
        toured: Callable[[Frame, Point], bool] | None = None,
    ) -> None:
        self.neighbours = neighbours or Neighbours(host, parameters, radio_range)
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            CommonKind.HELLO: self.neighbours.hello_received
        }
        self._take_toured = toured
        self._host = host
        self._ttl = parameters.ttl
        self._counters = counters
        self._deliver = deliver
        self._capture = capture
        self._planar: dict[int, Point] = {}
        self._planar_of: dict[int, Point] | None = None
        self._planar_at = (0.0, 0.0)
        self._renewed = True
        self._walks: OrderedDict[bytes, tuple[GeoRoute, int]] = OrderedDict()
        """By datagram in perimeter mode: how it was and by whom it was sent when it came here."""
        self._edges: OrderedDict[Hashable, None] | None = None
        """Edges along which this node sent frames of walks lately; None if they are not used."""
        if parameters.edges_once:
            self._edges = OrderedDict()
        self._piggyback = parameters.piggyback
        self._put_off_beacons = parameters.piggyback and parameters.promiscuous
        self._feedback = parameters.link_feedback
        self._withdraw = parameters.withdraw_queue
        self._entry_counts = parameters.entry_counts
        self._use_radio(parameters)
        self._on_change_only = parameters.replanarize == "neighbours"
        if self._on_change_only:
            self.neighbours.on_change = self._neighbours_changed

    def _use_radio(self, parameters: GpsrParameters) -> None:
        if parameters.withdraw_queue and not parameters.link_feedback:
            raise ParameterError("withdraw_queue: needs link_feedback, which tells of lost links")
        if parameters.promiscuous and not parameters.piggyback:
            raise ParameterError("promiscuous: needs piggyback, without which data tell nothing")
        if parameters.link_feedback:
            require_link_feedback(self._host, self._unacknowledged)
        if parameters.promiscuous and not self._host.overhear(self._overheard):
            raise ParameterError(
                "promiscuous: radios here get no frames that are for other nodes: leave it off"
            )

    def start(self) -> None:
        """Begin to send beacons."""
        self.neighbours.start()

    def send(self, frame: Frame, location: Point) -> None:
        """Send a frame on its way; its `hops` are those its event has travelled before (0)."""
        self._forward(frame._replace(ttl=self._ttl, route=b""), GeoRoute(*location), 0)

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame that a neighbour sent here.  Raises `WireError`."""
        route, whereabouts = split_sender(frame.route)
        geo = decode_geo_route(route)
        if whereabouts is not None:
            self.neighbours.learn_from_data(sender, whereabouts)
        self._forward(frame, geo, sender)

    def overheard(self, frame: Frame, sender: int) -> None:
        """Take a position from a frame that is not for this node to route; nothing if it has none.

        Raises `WireError`.
        """
        _, whereabouts = split_sender(frame.route)
        if whereabouts is not None:
            self.neighbours.learn_from_data(sender, whereabouts)

    def _overheard(self, frame: Frame, sender: int) -> None:
        try:
            self.overheard(frame, sender)
        except WireError:
            self._counters["malformed"] += 1

    def located(self, frame: Frame) -> Frame:
        """Return a frame that is about to be broadcast with what `piggyback` adds to it."""
        if not self._piggyback:
            return frame
        self.neighbours.announced()
        return frame._replace(route=with_sender(frame.route, self.neighbours.whereabouts()))

    def _unacknowledged(self, neighbour: int, datagram: bytes) -> None:
        """Forget a neighbour that is out of reach; find another path for what was sent there.

        Each attempt costs a frame one of its time to live, so they end.
        """
        self._counters["frames not acknowledged"] += 1
        self.neighbours.lost(neighbour)
        waiting = self._host.withdraw(neighbour) if self._withdraw else []
        self._counters["frames withdrawn"] += len(waiting)
        for unsent in (datagram, *waiting):
            self._forward_again(unsent, neighbour)

    def _forward_again(self, datagram: bytes, neighbour: int) -> None:
        frame = decode(datagram)
        frame = frame._replace(hops=frame.hops - 1)
        if self._edges is not None:
            route, _ = split_sender(frame.route)
            self._edges.pop(_edge(frame, decode_geo_route(route), neighbour), None)
        before = self._walks.pop(datagram, None)
        if before is not None:
            self._forward(frame, *before)
        else:
            route, _ = split_sender(frame.route)
            geo = decode_geo_route(route)
            self._forward(frame, GeoRoute(geo.x, geo.y), 0)

    def _forward(self, frame: Frame, geo: GeoRoute, sender: int) -> None:
        location = (geo.x, geo.y)
        if self._capture(frame, location):
            return
        if frame.destination == self._host.node_id:
            self._deliver(frame, location)
            return
        neighbours = self.neighbours.positions()
        if frame.destination in neighbours:  # ANY_NODE is the id of no neighbour
            self._transmit(frame, frame.destination, GeoRoute(geo.x, geo.y))
            return
        own = self.neighbours.position()
        distance = squared_distance(own, location)
        if (
            geo.entered is not None
            and (self._entry_counts or geo.entry != self._host.node_id)
            and distance < squared_distance(geo.entered, location)
        ):
            geo = GeoRoute(geo.x, geo.y)
        if geo.entered is None:
            best, best_distance = nearest(location, neighbours)
            if best is not None and best_distance < distance:
                self._transmit(frame, best, geo)
            else:
                self._enter_perimeter(frame, geo, own)
        else:
            self._walk(frame, geo, geo.entered, own, sender)

    def _enter_perimeter(self, frame: Frame, geo: GeoRoute, own: Point) -> None:
        toward = bearing(own, (geo.x, geo.y))
        first = next_counterclockwise(own, toward, self._planar_neighbours(own))
        if first is None:
            self._toured(frame, (geo.x, geo.y))
            return
        edge = (self._host.node_id, first)
        geo = GeoRoute(geo.x, geo.y, own, own, edge, self._host.node_id)
        self._transmit(frame, first, geo)

    def _walk(self, frame: Frame, geo: GeoRoute, entered: Point, own: Point, sender: int) -> None:
        """Choose the next edge of the face, or of the next face if the line leaves this one."""
        before = self.neighbours.position_of(sender)
        if before is None:
            # Its beacons were all lost so far: the edge that the frame came by has no direction.
            self._counters["perimeter re-entered"] += 1
            self._enter_perimeter(frame, geo, own)
            return
        planar = self._planar_neighbours(own)
        # The clock goes on: the sender is not where it was an instant ago.
        following = next_counterclockwise(own, bearing(own, before), planar, last=sender)
        if following is None or (self._host.node_id, following) == geo.edge:
            self._toured(frame, (geo.x, geo.y))
            return
        location = (geo.x, geo.y)
        came, face = geo, geo.face
        for _ in planar:  # at most once around
            if geo.entry in (self._host.node_id, following) and not self._entry_counts:
                break  # an edge of x touches the line at x, wherever x has gone since
            point = crossing(own, planar[following], entered, location)
            if point is None or not (
                squared_distance(point, location) < squared_distance(face, location)
            ):
                break
            face = point
            following = next_counterclockwise(own, bearing(own, planar[following]), planar)
            assert following is not None
            geo = geo._replace(face=face, edge=(self._host.node_id, following))
        if self._edges is not None and self._took(_edge(frame, geo, following)):
            self._counters["walks that closed without their first edge"] += 1
            self._toured(frame, location)
            return
        self._transmit(frame, following, geo, (came, sender))

    def _took(self, edge: Hashable) -> bool:
        """Return whether an edge was taken lately; it is from now on."""
        assert self._edges is not None
        if edge in self._edges:
            return True
        self._edges[edge] = None
        if len(self._edges) > EDGES:
            self._edges.popitem(last=False)
        return False

    def _toured(self, frame: Frame, location: Point) -> None:
        if self._take_toured is not None and self._take_toured(frame, location):
            return
        if frame.destination == ANY_NODE:
            self._counters["served as the nearest node"] += 1
            self._deliver(frame, location)
        else:
            self._counters["destination unreachable"] += 1

    def _transmit(
        self, frame: Frame, to: int, geo: GeoRoute, came: tuple[GeoRoute, int] | None = None
    ) -> None:
        """Send a frame to a neighbour; `came`: in which state and from whom it came in a walk."""
        if frame.ttl == 0 or frame.hops == 255:
            self._counters["time to live used up"] += 1
            return
        if geo.entered is not None:
            self._counters["perimeter hops"] += 1
        route = geo.encode()
        if self._piggyback:
            route = with_sender(route, self.neighbours.whereabouts())
        datagram = frame.forwarded(route).encode()
        if self._feedback and came is not None:
            self._walks[datagram] = came
            if len(self._walks) > WALKS:
                self._walks.popitem(last=False)
        self._host.send(to, datagram)
        if self._put_off_beacons:
            self.neighbours.announced()

    def _neighbours_changed(self) -> None:
        """Keep who is where now, of which the planar graph is made when it is needed."""
        table = self.neighbours.table
        self._planar_of = {node: (neighbour.x, neighbour.y) for node, neighbour in table.items()}
        self._planar_at = self.neighbours.position()
        self._renewed = False

    def _planar_neighbours(self, own: Point) -> dict[int, Point]:
        positions = self.neighbours.positions()
        if self._on_change_only:
            if not self._renewed and self._planar_of is not None:
                self._planar = gabriel_neighbours(self._planar_at, self._planar_of)
                self._renewed = True
            return {node: positions[node] for node in self._planar if node in positions}
        if positions is not self._planar_of or own != self._planar_at:
            self._planar = gabriel_neighbours(own, positions)
            self._planar_of, self._planar_at = positions, own
        return self._planar

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports: neighbours, a few hundred at most, with their positions."""
        known = sorted(self.neighbours.current().items())[:500]
        return {
            "neighbours": {str(n): [round(at.x, 2), round(at.y, 2)] for n, at in known},
            "neighbours turned away": self.neighbours.turned_away,
        }


def _edge(frame: Frame, geo: GeoRoute, to: int) -> Hashable:
    """Return a key that is the same if a frame is sent to that neighbour on that face again."""
    return (
        *(frame.kind, frame.originator, frame.destination, frame.publisher, frame.sequence),
        *(frame.body, geo.entry, geo.entered, geo.face, to),
    )
