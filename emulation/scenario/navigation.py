"""What navigators tell clients of their routes, as operations of a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from emulation.mobility.routes import Leg
from emulation.workloads.base import Operation


def announcements(routes: Iterable[tuple[int, Leg]]) -> tuple[Operation, ...]:
    """Return the operations that announce legs to the clients at nodes, in order of time."""
    operations = [
        Operation(
            time=max(leg.time, 0.0),
            node=node,
            action="navigate",
            event=dict(zip(Leg._fields[1:], leg[1:], strict=True)),
        )
        for node, leg in routes
    ]
    return tuple(sorted(operations, key=lambda operation: operation.time))
