"""No node app raises an exception."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import PurePath

from emulation.check.observed import Observed
from emulation.check.properties.base import Property, Violation
from nodeapp.pubsub.base import Promises


class Defect(Property):
    """No node app raises an exception."""

    timed = False

    def violations(self, observed: Observed, promises: Promises) -> Iterator[Violation]:
        for crash in observed.crashes:
            where = traceback.extract_tb(crash.error.__traceback__)[-1]
            what = type(crash.error).__name__
            yield Violation(
                f"{crash.node} raises {what} at {crash.time:g} s: {crash.error} "
                f"({PurePath(where.filename).name}, line {where.lineno})",
                crash.time,
                kind=f"{what} {where.name}",
            )
