"""No client is notified twice of one event."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Twice(Property):
    """No client is notified twice of one event by a node app that ran all the time in between."""

    timed = False

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        first: dict[tuple[object, ...], float] = {}
        for notice in observed.notices:
            # Beside an event there may be others that a stranger publishes under its number.
            contents = notice.body if notice.event in observed.forgeries else b""
            key = (notice.node, observed.lives(notice.node, notice.time), notice.event, contents)
            if key not in first:
                first[key] = notice.time
                continue
            yield Violation(
                f"{observed.name(notice.node)} is notified of it at {first[key]:g} s "
                f"and again at {notice.time:g} s",
                notice.time,
                notice.event,
            )
