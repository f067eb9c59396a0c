"""A run comes to its end."""

from __future__ import annotations

from collections.abc import Iterator

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Endless(Property):
    """Virtual time does not stand still, and nodes do not send ever more."""

    timed = False

    def judges(self, observed: Observed) -> bool:
        return observed.began  # else `defect` says it

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        if observed.endless:
            yield Violation(observed.endless, observed.latest, kind=observed.endless_kind)
