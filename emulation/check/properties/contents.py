"""An event arrives as it was published."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Contents(Property):
    """An event arrives byte for byte as it was published, and none arrives that was not."""

    timed = False

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        for notice in observed.notices:
            if notice.event in observed.forgeries:
                continue  # a stranger may have sent it
            who = observed.name(notice.node)
            publishing = observed.published.get(notice.event)
            if publishing is None:
                yield Violation(
                    f"{who} is notified at {notice.time:g} s of an event that nobody published",
                    notice.time,
                    kind="unknown",
                )
            elif publishing.event.encode() != notice.body:
                yield Violation(
                    f"{who} is notified of it at {notice.time:g} s with other contents",
                    notice.time,
                    notice.event,
                    "changed",
                )
