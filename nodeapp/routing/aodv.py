"""AODV: ad hoc on-demand distance vector routing (RFC 3561, whose names and sections these are).

A node that has a frame for a destination without a route floods a ROUTE_REQUEST in rings of
growing TTL (6.4), each request with a new id; the frame waits.  Requests leave routes back to
their originator behind (6.5).  The destination, or an intermediate node with a fresh enough route
to it, sends a ROUTE_REPLY back along these (6.6), which leaves routes to the destination (6.7).
Routes last for as long as they are used, and `ACTIVE_ROUTE_TIMEOUT` longer.  A node whose link to
a next hop breaks, or that gets a frame it has no route for, sends a ROUTE_ERROR to the neighbours
that send frames over it (6.11).

The parts: `aodv_table` has the routes and the rules for sequence numbers, `aodv_search` the rings
and the frames that wait, `aodv_links` hellos and lost neighbours, `aodv_blacklist` neighbours that
hear nothing, `aodv_breaks` broken links and routes, `aodv_errors` the sending of errors,
`aodv_repair` local repair, which is an option, `aodv_wire` the bodies of messages, and `aodv_ns2`
what ns-2 does differently, a setting for each clause.

What the RFC leaves open:
  * precursors are also the neighbours that frames for a destination came from, so that errors
    reach users of reverse routes, which replies leave out; an error because there is no route goes
    to the sender of the frame, too;
  * a node that has a better route than a reply it is to forward sends that on instead of
    dropping the reply, which leaves the node that asked without one;
  * a data frame keeps the route back to its originator alive (6.2) only if it comes over the
    next hop of that route, at every node so far (FLAG_ONE_WAY): a frame that comes another way
    would keep a route alive whose other nodes let it expire, and it would swallow frames;
  * a node does not answer a request of its own next hop to the destination;
  * sequence numbers begin at the clock, 100 a second, so that they grow over a restart.  A
    restarted node does not wait for DELETE_PERIOD (6.13): routes of others over it may loop until
    the first frame that takes them, which it answers with an error.

Left out: a new search at an originator that is told of a longer route (6.12, optional); multicast,
subnets, several interfaces.

Source: docs/papers.md#aodv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Final

from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_blacklist import Blacklist
from nodeapp.routing.aodv_breaks import Breaks
from nodeapp.routing.aodv_errors import ErrorSender
from nodeapp.routing.aodv_links import LinkMonitor
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_repair import Repairs
from nodeapp.routing.aodv_search import Searches, SeenRequests
from nodeapp.routing.aodv_table import AodvRoute, RouteTable, following, is_reached, newer, raised
from nodeapp.routing.aodv_wire import ACKNOWLEDGE, DESTINATION_ONLY, GRATUITOUS, UNKNOWN, AodvKind
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_ONE_WAY, Frame, WireError

__all__ = ["Aodv", "AodvParameters"]

CLOCK_RATE: Final = 100
"""Sequence numbers per second of the clock, at which they begin after a restart."""


class Aodv:
    """Routes frames to node ids.

    `deliver(frame)` is called when a frame has arrived at the node it is for, `unreachable(node)`
    when a search has found no route.  `replaces(frame)` returns a key: of this node's frames with
    one key only the newest waits for a route.  None is the key of what replaces no other.
    """

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        counters: Counter[str],
        deliver: Callable[[Frame], None],
        replaces: Callable[[Frame], Hashable] = lambda frame: None,
        unreachable: Callable[[int], None] = lambda node: None,
    ) -> None:
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            CommonKind.HELLO: self._hello_received,
            AodvKind.ROUTE_REQUEST: self._request_received,
            AodvKind.ROUTE_REPLY: self._reply_received,
            AodvKind.ROUTE_REPLY_ACK: self._acknowledgement_received,
        }
        self.table = RouteTable(parameters.delete_period)
        self.sequence = 1 + int(host.now() * CLOCK_RATE) % 0x7FFFFFFF
        """This node's own sequence number."""
        self._host = host
        self._me = host.node_id
        self._parameters = parameters
        self._counters = counters
        self._deliver = deliver
        self._active_timeout = parameters.active_route_timeout
        self._data_refreshes = parameters.data_refreshes
        self._data_precursors = parameters.data_precursors
        self._drop_loops = parameters.drop_loops
        self._request_id = self.sequence
        self._seen = SeenRequests(parameters.path_discovery_time)
        self._links = LinkMonitor(host, parameters)
        self._blacklist = Blacklist(host, parameters, counters)
        errors = ErrorSender(host, parameters, self.table, counters, self._links.broadcast)
        self._searches = Searches(
            host,
            parameters,
            self.table,
            counters,
            self._send_request,
            self._search_failed,
            unreachable,
            replaces,
        )
        self._repairs = Repairs(
            *(self._me, host.now(), parameters, self.table, self._searches, errors, counters)
        )
        self._breaks = Breaks(
            *(host, parameters, self.table, self._links, self._blacklist, errors, self._repairs),
            *(counters, self.handlers, self._send),
        )
        self.handlers[AodvKind.ROUTE_ERROR] = self._breaks.error_received
        self._next_cleaning = 0.0

    def start(self) -> None:
        """Begin to say hello when it is due, and to watch neighbours."""
        if self._parameters.link_feedback and self._host.watch_links(self._breaks.unacknowledged):
            self._links.rely_on_feedback()
        first = self._host.rng.uniform(0.0, self._parameters.hello_interval)
        self._host.call_later(first, self._tick)

    # Data frames.

    def send(self, frame: Frame, location: Point = (0.0, 0.0)) -> None:
        """Send a frame to its destination, when there is a route; the location is not used.

        Its `hops` are those its event has travelled before (0).
        """
        destination = frame.destination
        if destination in (ANY_NODE, BROADCAST):
            raise ValueError("AODV carries frames to one node")
        flags = frame.flags & ~FLAG_ONE_WAY
        frame = frame._replace(ttl=self._parameters.net_diameter, flags=flags, route=b"")
        if destination == self._me:
            self._deliver(frame)
        else:
            self._send(frame)

    def _send(self, frame: Frame) -> None:
        """Send a frame of this node's own, or let it wait for a route."""
        now = self._host.now()
        route = self._route(frame.destination, now)
        if route is not None and not route.in_repair:
            self._transmit(frame, route, now)
        else:
            self._searches.add(frame)

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a data frame that a neighbour forwarded here.  Raises `WireError`."""
        destination = frame.destination
        if destination in (ANY_NODE, BROADCAST):
            raise WireError("a data frame for no node")
        if self._drop_loops and frame.originator == self._me:
            self._counters["own frames that came back"] += 1
            return
        now = self._host.now()
        self._links.heard(sender, now)
        expires = now + self._active_timeout
        self._links.on_active_route(expires)
        if self._data_refreshes:
            self.table.extend(sender, sender, now, expires)
            one_way = frame.flags & FLAG_ONE_WAY
            if not one_way and not self.table.extend(frame.originator, sender, now, expires):
                frame = frame._replace(flags=frame.flags | FLAG_ONE_WAY)
        if destination == self._me:
            self._deliver(frame)
            return
        route = self._route(destination, now)
        if route is not None and route.in_repair:
            self._searches.add(frame)
        elif route is not None:
            if self._data_precursors:
                route.precursors.add(sender)
            self._transmit(frame, route, now)
        elif not self._repairs.take(frame, sender, now):
            self._breaks.no_route(destination, sender, now)

    def _route(self, destination: int, now: float) -> AodvRoute | None:
        """Return a valid route over a neighbour that is not lost."""
        route = self.table.valid(destination, now)
        if route is not None and self._links.is_lost(route.next_hop, now):
            self._breaks.link_broken(route.next_hop, now)
            return None
        return route

    def _transmit(self, frame: Frame, route: AodvRoute, now: float, wait: float = 0.0) -> None:
        if frame.ttl == 0 or frame.hops == 255:
            self._counters["time to live used up"] += 1
            return
        next_hop = route.next_hop
        expires = now + self._active_timeout
        self._links.on_active_route(expires)
        route.extend(expires)
        if self._data_refreshes:
            self.table.extend(next_hop, next_hop, now, expires)
        self._links.used(next_hop, now)
        datagram = frame.forwarded().encode()
        if wait > 0.0:
            self._host.call_later(wait, self._host.send, next_hop, datagram)
        else:
            self._host.send(next_hop, datagram)

    def _send_waiting(self, destination: int, now: float, pacing: float = 0.0) -> None:
        """Send what waits for a route to a destination, if there is one now.

        `pacing` are the seconds between two frames.
        """
        if destination not in self._searches:
            return
        route = self._route(destination, now)
        if route is not None and not route.in_repair:
            self._repairs.done(destination, route, now)
            for number, frame in enumerate(self._searches.finish(destination, route.hops)):
                self._transmit(frame, route, now, number * pacing)

    def _search_failed(self, destination: int) -> None:
        self._repairs.failed(destination, self._host.now())

    # Requests and replies.

    def _send_request(self, destination: int, ttl: int) -> None:
        """Send a request of this node's own (6.3)."""
        self.sequence = following(self.sequence)
        self._request_id = following(self._request_id)
        flags = GRATUITOUS if self._parameters.gratuitous_reply else 0
        if self._parameters.destination_only:
            flags |= DESTINATION_ONLY
        sequence = 0
        before = self.table.known(destination, self._host.now())
        if before is not None and before.known:
            sequence = before.sequence
        else:
            flags |= UNKNOWN
        body = aodv_wire.RouteRequest(flags, self._request_id, sequence, self.sequence).encode()
        self._counters["route requests"] += 1
        self._links.broadcast(
            Frame(AodvKind.ROUTE_REQUEST, self._me, destination, ttl=ttl - 1, body=body)
        )

    def _request_received(self, frame: Frame, sender: int) -> None:
        """Take a ROUTE_REQUEST (6.5).  Raises `WireError`."""
        request = aodv_wire.decode_request(frame.body)
        originator, target = frame.originator, frame.destination
        for node in (originator, target):
            if node in (ANY_NODE, BROADCAST):
                raise WireError("a ROUTE_REQUEST between no nodes")
        now = self._host.now()
        if self._blacklist.refuses(sender, now):
            return
        self._neighbour_heard(sender, None, now, now + self._active_timeout)
        if originator == self._me:
            self.sequence = raised(self.sequence, request.originator_sequence)
            return
        if not self._seen.add(originator, request.request, now):
            return
        parameters = self._parameters
        expires = now + parameters.reverse_lifetime(frame.hops)
        before = self.table.valid(originator, now)
        if before is not None and before.expires > expires:
            expires = before.expires
        sequence = request.originator_sequence
        if self.table.learn(originator, sequence, frame.hops, sender, now, expires, own=True):
            self._send_waiting(originator, now)
        else:
            self.table.extend(originator, sender, now, expires)
        if target == self._me:
            self._reply_as_destination(originator, request, now)
            return
        route = self.table.known(target, now)
        if route is not None and route.known:
            if self._may_reply(route, request, frame.hops, sender, now):
                self._reply_for(originator, target, route, request, now)
                return
            if request.flags & UNKNOWN or newer(route.sequence, request.destination_sequence):
                request = request._replace(
                    flags=request.flags & ~UNKNOWN, destination_sequence=route.sequence
                )
                frame = frame._replace(body=request.encode())
        if frame.ttl > 0 and frame.hops < 255:
            relayed = frame.forwarded()
            if parameters.jitter > 0.0:
                delay = self._host.rng.uniform(0.0, parameters.jitter)
                self._host.call_later(delay, self._links.broadcast, relayed)
            else:
                self._links.broadcast(relayed)

    def _may_reply(
        self, route: AodvRoute, request: aodv_wire.RouteRequest, hops: int, sender: int, now: float
    ) -> bool:
        """Return whether this node replies with its route to the destination of a request (6.6).

        Not with one that may have expired by the time that the reply has led the first frame here.
        """
        if not route.valid or request.flags & DESTINATION_ONLY:
            return False
        if not request.flags & UNKNOWN and newer(request.destination_sequence, route.sequence):
            return False
        if not self._parameters.reply_checks:
            return True
        if route.next_hop == sender:
            return False
        way = (2 * hops + route.hops) * self._parameters.node_traversal_time
        if route.expires - now < way:
            return False
        if self._links.is_lost(route.next_hop, now):
            self._breaks.link_broken(route.next_hop, now)
            return False
        return True

    def _reply_as_destination(
        self, originator: int, request: aodv_wire.RouteRequest, now: float
    ) -> None:
        if not request.flags & UNKNOWN and is_reached(request.destination_sequence, self.sequence):
            self.sequence = request.destination_sequence
        if self._parameters.reply_raises:
            self.sequence = following(self.sequence)
        lifetime = self._parameters.reply_lifetime
        reply = aodv_wire.RouteReply(self._me, self.sequence, 0, lifetime)
        self._send_reply(originator, self._reply_frame(originator), reply, now)

    def _reply_for(
        self,
        originator: int,
        target: int,
        route: AodvRoute,
        request: aodv_wire.RouteRequest,
        now: float,
    ) -> None:
        """Reply as an intermediate node (6.6.2), and tell the destination if asked to (6.6.3)."""
        back = self._route(originator, now)
        if back is None:
            self._counters["no route for a reply"] += 1
            return
        self._counters["replies for others"] += 1
        lifetime = route.expires - now
        reply = aodv_wire.RouteReply(target, route.sequence, route.hops, lifetime)
        route.precursors.add(back.next_hop)
        back.precursors.add(route.next_hop)
        self._send_reply(originator, self._reply_frame(originator), reply, now)
        if request.flags & GRATUITOUS and back.known:
            lifetime = back.expires - now
            gratuitous = aodv_wire.RouteReply(originator, back.sequence, back.hops, lifetime)
            self._send_reply(target, self._reply_frame(target), gratuitous, now)

    def _reply_frame(self, to: int) -> Frame:
        return Frame(AodvKind.ROUTE_REPLY, self._me, to, ttl=self._parameters.net_diameter - 1)

    def _send_reply(
        self, to: int, frame: Frame, reply: aodv_wire.RouteReply, now: float
    ) -> AodvRoute | None:
        """Send a reply along the route to the node that asked; return that route, if any."""
        back = self._route(to, now)
        if back is None:
            self._counters["no route for a reply"] += 1
            return None
        self._links.on_active_route(now + max(reply.lifetime, self._active_timeout))
        back.extend(now + self._active_timeout)
        if self._parameters.reply_ack:
            reply = reply._replace(flags=ACKNOWLEDGE)
            self._blacklist.expect(back.next_hop)
        self._host.send(back.next_hop, frame._replace(body=reply.encode()).encode())
        return back

    def _acknowledgement_received(self, frame: Frame, sender: int) -> None:
        """Take a ROUTE_REPLY_ACK (6.8).  Raises `WireError`."""
        aodv_wire.check_acknowledgement(frame.body)
        self._links.heard(sender, self._host.now())
        self._blacklist.acknowledged(sender)

    def _reply_received(self, frame: Frame, sender: int) -> None:
        """Take a ROUTE_REPLY (6.7).  Raises `WireError`."""
        reply = aodv_wire.decode_reply(frame.body)
        if frame.destination in (ANY_NODE, BROADCAST):
            raise WireError("a ROUTE_REPLY for no node")
        now = self._host.now()
        if reply.flags & ACKNOWLEDGE:
            answer = Frame(AodvKind.ROUTE_REPLY_ACK, self._me, sender, body=aodv_wire.ACK_BODY)
            self._host.send(sender, answer.encode())
        self._neighbour_heard(sender, None, now, now + self._active_timeout)
        target, lifetime = reply.destination, min(reply.lifetime, self._parameters.reply_lifetime)
        if target == self._me:
            self.sequence = raised(self.sequence, reply.sequence)
        if target == self._me or reply.hops == 255:
            return
        expires = now + lifetime
        learnt = self.table.learn(target, reply.sequence, reply.hops + 1, sender, now, expires)
        self._links.on_active_route(expires)
        if frame.destination == self._me:
            self._searches.answered(target, reply.hops + 1, now)
        self._send_waiting(target, now, self._parameters.buffer_pacing)
        if frame.destination == self._me:
            return
        route = self._route(target, now)
        stale = not learnt and not self._parameters.better_replies
        if stale or route is None or not route.known or newer(reply.sequence, route.sequence):
            self._counters["stale replies"] += 1
            return
        if frame.ttl == 0 or frame.hops == 255:
            self._counters["time to live used up"] += 1
            return
        better = aodv_wire.RouteReply(target, route.sequence, route.hops, route.expires - now)
        back = self._send_reply(frame.destination, frame.forwarded(), better, now)
        if back is not None:
            route.precursors.add(back.next_hop)
            neighbour = self.table.valid(route.next_hop, now)
            if neighbour is not None and self._data_precursors:
                neighbour.precursors.add(back.next_hop)

    # Neighbours (6.9).

    def _tick(self) -> None:
        """Give up neighbours that are lost, clean the table, say hello if it is due."""
        now = self._host.now()
        lost = self._links.lost(now)
        if lost:
            over = self.table.over(lost)  # of all at once: there may be many
            for neighbour in lost:
                self._breaks.link_broken(neighbour, now, over[neighbour])
        if now >= self._next_cleaning:
            self._next_cleaning = now + self._parameters.delete_period
            self.table.expire(now)
        self._host.call_later(self._links.say_hello(self.sequence, now), self._tick)

    def _hello_received(self, frame: Frame, sender: int) -> None:
        """Take a HELLO.  Raises `WireError` if it is malformed or another node's."""
        if frame.originator != sender:
            raise WireError("a HELLO is not relayed")
        hello = aodv_wire.decode_hello(frame.body)
        now = self._host.now()
        lifetime = self._links.hello_heard(sender, hello.lifetime, now)
        if lifetime > 0.0:
            self._neighbour_heard(sender, hello.sequence, now, now + lifetime)

    def _neighbour_heard(
        self, neighbour: int, sequence: int | None, now: float, expires: float
    ) -> None:
        self._links.heard(neighbour, now)
        if not self._parameters.neighbour_routes:
            return
        self.table.learn_neighbour(neighbour, sequence, now, expires)
        self._send_waiting(neighbour, now)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports: valid routes, a few hundred at most, by destination."""
        now = self._host.now()
        valid = [
            (destination, [route.next_hop, route.hops])
            for destination, route in sorted(self.table.items())
            if route.valid and route.expires > now
        ]
        return {
            "routes": {str(destination): route for destination, route in valid[:500]},
            "searches": len(self._searches),
        }
