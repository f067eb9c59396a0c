"""Cell hash routing: frames go from cell to cell, to the home cell of the cell they are bound for.

The path is that of `nodeapp.routing.cells`.  A node needs to know its own cell and one node in each
populated cell around it, no more; it learns them from beacons, in which it looks at nothing but the
cell that a position lies in.  A node of the next cell is drawn at random: those that know the same
nodes draw the same one for all frames of one event, so that copies for several receivers share
their path.

Two kinds of destinations:

  * `destination` ANY_NODE: whichever node of the home cell gets the frame takes it.  That is the
    target cell itself or, if it is empty, the cell that a tour around the void that it lies in
    finds to be the nearest (the home perimeter).  A cell remembers for `home_memory` seconds that
    it is home to a target, so that not every frame has to make the tour; a node that shares state
    inside the cell tells the others (`remember_home`).  A populated target, or an adjacent cell
    that is nearer, takes the frame whatever is remembered.
  * a node id: the frame goes to the cell where the node was.  A node in or next to the cell of that
    node sends straight to it, and so does one in the target cell that hears it from elsewhere.  If
    the target cell does not have it, the frame is dropped and counted.

Nodes move.  Neighbours are moved on along their velocities (`nodeapp.routing.neighbours`), and
counted in the cells that they are in by then.  A node that has left the cell for which it was drawn
goes on from the one where it is, and sends a beacon when it notices; a node that gets a frame from
it meanwhile no longer believes its last beacon.  A walk along a perimeter that has changed under it
begins again; the time to live bounds it.  With `link_feedback` a frame that a node did not
acknowledge goes to another one of that cell, or takes another path.

Cells larger than the range over 2 sqrt(2) are refused: nodes at the far corners of two of them
would not hear each other, and what one of them routes another might not.  If the cells' graph is
in several parts and the network is not, since links between cells that are not adjacent hold it
together, each part has home cells of its own: this routing knows no such links, and its source
assumes that there are none.

Source: docs/papers.md#georendezvous, section 2.1; docs/papers.md#cell-hash-routing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param, ParameterError
from nodeapp.routing.cell_wire import MAX_HOPS, CellRoute, decode_cell_route
from nodeapp.routing.cells import Cell, CellGrid, largest_side, step
from nodeapp.routing.gpsr_parameters import BeaconParameters
from nodeapp.routing.neighbours import Neighbours, require_link_feedback
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_REPLICA, Frame, decode

SMALLEST_SIDE: Final = 1.0
"""Metres: so large that the routing extension can hold the cell of any position that a frame tells
(up to 1e9 m, `nodeapp.pubsub.fields`)."""
MAX_HOMES: Final = 65_536
"""Most targets to which a cell remembers that it is home."""
_MIX: Final = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio: multiplication by it spreads numbers (Knuth 1973, 6.4)."""
_BITS: Final = 2**64 - 1


@dataclass(frozen=True)
class CellRoutingParameters(BeaconParameters):
    """Parameters of `CellHashRouting`."""

    ttl: Annotated[int, Param("hops a frame may travel per trip", low=1, high=MAX_HOPS)] = 512
    cell_size: Annotated[
        float, Param("m, side of a cell; 0: the largest that fits the range", low=0, high=1e6)
    ] = 0.0
    home_memory: Annotated[
        float, Param("s for which a cell remembers to be home to an empty one", low=0, high=36_000)
    ] = 10.0
    link_feedback: Annotated[
        bool, Param("the link layer reports frames that were not acknowledged")
    ] = False


def grid_of(area: tuple[float, float, float, float], radio_range: float, side: float) -> CellGrid:
    """Return the cells of an area (x0, y0, x1, y1), metres; `side` 0 is the largest that fits.

    Raises `ParameterError` for a side that does not fit the range or is below `SMALLEST_SIDE`, or
    an area within one cell.
    """
    largest = largest_side(radio_range)
    if side > largest:
        raise ParameterError(
            f"cell_size: {side:g} m does not fit a radio range of {radio_range:g} m, nodes in "
            f"adjacent cells might not hear each other: at most {largest:.6g} m (the range over "
            "2 sqrt(2)), or 0 for that"
        )
    side = side or largest
    if side < SMALLEST_SIDE:
        raise ParameterError(
            f"cell_size: cells of {side:.6g} m are too small to be numbered in frames: at least "
            f"{SMALLEST_SIDE:g} m, with a radio range of "
            f"{SMALLEST_SIDE * 2 * math.sqrt(2):.3g} m or more"
        )
    x0, y0, x1, y1 = area
    if max(x1 - x0, y1 - y0) < side:
        raise ParameterError(
            f"cell_size: an area of {x1 - x0:g} m by {y1 - y0:g} m is smaller than a cell of "
            f"{side:.6g} m, so there is nothing to route: enlarge the area or set cell_size"
        )
    return CellGrid(side, (x0, y0))


class CellHashRouting:
    """Routes frames to cells and to nodes.

    `arrived(frame, route)` is called when a frame has come to the node that it is for, or for
    ANY_NODE to a node of the home cell.  `moved(before)` is called when this node has come into
    another cell than the one it was in before.
    """

    def __init__(
        self,
        host: Host,
        parameters: CellRoutingParameters,
        area: tuple[float, float, float, float],
        radio_range: float,
        counters: Counter[str],
        arrived: Callable[[Frame, CellRoute], None],
        moved: Callable[[Cell], None] = lambda before: None,
    ) -> None:
        self.grid = grid_of(area, radio_range, parameters.cell_size)
        self.neighbours = Neighbours(host, parameters, radio_range)
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            CommonKind.HELLO: self.neighbours.hello_received
        }
        self._host = host
        self._ttl = parameters.ttl
        self._memory = parameters.home_memory
        self._counters = counters
        self._arrived = arrived
        self._moved = moved
        self._interval = parameters.hello_interval
        self._was = self.cell()
        self._homes: dict[Cell, float] = {}
        """By target: until when this node's cell is known to be its home."""
        self._around: dict[Cell, list[int]] = {}
        self._near: dict[int, Cell] = {}
        self._around_of: Mapping[int, Point] | None = None
        self._around_at: Cell | None = None
        if parameters.link_feedback:
            require_link_feedback(host, self._unacknowledged)

    def start(self) -> None:
        """Begin to send beacons and to look which cell this node is in."""
        self._was = self.cell()  # before the first fix a node does not know where it is
        self.neighbours.start()
        self._host.call_later(self._interval, self._look)

    # Cells.

    def cell(self) -> Cell:
        """Return the cell that this node is in, by the position that it announces."""
        return self.grid.cell(self.neighbours.position())

    def members(self) -> list[int]:
        """Return the other nodes of this node's cell, as far as they are known."""
        own = self.cell()
        return self._nodes_around(own).get(own, [])

    def populated(self) -> list[Cell]:
        """Return the adjacent cells in which a node is known."""
        own = self.cell()
        return [cell for cell in self._nodes_around(own) if cell != own]

    def _nodes_around(self, own: Cell) -> dict[Cell, list[int]]:
        """Return the known nodes of this cell and the adjacent ones, by cell."""
        positions = self.neighbours.positions()
        if positions is not self._around_of or own != self._around_at:
            around: dict[Cell, list[int]] = {}
            near: dict[int, Cell] = {}
            side, (x0, y0) = self.grid
            column, row = own
            for node, (x, y) in positions.items():
                cell = int((x - x0) // side), int((y - y0) // side)
                if -1 <= cell[0] - column <= 1 and -1 <= cell[1] - row <= 1:
                    around.setdefault(cell, []).append(node)
                    near[node] = cell
            self._around, self._near = around, near
            self._around_of, self._around_at = positions, own
        return self._around

    def _look(self) -> None:
        """See whether this node is still in its cell."""
        try:
            self._notice(self.cell())
        finally:
            self._host.call_later(self._interval, self._look)

    def _notice(self, own: Cell) -> None:
        if own != self._was:
            before, self._was = self._was, own
            self._homes.clear()
            self.neighbours.beacon_now()  # or others would send here what is for the cell it left
            self._moved(before)

    def remember_home(self, target: Cell) -> None:
        """Note that this node's cell is home to a target, as a tour has found out just now."""
        if target in self._homes or len(self._homes) < MAX_HOMES:
            self._homes[target] = self._host.now() + self._memory

    # Frames.

    def send(self, frame: Frame, target: Cell, key: int = 0) -> None:
        """Send a frame on its way; its `hops` are those its event has travelled before (0)."""
        own = self.cell()
        self._forward(frame, CellRoute(target, key, own, self._ttl), own)

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame that a neighbour sent here.  Raises `nodeapp.wire.WireError`."""
        route, own = decode_cell_route(frame.route), self.cell()
        self._nodes_around(own)
        if self._near.get(sender, route.sender) != route.sender:
            # It is not where its last beacon puts it, and would only send the frame back.
            self.neighbours.lost(sender)
        self._forward(frame, route, own)

    def tell_cell(self, frame: Frame, route: CellRoute) -> None:
        """Broadcast a frame that arrived here, once, for the other nodes of this cell to store."""
        replica = frame._replace(
            destination=BROADCAST,
            flags=frame.flags | FLAG_REPLICA,
            ttl=0,
            hops=min(frame.hops + 1, 255),
            route=route._replace(sender=self.cell()).encode(),
        )
        self._host.send(BROADCAST, replica.encode())

    def of_this_cell(self, frame: Frame) -> CellRoute | None:
        """Return the extension of what `tell_cell` of a node in this cell sent, else None.

        If a tour had brought it, this cell is home to its target.  Raises
        `nodeapp.wire.WireError`.
        """
        route, own = decode_cell_route(frame.route), self.cell()
        if route.sender != own:
            return None
        if route.walk is not None and route.walk.entry == own:
            self.remember_home(route.target)
        return route

    def pass_on(self, frame: Frame, route: CellRoute) -> bool:
        """Hand a frame that arrived from another cell to another node of this one, if there is any.

        For a node that has just come into the cell and does not share its state yet.
        """
        own, members = self.cell(), self.members()
        if route.sender == own or not members:
            return False
        self._transmit(frame, self._host.rng.choice(members), route._replace(sender=own))
        return True

    def _forward(self, frame: Frame, route: CellRoute, own: Cell) -> None:
        self._notice(own)
        if frame.destination == self._host.node_id:
            self._arrived(frame, route)
            return
        around = self._nodes_around(own)
        to_node = frame.destination != ANY_NODE
        if to_node and self._sent_straight(frame, route, own):
            return
        following = step(own, [cell for cell in around if cell != own], route.target, route.walk)
        is_home = following.cell is None
        if not to_node and following.walk is not None and following.walk.entry == own:
            # A local minimum; if there is a nearer cell the memory does not count.
            is_home = self._homes.get(route.target, -1.0) > self._host.now()
        if is_home:
            self._at_home(frame, route, own)
            return
        assert following.cell is not None
        to = self._drawn(frame, around[following.cell])
        self._transmit(frame, to, route._replace(sender=own, walk=following.walk))

    def _sent_straight(self, frame: Frame, route: CellRoute, own: Cell) -> bool:
        """Send a frame for a node to it if it is near; drop it if it is not where it should be."""
        known = frame.destination in self._near
        if not known and own == route.target:
            known = frame.destination in self.neighbours.positions()
            if not known:
                self._counters["destination unreachable"] += 1
                return True
        if known:
            self._transmit(frame, frame.destination, route._replace(sender=own, walk=None))
        return known

    def _at_home(self, frame: Frame, route: CellRoute, own: Cell) -> None:
        if frame.destination != ANY_NODE:
            self._counters["destination unreachable"] += 1
            return
        if own != route.target and route.walk is not None and route.walk.entry == own:
            self._counters["served as the home cell"] += 1
            self.remember_home(route.target)
        self._arrived(frame, route)

    def _drawn(self, frame: Frame, nodes: list[int]) -> int:
        """Return one of the nodes of a cell: for the frames of one event always the same."""
        if len(nodes) == 1:
            return nodes[0]
        if frame.kind != CommonKind.EVENT:
            return self._host.rng.choice(nodes)
        return draw(frame.publisher, frame.sequence, nodes)

    def _transmit(self, frame: Frame, to: int, route: CellRoute) -> None:
        if route.left == 0:
            self._counters["time to live used up"] += 1
            return
        if route.walk is not None:
            self._counters["perimeter hops"] += 1
        route = route._replace(left=route.left - 1)
        hops, ttl = min(frame.hops + 1, 255), min(route.left, 255)
        self._host.send(to, frame._replace(ttl=ttl, hops=hops, route=route.encode()).encode())

    def _unacknowledged(self, neighbour: int, datagram: bytes) -> None:
        """Forget a node that is out of reach; send to another of its cell, or by another path."""
        self._counters["frames not acknowledged"] += 1
        own = self.cell()
        around = self._nodes_around(own)
        cell = self._near.get(neighbour)
        others = [] if cell is None else [node for node in around[cell] if node != neighbour]
        self.neighbours.lost(neighbour)
        frame = decode(datagram)
        route = decode_cell_route(frame.route)
        again = frame._replace(hops=frame.hops - 1)
        if frame.destination == neighbour:
            self._counters["destination unreachable"] += 1
        elif others:
            self._transmit(again, self._host.rng.choice(others), route)
        else:
            self._forward(again, route._replace(sender=own, walk=None), own)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports: the cell, and how many nodes are known in each one around."""
        own = self.cell()
        around = self._nodes_around(own)
        return {
            "cell": list(own),
            "cells": {f"{column},{row}": len(nodes) for (column, row), nodes in around.items()},
        }


def draw(publisher: int, sequence: int, nodes: Iterable[int]) -> int:
    """Return one of several nodes, at random by the id of an event: the same for everybody."""
    mixed = (publisher << 32 | sequence) * _MIX & _BITS

    def weight(node: int) -> int:
        value = (node ^ mixed) * _MIX & _BITS
        return (value ^ value >> 29) * _MIX & _BITS

    return max(nodes, key=weight)
