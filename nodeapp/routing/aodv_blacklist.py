"""AODV's blacklist: neighbours that hear nothing from this node (RFC 3561, section 6.8).

A node takes the first copy of each request only.  If that comes over a link that is one-way, its
reply is lost, and so is the next one, though there may be a way around that link.  So a node whose
reply a neighbour did not acknowledge ignores the requests that come from there for
BLACKLIST_TIMEOUT: the first copy from elsewhere counts then.

Either the link layer reports that, or the reply has the A flag (`reply_ack`), and no
ROUTE_REPLY_ACK comes within NEXT_HOP_WAIT.

Source: docs/papers.md#aodv.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from nodeapp.host import Host, Timer
from nodeapp.routing.aodv_parameters import AodvParameters

MAX_NEIGHBOURS: Final = 1024
"""Most neighbours on the list, and most waited for."""


class Blacklist:
    """The neighbours whose requests one node ignores."""

    def __init__(self, host: Host, parameters: AodvParameters, counters: Counter[str]) -> None:
        self._host = host
        self._counters = counters
        self._on = parameters.blacklist
        self._timeout = parameters.blacklist_timeout
        self._wait = parameters.next_hop_wait
        self._until: dict[int, float] = {}
        self._awaited: dict[int, Timer] = {}

    def refuses(self, neighbour: int, now: float) -> bool:
        """Return whether requests of a neighbour are to be ignored."""
        if not self._until:
            return False
        if self._until.get(neighbour, -math.inf) <= now:
            return False
        self._counters["requests of blacklisted neighbours"] += 1
        return True

    def failed(self, neighbour: int) -> None:
        """Note that a neighbour did not acknowledge a reply, as the link layer reports."""
        self._stop_waiting(neighbour)
        self._add(neighbour)

    def _expired(self, neighbour: int) -> None:
        del self._awaited[neighbour]
        self._add(neighbour)

    def _add(self, neighbour: int) -> None:
        if not self._on:
            return
        now = self._host.now()
        if len(self._until) >= MAX_NEIGHBOURS:
            self._until = {node: until for node, until in self._until.items() if until > now}
        if neighbour in self._until or len(self._until) < MAX_NEIGHBOURS:
            self._counters["blacklisted"] += 1
            self._until[neighbour] = now + self._timeout

    def expect(self, neighbour: int) -> None:
        """Wait for a neighbour's acknowledgement of a reply that is sent to it now."""
        if neighbour not in self._awaited and len(self._awaited) < MAX_NEIGHBOURS:
            self._awaited[neighbour] = self._host.call_later(self._wait, self._expired, neighbour)

    def acknowledged(self, neighbour: int) -> None:
        """Take a neighbour's acknowledgement: the link carries both ways."""
        self._stop_waiting(neighbour)

    def _stop_waiting(self, neighbour: int) -> None:
        timer = self._awaited.pop(neighbour, None)
        if timer is not None:
            timer.cancel()
