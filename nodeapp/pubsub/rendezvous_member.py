"""A node's part in the rendezvous cell that it is in: it shares the cell's state and acts for it.

The node that gets a message which changes the state tells the others of the cell in one broadcast,
and is responsible for what follows from it: it forwards a subscription to a publisher (DEMAND), or
a prune if no subscriber takes that publisher's events here any more.

Nodes come and go.  One that comes into a cell, or starts in it, asks for the state, with a
broadcast; one node of the cell answers, and one of each adjacent cell, with what belongs to targets
to which the new node's cell is nearer.  One that leaves routes what it has to the home cells of its
targets: as a rule one hop back, but if it was the last, to the next home cell.

Source: docs/papers.md#georendezvous, sections 2.1 to 2.3.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.host import Host, Timer
from nodeapp.kinds import CommonKind, Kind
from nodeapp.pubsub.messages import (
    Stamps,
    TopicKind,
    decode_advertisement,
    decode_located,
    encode_advertisement,
    issuer_of,
)
from nodeapp.pubsub.rendezvous_cell import (
    CellKind,
    Entry,
    Key,
    RendezvousState,
    decode_prune,
    decode_state,
    encode_prune,
    encode_state,
)
from nodeapp.routing.cell_hash_routing import CellHashRouting
from nodeapp.routing.cell_wire import CellRoute, decode_cell_route
from nodeapp.routing.cells import Cell, adjacent, rank
from nodeapp.wire import BROADCAST, FLAG_EXPLORE, FLAG_REPLICA, Frame, WireError

ANSWER_JITTER: Final = 0.05
"""Seconds in which the nodes of a cell answer one that asks for its state; the first one does."""
RACE: Final = 0.1
"""Seconds within which two nodes of a cell may not have told each other yet what they got."""


class MemberNode(Protocol):
    """What a member of a cell needs of the rest of its node."""

    host: Host
    router: CellHashRouting
    counters: Counter[str]
    stamps: Stamps

    def location(self) -> Point:
        """Return where the node is, metres."""

    def target(self, key: Key) -> Cell | None:
        """Return the cell that a rendezvous point hashes to; None for a replica not in use."""

    def send_to_point(self, kind: Kind, key: Key, body: bytes) -> None:
        """Send a message to a rendezvous cell."""

    def for_this_node(self, frame: Frame, replica: int) -> None:
        """Take a frame that is for this node as a publisher or a subscriber."""


class RendezvousMember:
    """One node of rendezvous cells; `state` is that of the cell it is in."""

    def __init__(self, node: MemberNode, timeout: float) -> None:
        self.state = RendezvousState(timeout)
        self._node = node
        self._host = node.host
        self._counters = node.counters
        self._handled: dict[Key, float] = {}
        """By rendezvous point: when this node was the one that got a subscription."""
        self._pruned: dict[tuple[Key, int], float] = {}
        """By rendezvous point and publisher: when this node was the one that got a prune."""
        self._answers: dict[tuple[int, Cell], Timer] = {}
        """Timers of answers to nodes that ask for a cell's state, by node and own cell."""

    def expire(self, now: float) -> None:
        """Forget what was not refreshed in time."""
        self.state.expire(now)
        self._handled = {key: at for key, at in self._handled.items() if at + RACE > now}
        self._pruned = {pair: at for pair, at in self._pruned.items() if at + RACE > now}

    # What arrives for the cell.

    def arrived(self, frame: Frame, route: CellRoute) -> None:
        """Take a frame for a rendezvous cell, which this node's cell is."""
        now, replica = self._host.now(), route.key
        if frame.kind == CommonKind.EVENT:
            self._relay(frame, route)
            return
        if frame.kind == CellKind.CELL_STATE:
            self._store_state(frame)
            self._node.router.tell_cell(frame, route)
            return
        self._counters["served as rendezvous"] += 1
        if frame.kind == CellKind.PRUNE:
            topic, publisher, stamp = decode_prune(frame.body)
            key = topic, replica
            changed = self.state.prune(key, frame.originator, publisher, stamp)
            self._node.router.tell_cell(frame, route)
            self._pruned[key, publisher] = now
            if changed and not self.state.wants(key, publisher, now):
                self._tell_publisher(CellKind.PRUNE, key, publisher)
            return
        entry = self._entry(frame, replica)
        key = entry.key
        waiting = []
        if entry.subscription is not None:
            advertisers = self.state.advertisers(key, now)
            waiting = [p.node for p in advertisers if not self.state.wants(key, p.node, now)]
        news = self._store(entry, frame)
        self._node.router.tell_cell(frame, route)
        if not news:
            self._counters["stale messages"] += 1
        elif entry.subscription is None:
            waiting = [entry.node]
        else:
            self._handled[key] = now
        for publisher in waiting:
            if self.state.wants(key, publisher, now):
                self._tell_publisher(CellKind.DEMAND, key, publisher)

    def _entry(self, frame: Frame, replica: int) -> Entry:
        """Return what an ADVERTISEMENT or a SUBSCRIPTION says.  Raises `WireError`."""
        now, node = self._host.now(), issuer_of(frame)
        if frame.kind == TopicKind.ADVERTISEMENT:
            topic, location, stamp = decode_advertisement(frame.body)
            entry = Entry((topic, replica), node, stamp, now, location, None)
        else:
            location, stamp, item = decode_located(frame.body)
            wanted = Subscription.decode(item).filter.topic
            if wanted is None:
                raise WireError("a filter without a topic")
            entry = Entry((wanted, replica), node, stamp, now, location, item)
        if self._node.target(entry.key) is None:
            raise WireError("a replica out of range")
        return entry

    def _tell_publisher(self, kind: Kind, key: Key, publisher: int) -> None:
        """Send a publisher a DEMAND or a PRUNE, as the node that is responsible."""
        now, (topic, replica) = self._host.now(), key
        known = [entry for entry in self.state.advertisers(key, now) if entry.node == publisher]
        if not known:
            return
        stamp = self._node.stamps.next(now)
        if kind == CellKind.DEMAND:
            body = encode_advertisement(topic, self._node.location(), stamp)
        else:
            body = encode_prune(topic, publisher, self._node.location(), stamp)
        frame = Frame(kind, self._host.node_id, publisher, hops=0, body=body)
        if publisher == self._host.node_id:
            self._node.for_this_node(frame, replica)
        else:
            self._node.router.send(frame, self._node.router.grid.cell(known[0].location), replica)

    def _relay(self, frame: Frame, route: CellRoute) -> None:
        """Send an event on to the subscribers of a rendezvous point."""
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        if event.topic is None:
            raise WireError("an event without a topic")
        key = event.topic, route.key
        if key not in self.state and self._node.router.pass_on(frame, route):
            self._counters["events passed on in the cell"] += 1
            return
        takers = self.state.takers(key, event, self._host.now())
        if not takers:
            self._counters["events that nobody takes here"] += 1
        me, cell = self._host.node_id, self._node.router.grid.cell
        for node, location in takers.items():
            if node == event.publisher:
                continue  # it handed the event to its own clients when it published it
            copy = frame._replace(originator=me, destination=node)
            if node == me:
                self._node.for_this_node(copy, route.key)
            else:
                self._node.router.send(copy, cell(location), route.key)

    def replica_received(self, frame: Frame) -> None:
        """Store what another node of this cell has received."""
        if frame.kind == CellKind.CELL_STATE:
            route = decode_cell_route(frame.route)
            if route.sender == self._node.router.cell():
                self._no_answer_needed(frame.destination)
            if route.target == self._node.router.cell() or route.sender == self._node.router.cell():
                self._store_state(frame)
            return
        copied = self._node.router.of_this_cell(frame)
        if copied is None:
            return
        if frame.kind == CellKind.PRUNE:
            topic, publisher, stamp = decode_prune(frame.body)
            key, now = (topic, copied.key), self._host.now()
            changed = self.state.prune(key, frame.originator, publisher, stamp)
            raced = self._pruned.get((key, publisher), -RACE) + RACE > now
            if changed and raced and not self.state.wants(key, publisher, now):
                # The node that got this prune did not know of the one that came here meanwhile.
                self._tell_publisher(CellKind.PRUNE, key, publisher)
        elif frame.kind in (TopicKind.ADVERTISEMENT, TopicKind.SUBSCRIPTION):
            entry = self._entry(frame, copied.key)
            known = frame.originator in self.state.publishers(entry.key)
            self._store(entry, frame)
            if frame.kind == TopicKind.ADVERTISEMENT and not known:
                now = self._host.now()
                raced = self._handled.get(entry.key, -RACE) + RACE > now
                if raced and self.state.wants(entry.key, entry.node, now):
                    # The node that got the advertisement did not know of the subscription here.
                    self._tell_publisher(CellKind.DEMAND, entry.key, entry.node)

    def _store(self, entry: Entry, frame: Frame) -> bool:
        """Store what a frame says; return whether it was news."""
        explore = bool(frame.flags & FLAG_EXPLORE)
        return self.state.store(entry, explore=explore, taken=frame.publisher)

    def _store_state(self, frame: Frame) -> None:
        for entry in decode_state(frame.body, self._host.now()):
            if self._node.target(entry.key) is not None:
                self.state.store(entry)

    # Nodes that come and go.

    def moved(self) -> None:
        """Hand over the state of the cell that this node has left; ask for that of the new one."""
        now = self._host.now()
        self.state.expire(now)
        left = {key: list(self.state.entries(key)) for key in self.state.points()}
        self.state.clear()
        for timer in self._answers.values():
            timer.cancel()
        self._answers.clear()
        for key, entries in left.items():
            for body in encode_state(entries, now):
                self._counters["states handed over"] += 1
                self._node.send_to_point(CellKind.CELL_STATE, key, body)
        self.ask()

    def ask(self) -> None:
        """Ask the nodes around for the state of this node's cell."""
        own = self._node.router.cell()
        route = CellRoute(own, 0, own).encode()
        frame = Frame(CellKind.CELL_STATE_REQUEST, self._host.node_id, BROADCAST, route=route)
        self._host.send(BROADCAST, frame.encode())

    def state_requested(self, frame: Frame, sender: int) -> None:
        """Have one node of this cell answer a node that has just come, here or next to here."""
        asks, own = decode_cell_route(frame.route).sender, self._node.router.cell()
        asked = sender, own
        if not self.state or asked in self._answers or not (asks == own or adjacent(asks, own)):
            return
        wait = self._host.rng.uniform(0.0, ANSWER_JITTER)
        self._answers[asked] = self._host.call_later(wait, self._answer, asked, asks)

    def _answer(self, asked: tuple[int, Cell], asks: Cell) -> None:
        del self._answers[asked]
        now, own = self._host.now(), self._node.router.cell()
        sender, cell = asked
        if own != cell:
            return
        entries = [
            entry
            for key in self.state.points()
            if self._is_nearer(asks, own, key)
            for entry in self.state.entries(key)
        ]
        route = CellRoute(asks, 0, own).encode()
        for body in encode_state(entries, now):
            self._counters["states told"] += 1
            frame = Frame(
                CellKind.CELL_STATE,
                self._host.node_id,
                sender,
                flags=FLAG_REPLICA,
                route=route,
                body=body,
            )
            self._host.send(BROADCAST, frame.encode())

    def _is_nearer(self, cell: Cell, own: Cell, key: Key) -> bool:
        """Return whether a cell is as near to a rendezvous point as this one, or is this one."""
        target = self._node.target(key)
        return target is not None and rank(cell, target) <= rank(own, target)

    def _no_answer_needed(self, node: int) -> None:
        timer = self._answers.pop((node, self._node.router.cell()), None)
        if timer is not None:
            timer.cancel()
