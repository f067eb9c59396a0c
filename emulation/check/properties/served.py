"""Once all is quiet, every subscriber is served."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class SubscribersServed(Property):
    """In the quiet end, a subscriber hears of at least one of a publisher's matching events."""

    needs_end = True

    def applies(self, promises: Promises) -> bool:
        return promises.served

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        for interest, publishings in observed.expected():
            ids = [publishing.event.id for publishing in publishings]
            if not any(observed.notified(interest.node, event) for event in ids):
                yield Violation(
                    f"{observed.name(interest.node)} hears of none of the {len(ids)} events",
                    event=ids[0],
                )
