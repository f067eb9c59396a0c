"""AODV's broken links and routes: what is given up, repaired and reported (RFC 3561, 6.11).

Three cases: a link breaks (i), a frame comes for which there is no route (ii), a neighbour reports
broken routes (iii).

Source: docs/papers.md#aodv; what ns-2 does differently: `aodv_ns2`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable

from nodeapp.host import Host
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_blacklist import Blacklist
from nodeapp.routing.aodv_errors import ErrorSender
from nodeapp.routing.aodv_links import LinkMonitor
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_repair import Repairs
from nodeapp.routing.aodv_table import RouteTable
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import Frame, decode


class Breaks:
    """The broken links and routes of one node; `send` sends an own frame over another route.

    `control` has the kinds of AODV's own frames.
    """

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        table: RouteTable,
        links: LinkMonitor,
        blacklist: Blacklist,
        errors: ErrorSender,
        repairs: Repairs,
        counters: Counter[str],
        control: Container[int],
        send: Callable[[Frame], None],
    ) -> None:
        self._host = host
        self._parameters = parameters
        self._table = table
        self._links = links
        self._blacklist = blacklist
        self._errors = errors
        self._repairs = repairs
        self._counters = counters
        self._control = control
        self._send = send

    def link_broken(self, neighbour: int, now: float, over: Iterable[int] | None = None) -> None:
        """Give up the routes over a neighbour that is lost (case i), or let them be repaired.

        `over` are the destinations of the routes over it, if they are known.
        """
        self._links.forget(neighbour)
        self._drop_queued(neighbour)
        repairable = self._repairs.hops_of_link()
        broken = self._table.break_link(neighbour, now, repairable, over)
        if broken:
            self._counters["links broken"] += 1
            self._errors.tell(broken, now, own=True)

    def _drop_queued(self, neighbour: int) -> None:
        if self._parameters.withdraw_queue:
            self._counters["frames withdrawn"] += len(self._host.withdraw(neighbour))

    def unacknowledged(self, neighbour: int, datagram: bytes) -> None:
        """Take the link layer's report that a link is broken.

        Own frames take another route, those of others wait for a repair.  Each attempt costs
        them one of their time to live, so they end.
        """
        self._counters["frames not acknowledged"] += 1
        now = self._host.now()
        frame = decode(datagram)
        if frame.kind in self._control:
            if self._parameters.control_breaks:
                self.link_broken(neighbour, now)
            if frame.kind == AodvKind.ROUTE_REPLY:
                self._blacklist.failed(neighbour)
            return
        frame = frame._replace(hops=frame.hops - 1)
        received = frame._replace(ttl=frame.ttl + 1)
        if self._repairs.take_alone(received, frame, now):
            return
        self.link_broken(neighbour, now)
        if frame.originator != self._host.node_id:
            self._repairs.take_back(frame, now)
        elif self._parameters.salvage:
            self._send(frame)

    def no_route(self, destination: int, sender: int, now: float) -> None:
        """Tell the sender of a frame that there is no route (case ii)."""
        self._counters["no route"] += 1
        route = self._table.known(destination, now)
        sequence = aodv_wire.NO_SEQUENCE
        if route is not None:
            self._table.keep(route, now)
            if route.known:
                sequence = route.sequence
        self._errors.send([(destination, sequence)], {sender}, now)

    def error_received(self, frame: Frame, sender: int) -> None:
        """Take a ROUTE_ERROR (case iii).  Raises `WireError`."""
        flags, unreachable = aodv_wire.decode_errors(frame.body)
        now = self._host.now()
        self._links.heard(sender, now)
        if flags & aodv_wire.NO_DELETE:
            self._repairs.longer(unreachable, sender, now)
            return
        broken = []
        for destination, sequence in unreachable:
            number = sequence if sequence != aodv_wire.NO_SEQUENCE else None
            invalidated = self._table.break_route(destination, sender, number, now)
            if invalidated is not None:
                broken.append((destination, *invalidated))
        if broken:
            self._drop_queued(sender)
        self._errors.tell(broken, now)
