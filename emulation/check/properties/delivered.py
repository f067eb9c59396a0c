"""Once all is quiet, every matching event is delivered."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Delivered(Property):
    """In the quiet end, a subscriber hears of every event that it matches."""

    needs_end = True

    def applies(self, promises: Promises) -> bool:
        return promises.delivered

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        for interest, publishings in observed.expected():
            for publishing in publishings:
                if not observed.notified(interest.node, publishing.event.id):
                    yield Violation(
                        f"{observed.name(interest.node)} never hears of it",
                        event=publishing.event.id,
                    )
