"""Nobody is notified of what no subscription of theirs matched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulation.check.observed import Notice, Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.events import Event
from nodeapp.pubsub.base import Promises

GRACE: Final = 1.0
"""Seconds after a client has unsubscribed in which a notification may still be under way to it."""


class Unmatched(Property):
    """Nobody is notified of an event that no subscription of theirs matches at that time."""

    timed = False

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        for notice in observed.notices:
            publishing = observed.published.get(notice.event)
            if notice.event in observed.forgeries:
                event = Event.decode(*notice.event, notice.body)
            elif publishing is None:
                continue  # another property judges that
            else:
                event = publishing.event
            over = False
            for interest in observed.interests:
                if interest.node == notice.node and interest.subscription.accepts(event):
                    if _covers(interest.start, interest.end, notice):
                        break
                    over = over or interest.start <= notice.time
            else:
                who = observed.name(notice.node)
                why = "which it had unsubscribed from" if over else "which it never asked for"
                yield Violation(
                    f"{who} is notified of it at {notice.time:g} s, {why}",
                    notice.time,
                    notice.event,
                    "over" if over else "never",
                )


def _covers(start: float, end: float | None, notice: Notice) -> bool:
    return start <= notice.time and (end is None or notice.time <= end + GRACE)
