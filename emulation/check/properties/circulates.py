"""Frames of an event come to an end."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Circulates(Property):
    """No node still sends an event after the time that the protocol says it takes."""

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        changed = observed.settled - promises.settle
        for event, (time, sender) in observed.last_frames.items():
            publishing = observed.published.get(event)
            if publishing is None:
                continue
            since = publishing.time if publishing.time > changed else changed
            if time > since + promises.arrival:
                yield Violation(
                    f"{observed.name(sender)} still sends it at {time:g} s",
                    time,
                    event,
                )
