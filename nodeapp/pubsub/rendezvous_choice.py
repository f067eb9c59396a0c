"""Over which rendezvous cell a subscriber takes a publisher's events: the shortest path.

The first event of a publisher comes over all rendezvous cells at which the node has subscribed.
Once it has come over all, or after `wait` seconds, the one with the fewest hops is chosen, and the
others are pruned.  Ties go to the first that notified, or to the nearest one.  Events that come
over another cell later are pruned again, unless they took fewer hops: then that one is chosen, and
told so, as it has been pruned before.

Source: docs/papers.md#georendezvous, section 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nodeapp.host import Host, Timer

Stream = tuple[str, int]
"""The events of one publisher on one topic."""
MAX_STREAMS: Final = 4096
"""Most streams whose choice is remembered."""


class _Choice:
    """The choice for one stream."""

    def __init__(self, event: tuple[int, int], timer: Timer) -> None:
        self.event = event
        """The event that decides the choice."""
        self.timer: Timer | None = timer
        self.hops: dict[int, int] = {}
        """By replica, in the order in which they notified."""
        self.chosen: int | None = None


class Choices:
    """The choices of one node.

    `prune(stream, replica)` is called for ways that are not taken, and `take(stream, replica)` for
    one that is taken after all.
    """

    def __init__(
        self,
        host: Host,
        wait: float,
        tie_break: str,
        prune: Callable[[Stream, int], None],
        take: Callable[[Stream, int], None],
    ) -> None:
        self._host = host
        self._wait = wait
        self._nearest_first = tie_break == "nearest"
        self._prune = prune
        self._take = take
        self._choices: dict[Stream, _Choice] = {}

    def notified(
        self,
        stream: Stream,
        event: tuple[int, int],
        replica: int,
        hops: int,
        tried: Sequence[int],
    ) -> None:
        """Note that an event has come over a replica; `tried` are all of them, the nearest first.

        `hops` are those from the publisher.
        """
        choice = self._choices.get(stream)
        if choice is None:
            if len(self._choices) >= MAX_STREAMS:
                return
            timer = self._host.call_later(self._wait, self._choose, stream, tuple(tried))
            choice = self._choices[stream] = _Choice(event, timer)
        if choice.chosen is None:
            if event == choice.event:
                choice.hops.setdefault(replica, hops)
                if choice.hops.keys() >= set(tried):
                    self._choose(stream, tried)
        elif replica == choice.chosen:
            choice.hops[replica] = hops
        elif hops < choice.hops[choice.chosen]:
            before, choice.chosen = choice.chosen, replica
            choice.hops[replica] = hops
            self._take(stream, replica)
            self._prune(stream, before)
        else:
            self._prune(stream, replica)

    def _choose(self, stream: Stream, tried: Sequence[int]) -> None:
        choice = self._choices[stream]
        if choice.timer is not None:
            choice.timer.cancel()
            choice.timer = None
        order = list(choice.hops)
        if self._nearest_first:
            order.sort(key=lambda replica: tried.index(replica) if replica in tried else len(tried))
        choice.chosen = min(order, key=choice.hops.__getitem__)
        for replica in order:
            if replica != choice.chosen:
                self._prune(stream, replica)

    def chosen(self, topic: str) -> tuple[int, ...] | None:
        """Return the replicas over which a topic's events come; None if that is not decided."""
        chosen = [choice.chosen for stream, choice in self._choices.items() if stream[0] == topic]
        if not chosen or None in chosen:
            return None
        return tuple(replica for replica in dict.fromkeys(chosen) if replica is not None)

    def publishers(self, topic: str, replica: int) -> list[int]:
        """Return the publishers of a topic whose events come over a replica."""
        return [
            stream[1]
            for stream, choice in self._choices.items()
            if stream[0] == topic and choice.chosen == replica
        ]

    def ways(self, stream: Stream) -> dict[int, int]:
        """Return the hops of a stream's ways, by replica, in the order in which they notified."""
        choice = self._choices.get(stream)
        return {} if choice is None else dict(choice.hops)

    def forget(self, topic: str) -> None:
        """Choose again for all streams of a topic."""
        for stream in [stream for stream in self._choices if stream[0] == topic]:
            timer = self._choices.pop(stream).timer
            if timer is not None:
                timer.cancel()
