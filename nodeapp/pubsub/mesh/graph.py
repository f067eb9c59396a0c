"""The brokers' acyclic graph: subscriptions go along it to all brokers, events come back.

Reverse path forwarding with covering (docs/papers.md#subscription-forwarding): tables are kept the
same at both ends of each link by `nodeapp.pubsub.table_links`.  The graph is the self-maintaining
spanning tree of the brokers, or a fixed one that follows from the map
(`nodeapp.pubsub.mesh.broker_map`), which needs no beacons and does not survive a broker.

When is a subscription propagated?  When a client has got a new serving broker, the old one holds
its patterns still, so every broker has entries towards the old one, and events come to some broker
on the path between the two in any case.  Missing are the entries on that path towards the new one.
The new broker therefore sends PROPAGATED along the graph to the old one, as an event that matches
the pattern would go; each broker on the path hands it to the next only after that has acknowledged
a pattern towards the new broker that covers it.  Links keep the order of frames.  So when
PROPAGATED reaches the old broker, all events that came to it alone have come before, and later ones
pass the new broker as well: propagation has ended, and the old broker may stop.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.pubsub.interests import MAX_BYTES
from nodeapp.pubsub.table_links import TableLinks
from nodeapp.wire import Frame


class Graph(TableLinks):
    """This broker's part in the graph."""

    def __init__(
        self,
        host: Host,
        table_limit: int,
        retry: float,
        break_delay: float,
        counters: Counter[str],
    ) -> None:
        super().__init__(host, table_limit, retry, break_delay, counters)
        self._waiting: dict[tuple[Frame, bytes, int], None] = {}
        """Frames that wait for a link to know a pattern: frame, pattern, link."""
        self._room = MAX_BYTES
        """Bytes for which there still is room."""

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports of the graph."""
        return {"graph": sorted(self.links), "table entries": len(self.table)}

    def link_down(self, neighbour: int) -> None:
        super().link_down(neighbour)
        self._take([item for item in self._waiting if item[2] == neighbour])

    def _ack_received(self, frame: Frame, sender: int) -> None:
        super()._ack_received(frame, sender)
        link = self.links.get(sender)
        if link is not None and self._waiting:
            ready = [item for item in self._waiting if item[2] == sender and link.knows(item[1])]
            self._take(ready)
            for waiting, _, _ in ready:
                self._send(waiting, sender)

    # Frames along the graph.

    def forward_event(self, frame: Frame, event: Event, sender: int) -> None:
        """Send an event along the links that want it, except the one it came by."""
        matching = self.table.matching(event.attributes)
        matching.discard(sender)
        for neighbour in sorted(matching & self.links.keys()):
            self._counters["events forwarded"] += 1
            self._send(frame, neighbour)

    def forward_propagated(self, frame: Frame, pattern: bytes, sender: int) -> None:
        """Send PROPAGATED towards the holders of a pattern, once each link knows the pattern."""
        for neighbour in sorted(self.table.covering(pattern) & self.links.keys() - {sender}):
            if self.links[neighbour].knows(pattern):
                self._send(frame, neighbour)
            else:
                waiting = (frame, pattern, neighbour)
                if waiting in self._waiting:
                    continue
                if len(frame.body) > self._room:
                    self._counters["no room for what waits"] += 1
                    continue
                self._waiting[waiting] = None
                self._room -= len(frame.body)

    def _take(self, waiting: list[tuple[Frame, bytes, int]]) -> None:
        for entry in waiting:
            del self._waiting[entry]
            self._room += len(entry[0].body)

    def _send(self, frame: Frame, neighbour: int) -> None:
        if frame.ttl == 0 or frame.hops == 255:
            self._counters["time to live used up"] += 1
            return
        copy = frame.forwarded()._replace(destination=neighbour)
        self._host.send(neighbour, copy.encode())
