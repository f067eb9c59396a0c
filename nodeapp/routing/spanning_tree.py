"""A spanning tree of each connected part of the network, built and kept by the nodes themselves.

The spanning tree protocol (Perlman; IEEE 802.1D) with the loop avoidance of a distance vector that
has sequence numbers (DSDV of Perkins and Bhagwat, with the feasibility condition of RFC 8966, 2.4):

  * Root: the lowest id.  Every node begins as its own root and adopts a lower one.
  * Cost: hops.  A node takes the lowest root, then the shortest path to it; a path to the same root
    that is not `path_gain` hops shorter is no reason to leave a parent.
  * Epoch: the root numbers its beacons, and each node passes the newest number of its parent on at
    once.  What is said of a root expires `root_timeout` after the root said it, wherever it is
    heard (message age and maximum age of 802.1D): the number travels with its age, repeating it
    makes it no younger, and an expired number is not taken again while anyone repeats it.  So a
    dead root vanishes everywhere at the same time, and so does one that never says anything itself.
  * Lies: without signatures, a node that invents ever new epochs of a root cannot be told from the
    path to it, nor can one that repeats the true ones and passes nothing on.  The harm ends with
    the lies, however far ahead the epochs were: they expire `root_timeout` after they were last
    said, and are forgotten two later.  A root that hears of later epochs than it said goes on
    above them, so that one that lost its clock need not wait for that.
  * No loops: a node takes a parent only if what that says of the root is newer, or as new and
    nearer, than all that the node itself has said (feasibility distance).  Then a descendant can
    never be taken, however old the beacons are, and cost cannot count to infinity.
  * Break: a parent that is silent for `hello_timeout`, that beacons from out of range, that no
    longer lists this node, or to which the link layer could not deliver (`link_feedback`).  A node
    without a feasible neighbour is orphaned and says so; with its descendants it waits, each for a
    neighbour outside, which has a newer epoch one beacon later.  Whoever finds one becomes the
    parent of its former parent, and so on up to where the path broke.  If there is none, the root
    expires.

While nodes have different roots (a merge, a root that ended), and after a restart, which forgets
the feasibility distance, parents can be in a loop until the next beacon is heard: an interval of
1.5 B at most if none is lost.  If a link of the loop breaks before that, its ends notice when
the other has been silent for `hello_timeout`; they do not list each other, so it carries nothing.

A link is up if both ends agree: the child names its parent, the parent lists its children.  A
parent that does not list a child within `HANDSHAKE` B has no room (`MAX_CHILDREN`) or does not hear
it, and is no parent for `REFUSED` B.

All this travels in the routing extension of the neighbour table's HELLOs (`nodeapp.routing.
neighbours`, `nodeapp.routing.tree_beacon`).  They are sent early when there is news: a root's
number runs through the whole tree as a wave, and every node beacons about once in B.

After the last change of links there is one tree for each connected part, at the latest after
    max(hello_timeout, root_timeout) + 1.5 B (D + 3)   with D the hops of its longest shortest path
if no beacon is lost: neighbours and roots that are gone have timed out by then, and the lowest root
has reached everyone.  After the last lie it takes 2 root_timeout more.

Sources: docs/papers.md#spanning-tree, docs/papers.md#dsdv; RFC 8966.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.routing.gpsr_parameters import BeaconParameters
from nodeapp.routing.neighbours import Neighbours, require_link_feedback
from nodeapp.routing.tree_beacon import MAX_CHILDREN, MAX_COST, MAX_RAISED, TreeBeacon, decode_tree
from nodeapp.routing.tree_roots import Roots
from nodeapp.wire import Frame, WireError

PROMPTLY: Final = 0.1
"""Share of B within which news is sent; also the least time between two early beacons."""
TICK: Final = 0.5
"""Share of B after which a node looks for what has timed out."""
HANDSHAKE: Final = 4.0
"""Intervals B in which a parent has to list a child."""
REFUSED: Final = 10.0
"""Intervals B for which a neighbour that does not list it is no parent."""
HOLD_DOWN: Final = 3.0
"""Intervals B for which a neighbour counts as gone after the link layer could not reach it."""


@dataclass(frozen=True)
class TreeParameters(BeaconParameters):
    """Parameters of `SpanningTree`."""

    root_timeout: Annotated[
        float, Param("intervals B after which what a root said expires", low=3, high=1000)
    ] = 10.0
    path_gain: Annotated[
        int, Param("hops by which another path to the root must be shorter", low=1, high=64)
    ] = 2
    link_feedback: Annotated[
        bool, Param("the link layer reports frames that were not acknowledged")
    ] = False


class NeighbourClaim(NamedTuple):
    """What a neighbour said last; `issued` and `expires`: of the root's epoch, seconds."""

    beacon: TreeBeacon
    issued: float
    expires: float


class Place(NamedTuple):
    """This node's place in the tree; `issued` and `expires` as in `NeighbourClaim`."""

    root: int
    epoch: int
    cost: int
    parent: int
    orphaned: bool
    issued: float
    expires: float


class SpanningTree:
    """This node's part in the tree.

    `link_up(neighbour)` and `link_down(neighbour)` are called when a link to a neighbour begins
    and ceases to be one of the tree.  `failed(to, datagram)` is called for a datagram that a
    neighbour did not acknowledge, after the link to it went down (`link_feedback`).

    Raises `nodeapp.parameters.ParameterError` if the host's link layer cannot do what a parameter
    asks for.
    """

    def __init__(
        self,
        host: Host,
        parameters: TreeParameters,
        radio_range: float,
        counters: Counter[str],
        link_up: Callable[[int], None],
        link_down: Callable[[int], None],
        failed: Callable[[int, bytes], None] = lambda to, datagram: None,
    ) -> None:
        self.neighbours = Neighbours(host, parameters, radio_range)
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            CommonKind.HELLO: self._hello_received
        }
        self.links: set[int] = set()
        """The neighbours that are links of the tree; not to be changed."""
        self._host = host
        self._counters = counters
        self._link_up, self._link_down, self._failed = link_up, link_down, failed
        self._interval = parameters.hello_interval
        self._path_gain = parameters.path_gain
        self._root_timeout = parameters.root_timeout * parameters.hello_interval
        self._roots = Roots(self._root_timeout)
        self._claims: dict[int, NeighbourClaim] = {}
        self._refused: dict[int, float] = {}
        self._held_down: dict[int, float] = {}
        self._children: tuple[int, ...] = ()
        self._epoch = 0
        self._numbered = -math.inf
        self._place = self._own_place()
        self._unlisted_since = 0.0
        self._news = self._news_due = False
        self._last_beacon = -math.inf
        self.neighbours.extension = self._extension
        self.neighbours.on_change = self._neighbours_changed
        if parameters.link_feedback:
            require_link_feedback(host, self._unacknowledged)

    @property
    def place(self) -> Place:
        """This node's place."""
        return self._place

    @property
    def children(self) -> tuple[int, ...]:
        """The neighbours whose parent this node is."""
        return self._children

    def start(self) -> None:
        """Begin to send beacons."""
        self.neighbours.start()
        self._host.call_later(self._interval * TICK, self._tick)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports of the tree."""
        root, _, cost, parent, orphaned, _, _ = self._place
        links = sorted(self.links)
        return {"root": root, "cost": cost, "parent": parent, "orphaned": orphaned, "links": links}

    def _own_place(self) -> Place:
        node = self._host.node_id
        return Place(node, self._epoch, 0, 0, False, self._numbered, math.inf)

    # What this node says.

    def _extension(self) -> bytes:
        now = self._host.now()
        self._last_beacon = now
        self._news = False
        if self._place.root == self._host.node_id and now - self._numbered >= self._interval / 2:
            self._epoch = max(self._epoch + 1, int(now * 1000))
            self._numbered = now
            self._place = self._own_place()
        root, epoch, cost, parent, orphaned, issued, _ = self._place
        age = math.ceil((now - issued) * 1000)
        return TreeBeacon(root, epoch, age, cost, parent, orphaned, self._children).encode()

    def _announce(self) -> None:
        """Send a beacon soon, unless one is sent meanwhile anyway."""
        self._news = True
        if self._news_due:
            return
        self._news_due = True
        short = self._interval * PROMPTLY
        wait = max(0.0, self._last_beacon + short - self._host.now())
        self._host.call_later(wait + self._host.rng.uniform(0.0, short), self._send_news)

    def _send_news(self) -> None:
        self._news_due = False
        if self._news:
            self.neighbours.beacon_now()

    # What neighbours say.

    def _hello_received(self, frame: Frame, sender: int) -> None:
        self.neighbours.hello_received(frame, sender)
        now = self._host.now()
        if sender not in self.neighbours.table or self._held_down.get(sender, 0.0) > now:
            return
        before = self._claims.get(sender)
        if not frame.route:
            if before is not None:
                del self._claims[sender]
                self._review()
            return
        beacon = decode_tree(frame.route)
        if (beacon.root == sender) != (beacon.cost == 0) or beacon.parent == sender:
            raise WireError("a node with a place that it cannot have")
        if before is not None and before.expires > now:
            earlier = before.beacon
            if beacon.root == earlier.root and beacon.epoch < earlier.epoch:
                self._counters["older epoch"] += 1
                return
        if beacon.root == self._host.node_id:
            if beacon.epoch <= MAX_RAISED:
                self._epoch = max(self._epoch, beacon.epoch)  # said before a restart
            claim = NeighbourClaim(beacon, now, -math.inf)
        else:
            issued = now - beacon.age / 1000
            claim = NeighbourClaim(beacon, issued, self._roots.heard(beacon, issued, now))
        self._claims[sender] = claim
        # Most beacons tell nothing new but the epoch, which matters on the path to the root only.
        place = self._place
        same = before is not None and before.beacon == beacon._replace(
            epoch=before.beacon.epoch, age=before.beacon.age
        )
        if not same or sender == place.parent or place.orphaned or beacon.root < place.root:
            self._review()

    def _neighbours_changed(self) -> None:
        table = self.neighbours.table
        gone = [node for node in self._claims if node not in table]
        for node in gone:
            del self._claims[node]
        if gone:
            self._review()

    def _unacknowledged(self, neighbour: int, datagram: bytes) -> None:
        self._counters["frames not acknowledged"] += 1
        self._held_down[neighbour] = self._host.now() + HOLD_DOWN * self._interval
        self.neighbours.lost(neighbour)
        self._failed(neighbour, datagram)

    def _tick(self) -> None:
        now = self._host.now()
        self.neighbours.current()
        for times in (self._refused, self._held_down):
            for node in [node for node, until in times.items() if until <= now]:
                del times[node]
        self._roots.expire(now, self._place.root)
        self._review()
        self._host.call_later(self._interval * TICK, self._tick)

    # The choice.

    def _review(self) -> None:
        """Choose a place and the links from what neighbours said last."""
        before, children_before = self._place, self._children
        self._choose(self._host.now())
        place = self._place
        node = self._host.node_id
        wishes = [n for n, claim in self._claims.items() if claim.beacon.parent == node]
        kept = [n for n in children_before if n in wishes]
        new = [n for n in wishes if n not in kept]
        self._children = tuple((kept + new)[:MAX_CHILDREN])
        if len(kept) + len(new) > MAX_CHILDREN:
            self._counters["children refused"] += 1
        if before[:5] != place[:5] or children_before != self._children:
            self._announce()
        links = set(self._children)
        if place.parent and node in self._claims[place.parent].beacon.children:
            links.add(place.parent)
        self._apply(links)

    def _apply(self, links: set[int]) -> None:
        down, up = self.links - links, links - self.links
        self.links = links
        for neighbour in sorted(down):
            self._link_down(neighbour)
        for neighbour in sorted(up):
            self._link_up(neighbour)

    def _choose(self, now: float) -> None:
        place = self._place
        if place.expires <= now:
            self._counters["roots ended"] += 1
            place = self._own_place()
        if place.parent:
            place = self._followed(place, now)
        node = self._host.node_id
        claims = self._claims
        best, enough = place.parent, MAX_COST + 2  # the cost that a node at the root has to beat
        if not place.orphaned:
            enough = place.cost - self._path_gain + 1 if place.parent else 0
        best_rank = (min(place.root, node), enough, 0)
        for neighbour, claim in claims.items():
            beacon = claim.beacon
            rank = (beacon.root, beacon.cost + 1, neighbour)
            if rank < best_rank and self._usable(neighbour, claim, now):
                best, best_rank = neighbour, rank
        if best and best != place.parent:
            place = self._below(best, claims[best])
        if place.parent and (place.parent, place.root) != (self._place.parent, self._place.root):
            self._unlisted_since = now
        self._place = place

    def _usable(self, neighbour: int, claim: NeighbourClaim, now: float) -> bool:
        beacon = claim.beacon
        return (
            claim.expires > now
            and not beacon.orphaned
            and beacon.cost < MAX_COST
            and beacon.parent != self._host.node_id
            and neighbour not in self._refused
            and self._roots.feasible(beacon)
        )

    def _below(self, neighbour: int, claim: NeighbourClaim) -> Place:
        beacon = claim.beacon
        cost = beacon.cost + 1
        self._roots.note_place(beacon.root, beacon.epoch, cost)
        return Place(beacon.root, beacon.epoch, cost, neighbour, False, claim.issued, claim.expires)

    def _followed(self, place: Place, now: float) -> Place:
        """Return the place after what the parent said last; without a parent if it is none now."""
        claim = self._claims.get(place.parent)
        if claim is None or not self._listed(claim, place, now):
            return place._replace(parent=0, orphaned=True)
        beacon = claim.beacon
        if beacon.root == place.root and beacon.orphaned:
            return place._replace(orphaned=True)
        if beacon.root <= place.root and self._usable(place.parent, claim, now):
            return self._below(place.parent, claim)
        return place._replace(parent=0, orphaned=True)

    def _listed(self, claim: NeighbourClaim, place: Place, now: float) -> bool:
        """Return whether the parent has this node as a child, or still time to say so."""
        if self._host.node_id in claim.beacon.children:
            self._unlisted_since = now
        elif now - self._unlisted_since > HANDSHAKE * self._interval:
            self._refused[place.parent] = now + REFUSED * self._interval
            self._counters["parents that do not answer"] += 1
            return False
        return True
