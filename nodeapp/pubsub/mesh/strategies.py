"""What a serving broker does with an event for a client that may have gone: three ways.

All share the client table, the last hop and the handover; the differences are here.

  * `Prediction` (the paper, section IV.B): send it to the broker that Algorithm 1 picks.
  * `Probing` (section V.B): keep it until the client asks; the answer goes where that was heard.
  * `Batching` (section V.B): keep it while the client is under way; the broker where it arrives and
    reports gets all of them in the handover.  While the client has not left, it gets them at once.

What a new broker has fetched from the old one it sends at once: the client has just reported there.

Source: docs/papers.md#mesh-prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Protocol

from nodeapp.pubsub.mesh.session import Served

JUST: Final = 5.0
"""Seconds after a report in which the client is where it was heard."""

ROUNDS: Final = 60
"""How often a client that stays and was not found is looked for once more."""

Send = Callable[[Served, int, int, bool], None]
"""`send(served, index, broker, predicted)`: send an event to the client by way of a broker, with
the status by which others can find it if `predicted`."""


class Strategy(Protocol):
    """One of the three ways."""

    rounds: ClassVar[int]
    """How often a client that stays and was not found is looked for once more."""

    def took(self, served: Served, index: int, *, handed: bool) -> None:
        """A session has got an event, from the old broker if `handed`."""

    def reported(self, served: Served) -> None:
        """The client has reported here."""

    def probed(self, served: Served, access: int) -> None:
        """The client has asked, at the broker `access`."""


class _Common:
    """What all do if a client is known to be somewhere: send what it lacks there."""

    rounds: ClassVar[int] = ROUNDS

    def __init__(
        self, now: Callable[[], float], node: int, delay: Callable[[], float], send: Send
    ) -> None:
        self._now = now
        self._node = node
        self._delay = delay
        self._send = send

    def _forward(self, served: Served, index: int) -> None:
        """Send an event to the broker that Algorithm 1 picks."""
        elapsed = max(self._now() - served.reported, 0.0)  # T
        broker = served.path.forwarding_broker(elapsed, self._delay())
        self._send(served, index, broker, True)

    def reported(self, served: Served) -> None:
        """The client is here: send what it lacks."""
        for index in list(served.events):
            self._send(served, index, self._node, True)

    def _fetched(self, served: Served, index: int) -> None:
        """Send an event that comes from the old broker, here if the client has just reported."""
        if self._now() - served.reported < JUST:
            self._send(served, index, self._node, True)
        else:
            self._forward(served, index)

    def probed(self, served: Served, access: int) -> None:
        """Send what the client lacks to where it was heard."""
        for index in list(served.events):
            self._send(served, index, access, False)


class Prediction(_Common):
    """Events go to where the client is predicted to be."""

    def took(self, served: Served, index: int, *, handed: bool) -> None:
        """Send the event at once."""
        if handed:
            self._fetched(served, index)
        else:
            self._forward(served, index)


class Probing(_Common):
    """Events wait for the client's probes."""

    rounds = 0

    def took(self, served: Served, index: int, *, handed: bool) -> None:
        """Keep the event, unless the client has just reported."""
        if handed:
            self._fetched(served, index)


class Batching(_Common):
    """Events wait until the client has arrived."""

    def took(self, served: Served, index: int, *, handed: bool) -> None:
        """Keep the event if the client is under way."""
        status = served.path.status
        left = status.moves and self._now() - served.reported >= status.remaining
        if handed:
            self._fetched(served, index)
        elif not left:
            self._forward(served, index)

    def probed(self, served: Served, access: int) -> None:
        """Do nothing: what is kept goes where the client reports."""
